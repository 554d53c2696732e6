"""What is built knows the commit it was built from: residua/commit.txt, if the sources are a checkout of git."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Adds the commit; an sdist carries it on to the wheel that is made of it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Asks git before anything is built."""
        asked = ["git", "-C", self.root, "rev-parse", "--verify", "HEAD"]
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        file = Path(tempfile.mkdtemp()) / "commit.txt"
        file.write_text(f"{commit}\n")
        source = "src/" if self.target_name == "sdist" else ""
        build_data["force_include"][str(file)] = f"{source}residua/commit.txt"
