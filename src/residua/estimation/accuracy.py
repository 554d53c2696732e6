"""How accurate an estimated table is said to be, and on what grounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

from residua.domain import Domain
from residua.estimation.facts import Members
from residua.estimation.tables import Interaction
from residua.linalg.arrays import Floats

ODD = 5.0  # standard deviations above what noise explains: then measurements contradict the model


@dataclass(frozen=True)
class TableAccuracy:
    """What is said of one estimated table.

    Args:
        attributes: the table's attributes.
        rmse: the estimated root mean square error of a cell: the posterior variance of what the model leaves open, the
            noise that the model took for signal (by simulation), and what errors of margins pass on. An estimate, not
            a bound.
        shrunk: how far the measured interactions were moved to the model, from 0 (as measured) to 1 (the model);
            None where no interaction of its attributes was measured.
        measured: the sets of attributes whose interactions were measured, the table's own last if it was.
        unmeasured: those that were not: there the model alone speaks.
        unknown: those of `unmeasured` about whose strength nothing measured says anything: `rmse` takes them to vary as
            a sample of so many records does, and may be too small.
        contradicted: the sets whose measurements the model does not explain; there the measurements decide.
        apart: how far the table is from the margins it shares with others, in counts.
    """

    attributes: tuple[str, ...]
    rmse: float
    shrunk: float | None
    measured: tuple[tuple[str, ...], ...]
    unmeasured: tuple[tuple[str, ...], ...]
    unknown: tuple[tuple[str, ...], ...]
    contradicted: tuple[tuple[str, ...], ...]
    apart: float

    def __str__(self) -> str:
        words = [f"root mean square error about {self.rmse:,.3g}"]
        if self.unknown:
            words.append(f"more if {_listed(self.unknown)} interact")
        if self.shrunk is not None:
            words.append(f"interactions shrunk by {self.shrunk:.0%}")
        if self.unmeasured:
            words.append(f"not measured: {_listed(self.unmeasured)}")
        if self.contradicted:
            words.append(f"measurements contradict the model: {_listed(self.contradicted)}")
        return "; ".join(words)


def _listed(sets: tuple[tuple[str, ...], ...], most: int = 5) -> str:
    shown = ", ".join(" × ".join(names) for names in sets[:most])
    return f"{shown} and {len(sets) - most:,} more" if len(sets) > most else shown


def _passed_on(errors: dict[Members, float], members: Members, sizes: dict[int, int], uneven: Floats) -> float:
    """The squared error that a residual has from those below it.

    An error of a table is spread over another attribute as the records of its cells are, not evenly: its square grows
    by `Σ p²`, of which `1/n` stays in the smaller table's own residual. Of a cell of several attributes, `Σ p²` is at
    least what each of them alone says.
    """

    def spread(subset: Members, i: int) -> float:
        return max(max(float(uneven[j, i]) for j in (i, *subset)) - 1.0 / sizes[i], 0.0)

    return sum(
        errors[subset] * math.prod(spread(subset, i) for i in members if i not in subset)
        for size in range(len(members))
        for subset in combinations(members, size)
    )


def accuracy_of(
    domain: Domain, asked: tuple[str, ...], found: dict[Members, Interaction], concentrations: Floats, total: float
) -> TableAccuracy:
    """The accuracy of the table of all attributes in `found`.

    Residuals are orthogonal, so the squared error is `Σ_S Π_{i∉S} 1/n_i · error_S`, summed over cells. Each error is
    the residual's own and what smaller ones pass on, as far as it is not as measured. Interactions of three or more
    attributes, and unknown ones, vary at least as a sample of the records does: `N Π (1 − Σ p²)`.
    `concentrations` are those of `Fitted`.
    """
    members = max(found, key=len)
    sizes = {i: int(domain.sizes[i]) for i in members}
    own: dict[Members, float] = {}
    error, before, after = 0.0, 0.0, 0.0
    named: dict[str, list[tuple[str, ...]]] = {"measured": [], "unmeasured": [], "unknown": [], "odd": []}
    for subset, one in found.items():  # smaller sets first
        left = 0.0 if one.exact else 1.0 if math.isnan(one.kept) else (1.0 - min(max(one.kept, 0.0), 1.0)) ** 2
        own[subset] = 0.0 if math.isnan(one.error) else one.error
        if len(subset) > 2 or (math.isnan(one.error) and subset):
            drawn = total * math.prod(max(1.0 - float(concentrations[i, i]), 0.0) for i in subset)
            own[subset] = max(own[subset], left * drawn)
        whole = own[subset] + left * _passed_on(own, subset, sizes, concentrations)
        error += whole / math.prod(sizes[i] for i in members if i not in subset)
        if not subset:
            continue
        names = tuple(domain.names[i] for i in subset)
        empty = any(sizes[i] == 1 for i in subset)
        if not empty:
            named["measured" if one.measured else "unmeasured"].append(names)
        if math.isnan(one.error):
            named["unknown"].append(names)
        if len(subset) > 1 and not math.isnan(one.kept):
            before += 1.0
            after += min(max(one.kept, 0.0), 1.0)
        if len(subset) > 1 and one.doubt > ODD:
            named["odd"].append(names)
    return TableAccuracy(
        asked,
        math.sqrt(error / math.prod(sizes.values())),
        1.0 - after / before if before else None,
        tuple(named["measured"]),
        tuple(named["unmeasured"]),
        tuple(named["unknown"]),
        tuple(named["odd"]),
        max(one.apart for one in found.values()),
    )
