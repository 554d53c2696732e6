"""Between reading and counting: each person's records are gathered and chosen among."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import SourceError
from residua.source.bound import Bound
from residua.source.choosing import Loss
from residua.source.gathering import Gathering
from residua.source.options import Options
from residua.source.problems import Problems

# Columns of codes, which rows of them (all when not given), and how many records each stands for.
Columns = Sequence[NDArray[np.integer[Any]]]
Count = Callable[[Columns, NDArray[np.intp] | None, NDArray[np.int64]], None]


class Persons:
    """Rows on their way to the tables: each person's are gathered and chosen among; nobody's follow their policy."""

    def __init__(self, options: Options, bound: Bound, gathering: Gathering | None = None) -> None:
        self._names, self._policy = options.person, options.no_person
        self._bound = bound
        self._gathering = gathering or Gathering(bound, weighted=options.weight is not None)
        self.nobody = 0
        self._apart = 0

    @property
    def loss(self) -> Loss:
        """What was left out, once finished."""
        return self._gathering.loss + Loss.of_persons_apart(self._apart)

    def __enter__(self) -> Persons:
        return self

    def __exit__(self, *problem: object) -> None:
        self._gathering.close()

    def add(
        self,
        batch: Any,
        codes: Columns,
        kept: NDArray[np.intp] | None,
        weights: NDArray[np.int64] | None,
        problems: Problems,
        count: Count,
    ) -> None:
        """Adds the kept rows of a batch (all when not given)."""
        from residua.source.ids import person_hashes  # loads Arrow

        try:
            columns = [batch.column(batch.schema.names.index(name)) for name in self._names]
            persons, absent = person_hashes(columns, self._names, self._bound.person_key)
        except SourceError as problem:
            problems.say(str(problem))
            return
        rows = np.arange(len(absent)) if kept is None else kept
        nobody = rows[absent[rows]]
        if len(nobody):
            self._without(codes, nobody, weights, problems, count)
            rows = rows[~absent[rows]]
        chosen = [column[rows] for column in codes]
        self._gathering.add(persons[rows], chosen, None if weights is None else weights[rows])

    def _without(
        self,
        codes: Columns,
        rows: NDArray[np.intp],
        weights: NDArray[np.int64] | None,
        problems: Problems,
        count: Count,
    ) -> None:
        if self._policy == "refuse":
            named = ", ".join(map(repr, self._names))
            problems.say(
                f"column {named} does not say of every record whose it is; fill it in, or say no_person='drop', or "
                "no_person='apart' where no two such records are one person's."
            )
            return
        records = len(rows) if weights is None else int(weights[rows].sum())
        if self._policy == "drop":
            self.nobody += records
        else:
            self._apart += records
            count(codes, rows, np.ones(len(codes[0]), np.int64) if weights is None else weights)

    def finish(self, count: Count, progress: Callable[[int], None]) -> None:
        """Chooses, and hands what is counted to the tables; says after each part how many rows were chosen among."""
        for codes, counts in self._gathering.chosen():
            count(codes, None, counts)
            progress(self._gathering.done)
