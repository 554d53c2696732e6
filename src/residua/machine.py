"""What the machine has: processors, and memory that is free, here and in the container this process runs in."""

from __future__ import annotations

import os
import re
from pathlib import Path


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_bytes() -> int | None:
    """How many bytes of memory are free; None where that is unknown."""
    known = [_available(), _container()]
    return min((one for one in known if one is not None), default=None)


def _available() -> int | None:
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _container() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        cache = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), flags=re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(limit) - used + int(cache[1] if cache else 0) if limit.isdigit() else None
