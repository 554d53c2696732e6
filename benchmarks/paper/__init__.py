"""The five papers, each by one command: every table beside our figures, every figure drawn, one page per paper.

What is printed stands in `published.json`, the one home of these numbers; `tests/papers` read the same tables.
"""

import json
from pathlib import Path
from typing import Any

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text(encoding="utf-8"))
