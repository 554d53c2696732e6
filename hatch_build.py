"""What is built knows the commit it was built from, if that is a checkout of git; a wheel has the core tests."""

import ast
import os
import runpy
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_PACKAGE = '''"""The core tests: pytest --pyargs residua -m core. They import what they share as tests.…"""

import sys

sys.modules.setdefault("tests", sys.modules[__name__])
'''


def core_tests(root: Path) -> set[Path]:
    """The files of the core tests and what they import of each other.

    Left out are those of the repository, which a wheel has not, and of all engines, which need servers.
    """
    core = runpy.run_path(str(root / "tests" / "core.py"))["CORE"]
    rest = [root / "tests" / file for file in core if "/" in file and "engines" not in file]
    rest += [root / "tests" / "conftest.py"]
    kept: set[Path] = set()
    while rest:
        file = rest.pop()
        if file in kept or not file.is_file():
            continue
        kept.add(file)
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests":
                names = [node.module or "", *(f"{node.module}.{each.name}" for each in node.names)]
                rest += [root / f"{name.replace('.', '/')}.py" for name in names]
    return kept


class CustomBuildHook(BuildHookInterface):
    """Adds the commit, which an sdist carries on to the wheel that is made of it, and to a wheel the core tests."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Asks git before anything is built."""
        if version == "editable":
            return
        if self.target_name == "wheel":
            package = Path(tempfile.mkdtemp()) / "__init__.py"
            package.write_text(_PACKAGE, "utf-8")
            build_data["force_include"][str(package)] = "residua/tests/__init__.py"
            for file in sorted(core_tests(Path(self.root))):
                build_data["force_include"][str(file)] = f"residua/{file.relative_to(self.root).as_posix()}"
        asked = ["git", "-C", self.root, "rev-parse", "--verify", "HEAD"]
        if not (Path(self.root) / ".git").exists():
            return
        commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        file = Path(tempfile.mkdtemp()) / "commit.txt"
        file.write_text(f"{commit}\n")
        source = "src/" if self.target_name == "sdist" else ""
        build_data["force_include"][str(file)] = f"{source}residua/commit.txt"


class CustomMetadataHook(MetadataHookInterface):
    """Where the project lives is set by whoever publishes it: RESIDUA_REPOSITORY, the address of the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the addresses that follow from it; none without."""
        home = os.environ.get("RESIDUA_REPOSITORY", "").rstrip("/")
        pages = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
        metadata["urls"] = {name: home + page for name, page in pages.items()} if home else {}
