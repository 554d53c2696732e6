"""Doctests of a subpackage alone must see the public names: `rs.plan` is the function, not the folder."""

import residua  # noqa: F401
