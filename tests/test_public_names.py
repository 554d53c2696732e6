"""The public surface is the root `__all__`: a change of it is a change of the contract, and of the reference."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import residua as rs
from scripts import reference


def test_the_public_names_are_those_of_the_reference():
    documented = [name for _, names in reference.GROUPS for name in names.split() if ":" not in name]
    assert sorted(documented) == rs.__all__ == sorted(set(dir(rs)) - {"__version__"})


def test_every_public_name_exists_and_explains_itself():
    for name in rs.__all__:
        assert getattr(rs, name).__doc__, name


def test_names_are_known_and_nothing_is_loaded_where_the_package_is_a_zip(tmp_path):
    """As Spark ships packages to executors."""
    root = Path(rs.__file__).parent
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        for name in ("__init__.py", "__init__.pyi", "showing.py"):
            packed.write(root / name, f"residua/{name}")
    code = "import residua, sys; print(len(residua.__all__), 'numpy' in sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, 'packed.zip'); {code}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(rs.__all__)} False\n"


def test_the_page_of_stability_lists_what_is_provisional():
    page = (Path(__file__).parents[1] / "docs" / "stability.md").read_text()
    [line] = [line for line in page.splitlines() if line.startswith("| **provisional**")]
    assert set(re.findall(r"`rs\.(\w+)`", line)) == set(reference.PROVISIONAL)
    assert set(rs.__all__) > reference.PROVISIONAL
