"""Data that was checked and can be counted: one snapshot for both, and one reading where memory suffices, else two.

The reading that checks sees that the records fit, and digests them. Their codes (and whose records they are, where
persons are bounded) are kept in memory and counted after the debit: what is counted is what was checked. Only where
they are too many for that is the source read again; then both are digested, and another digest means that the data
changed, and nothing is counted. An engine that counts by itself keeps nothing, and counts twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from residua.errors import SourceError
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.machine import free_bytes

if TYPE_CHECKING:
    from residua.domain import Domain
    from residua.source.bound import Bound
    from residua.source.counting import Counted, Progress
    from residua.source.records import Records
    from residua.source.some_groups import SomeGroups

_MOST_KEPT = 1 << 30  # bytes


@dataclass(eq=False, repr=False)
class Checked:
    """Records that fit a domain, until they are forgotten.

    Args:
        records: how many there are; confidential.
        fingerprint: of the dataset they are.
        count: counts the tables of a layout, where the records are kept of some groups alone, if asked. It raises a
            SourceError when the data is no longer what was checked.
        given_up: gives up what is kept of the records.
        kept: whether the records are kept, so that counting again reads nothing.
    """

    records: int
    fingerprint: str
    count: Callable[..., Counted]
    given_up: Callable[[], None]
    kept: bool = False

    def forget(self) -> None:
        """Gives up all but the fingerprint: the frames of an error may keep this object for long."""
        self.given_up()
        self.records, self.count = 0, _forgotten

    def __repr__(self) -> str:
        return "Checked(confidential)"


def _forgotten(*_: object) -> Counted:
    raise AssertionError("what was checked is forgotten")


def checked(
    source: Records, domain: Domain, progress: Progress | None, bound: Bound | None, *, keep: bool = True
) -> Checked:
    """Reads a source once: what `Source.checked` does. An engine that counts by itself has no codes to `keep`."""
    from residua.source.counting import count, count_kept
    from residua.source.kept import Kept

    total = layout_of(closure([], len(domain)), domain.sizes)  # one table of one cell: how many records there are
    # Which records of a person are counted is decided by the ledger's key, after the debit: ids are kept as they are.
    ids = source.options.person if bound is not None else ()
    room = min(_MOST_KEPT, (free_bytes() or _MOST_KEPT) // 4)
    kept = Kept(domain, room, ids) if keep else None
    first = (
        source.count(domain, total, progress, bound)
        if kept is None
        else count(source, domain, total, progress, bound, keep=kept)
    )

    def again(
        layout: Layout, progress: Progress | None, bound: Bound | None, only: SomeGroups | None = None
    ) -> Counted:
        if kept is not None and kept.whole:
            return count_kept(kept, source.options, domain, layout, first, progress, bound, only)
        assert only is None  # asked for where records are kept alone
        try:
            counted = source.count(domain, layout, progress, bound)
        except SourceError as problem:
            raise SourceError(f"the data changed after it was checked: {problem}") from None
        if counted.fingerprint != first.fingerprint:
            hint = "" if source.repeatable else " (or it gives other records at every reading: leave out chance)"
            raise SourceError(f"the data changed after it was checked{hint}.")
        return counted

    given_up = kept.forget if kept is not None else lambda: None
    return Checked(int(first.tables[0]), first.fingerprint, again, given_up, kept is not None and kept.whole)
