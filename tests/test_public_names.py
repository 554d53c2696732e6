"""The public surface is the root `__all__`: a change of it is a change of the contract, and of the reference."""

import residua as rs
from scripts import reference


def test_the_public_names_are_those_of_the_reference():
    documented = [name for _, names in reference.GROUPS for name in names.split() if ":" not in name]
    assert sorted(documented) == rs.__all__ == sorted(set(dir(rs)) - {"__version__"})


def test_every_public_name_exists_and_explains_itself():
    for name in rs.__all__:
        assert getattr(rs, name).__doc__, name
