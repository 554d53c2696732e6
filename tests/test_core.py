"""The table of the laws that matter names files and tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core import CORE, is_core

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", CORE)
def test_every_file_and_test_of_the_table_is_there(file):
    written = re.findall(r"^def (test_\w+)", (HERE / file).read_text(), re.MULTILINE)
    assert set(CORE[file]) <= set(written)
    assert any(is_core(file, test) for test in written)


def test_the_mark_is_put_where_the_table_says(request):
    assert request.node.get_closest_marker("core")
    assert not is_core("laws/test_optimality.py", "test_anything")
