"""What every operator offers: noise along one attribute, its total included, and what is measured for it.

An operator A has n values and the covariance `Σ = A⁻¹` of what it tells of them. A plan crosses operators with sets T
of short attributes, `Γ = Σ_T C_T ⊗ A_T` (`plans/product`): along the attribute an operator measures each cell of the
residual on T by itself, with the same noise. All that a plan asks of an operator is here; a new structure is one more
file that implements what has no default (`tests/laws/test_toy_operator.py` is the smallest).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from residua.domain import Attribute
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.path import over_running_sums
from residua.machine import csr_array
from residua.plans.noise import NORMAL, Noise
from residua.plans.tails import mixed_reach
from residua.privacy import Unit
from residua.privacy.costs import by_cells
from residua.workload import AttributeQueries

MOST_ROWS = 2**26  # over prefix sums
MOST_DENSE = 4096  # values of an attribute whose operator is written out as a matrix


class Operator(ABC):
    """Noise along one attribute. What is asked is None for the total of the attribute."""

    kind: ClassVar[str]  # what files call it
    poses: ClassVar[str] = ""  # its own projection problem (`projection/problems.py`); none: by its estimates alone
    readers: ClassVar[dict[str, Callable[..., Operator]]] = {}
    correlated: ClassVar[bool] = False  # whether its noise is, along the attribute
    size: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            Operator.readers[cls.kind] = cls.of_body

    @property
    def noise(self) -> Noise:
        """What is added to every integer."""
        return NORMAL

    @property
    def levels(self) -> tuple[Any, ...]:
        """The parents of nodes on the declared levels, where it measures these."""
        return ()

    @property
    def has_values(self) -> bool:
        """Whether the table of the attribute is measured; the total alone is not."""
        return True

    # ---- accuracy

    def variances(self, asked: AttributeQueries | None) -> Floats:
        """The variance of every row asked, (rows,); infinite where it cannot be answered."""
        return self.row_variances(self._coefficients(asked))

    def mean_variance(self, asked: AttributeQueries | None) -> float:
        """The mean variance of the rows asked, of more rows than could be listed."""
        return float(self.variances(asked).mean())

    def largest_variance(self, asked: AttributeQueries | None) -> float:
        """The largest variance of the rows asked, or a bound of it; infinite where there are too many to look at."""
        return float(self.variances(asked).max())

    def covariances(self, asked: AttributeQueries | None, other: AttributeQueries | None) -> Floats:
        """Covariances of rows, all of them answerable, (rows, rows)."""
        return self.row_covariances(self._coefficients(asked), self._coefficients(other))

    def _coefficients(self, asked: AttributeQueries | None) -> csr_array:
        """What is asked, as rows over the values, (rows, n)."""
        return csr_array(np.ones((1, self.size))) if asked is None else asked.sparse()

    @abstractmethod
    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each row of coefficients over the values, (rows, n); infinite where it has no answer."""

    @abstractmethod
    def row_covariances(self, rows: csr_array, others: csr_array) -> Floats:
        """Covariances of rows of coefficients over the values, all of them answerable, (rows, rows)."""

    def beside_total(self, share: float) -> Floats | None:
        """The variances of all prefix sums less a share of the total, (n,); None where there is no quick way."""
        return None

    # ---- intervals under Laplace noise

    def reaches(self, asked: AttributeQueries | None, chance: float) -> Floats:
        """How many standard deviations the error of each row asked may stray, but for this chance, (rows,)."""
        raise NotImplementedError

    def row_reaches(self, rows: csr_array, chance: float) -> Floats:
        """The same for rows of coefficients over the values, (rows,)."""
        raise NotImplementedError

    def any_reach(self, count: int, chance: float) -> Floats:
        """The same for any rows whatever, (count,)."""
        return mixed_reach(np.full(count, self.largest_share), chance)

    @property
    def largest_share(self) -> float:
        """The largest share that the noise of one measurement has in the variance of any answer, or a bound of it."""
        raise NotImplementedError

    # ---- algebra

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The operator with its precision multiplied."""

    def ratio_to(self, other: Operator) -> float | None:
        """By how much this operator is more precise than one that is the same but for a factor; None for any other."""
        return None

    @abstractmethod
    def root(self) -> Floats:
        """Rows L with `LᵀL = A`, (rows, n), of few values.

        Raises:
            PlanError: too many values for a matrix.
        """

    # ---- measuring

    def exactly_priced(self, unit: Unit) -> bool:
        """Whether the price is what the unit really costs, and no bound alone."""
        return by_cells(unit)

    @abstractmethod
    def piece(self, members: tuple[int, ...], sizes: tuple[int, ...]) -> Piece:
        """What is measured of the residual on some short attributes, with noise rounded up.

        Raises:
            VerificationError: noise too large or too small for exact sampling.
        """

    # ---- what people are shown, and files

    def described(self, attribute: Attribute, name: str) -> tuple[str, str]:
        """How the attribute is measured, with a heading."""
        return self.kind.capitalize(), f"{self.size:,} values of {name!r}"

    @abstractmethod
    def to_body(self) -> dict[str, Any]:
        """The operator as plain values."""

    @classmethod
    @abstractmethod
    def of_body(cls, body: dict[str, Any], attribute: Attribute, axes: Sequence[Any]) -> Operator:
        """The operator that plain values describe, with the correlated noises that operators of one file share."""

    def require_short(self) -> None:
        """Refuses an attribute that is too long for a matrix.

        Raises:
            PlanError: it is.
        """
        if self.size > MOST_DENSE:
            raise PlanError(
                f"an attribute of {self.size:,} values is too long for a matrix; combine plans that take the same "
                "noise along it (form=rs.Tree(like=other), form=rs.Lattice(like=other)), or measure it by itself."
            )


# ---- accuracy, along ordered attributes


class PrefixOperator(Operator):
    """Noise along an ordered attribute whose facts are those of prefix sums."""

    @abstractmethod
    def prefix_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of prefix sums, (rows,), from rows over them, (rows, n)."""

    @abstractmethod
    def prefix_covariances(self, rows: csr_array, others: csr_array) -> Floats:
        """Covariances of combinations of prefix sums, (rows, rows)."""

    def over_prefixes(self, asked: AttributeQueries | None) -> csr_array:
        """What is asked, as rows over prefix sums, (rows, n)."""
        return total_row(self.size) if asked is None else running_rows(asked)

    def variances(self, asked: AttributeQueries | None) -> Floats:
        """From prefix sums."""
        return self.prefix_variances(self.over_prefixes(asked))

    def covariances(self, asked: AttributeQueries | None, other: AttributeQueries | None) -> Floats:
        """From prefix sums."""
        return self.prefix_covariances(self.over_prefixes(asked), self.over_prefixes(other))

    def row_variances(self, rows: csr_array) -> Floats:
        """From prefix sums."""
        return self.prefix_variances(over_running_sums(rows))

    def row_covariances(self, rows: csr_array, others: csr_array) -> Floats:
        """From prefix sums."""
        return self.prefix_covariances(over_running_sums(rows), over_running_sums(others))


def running_rows(asked: AttributeQueries) -> csr_array:
    """One row over prefix sums for each query, (queries, n).

    Raises:
        PlanError: too many of them for an array.
    """
    if asked.rows > MOST_ROWS:
        raise PlanError(
            f"{asked.rows:,} queries along one axis are too many to list; ask for their mean (per='term') or for "
            "single ones."
        )
    return asked.prefix_rows()


def total_row(n: int) -> csr_array:
    """The total of n values as a row over their prefix sums, (1, n)."""
    return csr_array((np.ones(1), ([0], [n - 1])), shape=(1, n))


def operator_of_body(body: dict[str, Any], attribute: Attribute, axes: Sequence[Any]) -> Operator:
    """The operator that plain values describe."""
    return Operator.readers[body["kind"]](body, attribute, axes)


# ---- what is measured, and what a record costs


@dataclass(frozen=True)
class RecordCosts:
    """What one record costs a piece.

    Args:
        even: the part that is the same for all values of the attribute, exactly.
        uneven: the part that differs, (n,), in floats; None where there is none.
        error: by how much, relatively, a float may be too small.
        opposed: whether two records may share less than nothing of what is measured along the attribute.
        replaced: for Laplace noise, what one replaced record costs.
    """

    even: Fraction
    uneven: Floats | None = None
    error: Fraction = Fraction(0)
    opposed: bool = False
    replaced: Fraction = Fraction(0)


@dataclass(frozen=True, eq=False)
class Piece(ABC):
    """What is really measured of the residual on some short attributes, along one: integers and noise scales.

    Small and trusted: it makes the integers and says what a record costs, from the same numbers.

    Args:
        members: the short attributes, by position.
        sizes: how many values each has.
        operator: as it is really measured, the rounding of noise included.
        grid: t, what the integer residual is multiplied by.
    """

    members: tuple[int, ...]
    sizes: tuple[int, ...]
    operator: Operator
    grid: int

    @property
    def fibres(self) -> int:
        """How many cells the residual has: what is measured of each along the attribute."""
        return math.prod(self.sizes)

    @property
    def unit(self) -> float:
        """What one count of the residual is on the integer grid: `t Π n_i`."""
        return float(self.grid * self.fibres)

    @property
    def heaviest(self) -> int:
        """`Π n_i (n_i − 1)`: the squared norm of a column of the integer residual."""
        return math.prod(n * (n - 1) for n in self.sizes)

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many integers are measured."""

    @property
    def largest(self) -> int:
        """How much one record changes an integer at most: `t Π n_i`, where it is counted once."""
        return self.grid * self.fibres

    @abstractmethod
    def record_costs(self, size: int) -> RecordCosts:
        """What one record costs, from what is really drawn, along an attribute of so many values.

        Raises:
            VerificationError: what is measured does not fit, or noise that cannot be sampled exactly.
        """

    @property
    @abstractmethod
    def scale_list(self) -> Floats:
        """All noise scales, flat: what a saved release keeps, to compare with the plan's own."""

    def batches(self) -> Sequence[tuple[int, Floats, Any]]:
        """Where some integers begin, the noise scale of each row, and which these are: all at once."""
        return [(0, self.scale_list, None)]

    @abstractmethod
    def integers(self, which: Any, table: Integers) -> Integers:
        """Some integers, exactly, (rows, …), from the table (n_1, …, n_k, n) on the short attributes. True counts."""

    def residual(self, table: Integers) -> Integers:
        """The table centred along the short attributes, in whole numbers, (n_1, …, n_k, n) as before."""
        for axis, n in enumerate(self.sizes):
            table = n * table - table.sum(axis=axis, keepdims=True)
        return table

    def correlation(self, which: Any) -> Any:
        """The noise that is correlated along the rows; None where it is independent."""
        return None

    @property
    def drawn_at_once(self) -> int:
        """How many random numbers are held at once while noise is drawn, where it is more than a batch."""
        return 0

    # ---- estimates

    @abstractmethod
    def prepared(self, measured: Integers) -> Any:
        """What estimates are read off, found once for all of them."""

    @abstractmethod
    def values(self, prepared: Any) -> Floats:
        """Estimates of the residual at all values, (n, fibres); what no measurement tells apart is spread evenly."""

    def estimates(self, prepared: Any, asked: AttributeQueries | None) -> Floats:
        """Estimates of the residual along what is asked, (rows, fibres)."""
        values = self.values(prepared)
        return values.sum(axis=0, keepdims=True) if asked is None else np.asarray(asked.sparse() @ values)

    @abstractmethod
    def whitened(self, measured: Integers) -> Floats:
        """What was measured along the rows of the operator's root, with noise of variance 1, (rows, fibres)."""

    def simulated(self, random: np.random.Generator) -> Integers:
        """Noise like that of the integers, (cells,): for forecasts, never for a release."""
        starts, scales, _ = zip(*self.batches(), strict=True)
        ends = (*starts[1:], self.cells)
        each = [np.repeat(own, (end - start) // len(own)) for start, end, own in zip(starts, ends, scales, strict=True)]
        return np.rint(self.operator.noise.simulated(np.concatenate(each), random)).astype(np.int64)


def require_power_of_two(grid: int) -> None:
    """Refuses a grid that is none.

    Raises:
        VerificationError: it is not.
    """
    if not isinstance(grid, int) or grid < 1 or grid & (grid - 1):
        raise VerificationError("a grid is no power of two; plan again.")
