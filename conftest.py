"""Doctests of one file alone must see the public names: `rs.measure` is the function, not its module of the same name.

Names are looked up when they are first used, and pytest would set a module that it imports by itself in their place.
"""

import residua

for _name in residua.__all__:
    getattr(residua, _name)
