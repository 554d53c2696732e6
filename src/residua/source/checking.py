"""Data that was checked and can be counted: one snapshot for both, and one reading where memory suffices, else two.

The reading that checks sees that the records fit, and digests them. Their codes (and whose records they are, where
persons are bounded) are kept in memory and counted after the debit: what is counted is what was checked. Only where
they are too many for that is the source read again; then both are digested, and another digest means that the data
changed, and nothing is counted. An engine that counts by itself keeps nothing, and counts twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from residua.errors import SourceError
from residua.linalg.lattice import Layout, closure, layout_of
from residua.machine import free_bytes
from residua.source.counting import Counted, Counting, count
from residua.source.kept import KeptCodes
from residua.source.tallies import Problems, Tallies

if TYPE_CHECKING:
    from residua.domain import Domain
    from residua.source.bound import PersonBound
    from residua.source.counting import Progress
    from residua.source.kept import SomeGroups
    from residua.source.records import Records

_MOST_KEPT = 1 << 30  # bytes


class Checked:
    """Records that were read once and fit a domain, until they are forgotten; what is printed holds none.

    Attributes:
        records: how many there are; confidential.
        fingerprint: of the dataset they are.

    Args:
        source: the records.
        domain: what they may hold.
        progress: called after each batch.
        bound: how many records of each person are counted.
        keep: whether codes are kept; an engine that counts by itself has none to keep.
    """

    def __init__(
        self,
        source: Records,
        domain: Domain,
        progress: Progress | None,
        bound: PersonBound | None,
        *,
        keep: bool = True,
    ) -> None:
        total = layout_of(closure([], len(domain)), domain.sizes)  # one table of one cell: how many records there are
        # Which records of a person are counted is decided by the ledger's key, after the debit: ids are kept as is.
        ids = source.options.person if bound is not None else ()
        room = min(_MOST_KEPT, (free_bytes() or _MOST_KEPT) // 4)
        self._source: Records | None = source
        self._domain = domain
        self._codes = KeptCodes(domain, room, ids) if keep else None
        first = (
            source.count(domain, total, progress, bound)
            if self._codes is None
            else count(source, domain, total, progress, bound, keep=self._codes)
        )
        self.records, self.fingerprint = int(first.tables[0]), first.fingerprint
        self._tallies = first.tallies

    @property
    def kept(self) -> bool:
        """Whether the codes are kept, so that counting again reads nothing."""
        return self._codes is not None and self._codes.whole

    def count(
        self, layout: Layout, progress: Progress | None, bound: PersonBound | None, only: SomeGroups | None = None
    ) -> Counted:
        """Counts the tables of a layout; where the codes are kept of some groups alone, if asked.

        Raises:
            SourceError: the data is no longer what was checked.
        """
        source = self._source
        assert source is not None, "what was checked is forgotten"
        if self.kept:
            return self._count_kept(source, layout, progress, bound, only)
        assert only is None  # asked for where records are kept alone
        try:
            counted = source.count(self._domain, layout, progress, bound)
        except SourceError as problem:
            raise SourceError(f"the data changed after it was checked: {problem}") from None
        if counted.fingerprint != self.fingerprint:
            hint = "" if source.repeatable else " (or it gives other records at every reading: leave out chance)"
            raise SourceError(f"the data changed after it was checked{hint}.")
        return counted

    def _count_kept(
        self,
        source: Records,
        layout: Layout,
        progress: Progress | None,
        bound: PersonBound | None,
        only: SomeGroups | None,
    ) -> Counted:
        assert self._codes is not None
        rows, done, problems = self._codes.rows, 0, Problems(self._domain.names, False)
        with Counting(layout, source.options, bound, rows, only=only) as counting:
            for codes, weights, ids in self._codes.batches():
                counting.add(ids, codes, None, weights, problems)
                done += len(codes[0])
                if progress is not None:
                    progress(done, rows)
            problems.stop()
            tables = counting.finish()
            # The policies did what they did when the codes were read.
            tally = (self._tallies.dropped, self._tallies.other, counting.nobody, counting.loss)
            return Counted(*tally, tables=tables, fingerprint=self.fingerprint)

    def forget(self) -> None:
        """Gives up all but the fingerprint: the frames of an error may keep this object for long."""
        if self._codes is not None:
            self._codes.forget()
        self.records, self._source, self._tallies = 0, None, Tallies({}, {})

    def __repr__(self) -> str:
        return "Checked(confidential)"
