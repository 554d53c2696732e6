"""What names tell: the kind of a file by its suffix, and which column was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_SUFFIXES: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".txt"),
    "tsv": (".tsv",),
    "feather": (".feather", ".arrow", ".ipc"),
    "jsonl": (".jsonl", ".ndjson"),
}
_PACKED = (".gz", ".bz2", ".zst")


def kind_by_suffix(path: str) -> str | None:
    """The kind of a file by the end of its name, packed or not."""
    lowered = path.lower()
    for packed in _PACKED:
        lowered = lowered.removesuffix(packed)
    return next((kind for kind, suffixes in _SUFFIXES.items() if lowered.endswith(suffixes)), None)


def missing_columns(missing: Sequence[str], there: Sequence[str], where: str) -> str:
    """The sentence that says which columns are not there, and what was probably meant."""
    near = {name: get_close_matches(name, there, n=1, cutoff=0.6) for name in missing}
    named = ", ".join(repr(name) + (f" (is it {near[name][0]!r}?)" if near[name] else "") for name in missing)
    listed = ", ".join(repr(name) for name in there[:12]) + (", …" if len(there) > 12 else "")
    return f"{where} has no column {named}; it has {listed or 'none'}: rename the column or the attribute."
