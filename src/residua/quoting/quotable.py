"""The methods of everything that numbers can be quoted from: shares, ratios, means, quantiles and the like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Unpack

from residua.domain import Label
from residua.quoting import contrasts, distributions, ratios
from residua.quoting.question import Groupwise, Question, Rate, Together, Total, Valued
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Answering, By
from residua.workload import Where


class Quotable(ABC):
    """What numbers can be quoted from. A subclass says how it answers; see `residua.quoting.terms`.

    Every question takes, by name:

    - `by`: a number for each group; a list of attributes, or attribute → one of its levels.
    - `where`: only these records; attribute → a label, a list of labels or `rs.between(first, last)`.
    - `confidence`: how often an interval holds the truth (0.95 if left out).
    - `simultaneous="table"`: all intervals of a call hold together.

    Formulas, and why each interval is right: docs/quoting.md.
    """

    @abstractmethod
    def _answering(self) -> Answering:
        """Where estimates and their covariances come from."""

    def share(self, of: By | Where, *, total: Total = None, **asked: Unpack[Groupwise]) -> Quoted:
        """Which share of all records, or of each group, has each value; or meets a condition.

        Args:
            of: attributes, `["income"]`, for a share per value; or a condition, `{"income": ">50K"}`.
            total: the public number of records (of each group: label → number); makes shares more accurate.
            asked: by, where, confidence, simultaneous; shares are of the records of each group, of all without by.

        Raises:
            PlanError: what it takes was not measured, or an argument means nothing.
        """
        return ratios.share(Question(self._answering(), **asked), of, total)

    def ratio(self, numerator: Rate, denominator: Rate, **asked: Unpack[Groupwise]) -> Quoted:
        """How many records meet one condition for each record that meets another; or the ratio of two sums.

        Args:
            numerator: a condition, `{"sex": "Female"}`; `{}` for all records; an amount, `"turnover"`, for its sum.
            denominator: another.
            asked: by, where, confidence, simultaneous.
        """
        return ratios.ratio(Question(self._answering(), **asked), numerator, denominator)

    def mean(self, attribute: str, *, total: Total = None, **asked: Unpack[Valued]) -> Quoted:
        """The mean of a numeric attribute: whole numbers by value, bins by midpoint, months by their first day.

        Intervals hold wherever in its bin (month, year) a value lies; an endless bin makes them endless.

        Args:
            attribute: whose mean.
            total: the public number of records (of each group: label → number).
            asked: by, where, confidence, simultaneous, values: label → number, or a number per value, in place of the
                attribute's own (of some or all): where values are assumed to lie, which the output says.

        Raises:
            PlanError: not numeric, not measured by these groups, or an endless bin without a value where there are no
                intervals (a projection).
        """
        return ratios.mean(Question(self._answering(), **asked), attribute, total)

    def sum(self, attribute: str, **asked: Unpack[Valued]) -> Quoted:
        """The sum of a numeric attribute over the records of each group; arguments as for `mean`."""
        return ratios.total_of(Question(self._answering(), **asked), attribute)

    def quantile(self, attribute: str, q: float | Sequence[float], **asked: Unpack[Valued]) -> Quoted:
        """The first value that at least a share q of the records does not exceed.

        Args:
            attribute: whose quantile; whole numbers, bins or dates.
            q: a share between 0 and 1, or a list of shares for a row each.
            asked: by, where, confidence, simultaneous, values (as for `mean`); quantiles are values, so that an
                interval holds the truth at least as often as the confidence says.
        """
        return distributions.quantile(Question(self._answering(), **asked), attribute, q)

    def median(self, attribute: str, **asked: Unpack[Valued]) -> Quoted:
        """The 0.5-quantile; further arguments as for `quantile`."""
        return self.quantile(attribute, 0.5, **asked)

    def gini(self, attribute: str, **asked: Unpack[Valued]) -> Quoted:
        """The Gini coefficient of a numeric attribute, 0 if its sum is shared equally; arguments as for `mean`."""
        return distributions.gini(Question(self._answering(), **asked), attribute)

    def difference(
        self,
        between: str,
        labels: Mapping[Label, float] | None = None,
        *,
        of: Rate | None = None,
        **asked: Unpack[Valued],
    ) -> Quoted:
        """The difference between groups in counts, shares or means, or any combination by label.

        Args:
            between: the attribute whose values are compared.
            labels: label → coefficient, `{"Female": 1, "Male": -1}`; may be left out for an attribute with two values.
            of: None for counts; a numeric attribute for means; a condition, `{"income": ">50K"}`, for shares.
            asked: by, where, confidence, simultaneous, values (as for `mean`).
        """
        return contrasts.difference(Question(self._answering(), **asked), between, labels, of)

    def relative_difference(
        self, between: str, first: Label, second: Label, *, of: Rate | None = None, **asked: Unpack[Valued]
    ) -> Quoted:
        """By which share the count, share or mean of the first label exceeds that of the second.

        Args:
            between: the attribute whose values are compared.
            first: a label.
            second: the label that it is compared with.
            of: None for counts; a numeric attribute for means; a condition for shares.
            asked: by, where, confidence, simultaneous, values (as for `mean`).
        """
        return contrasts.relative_difference(Question(self._answering(), **asked), between, first, second, of)

    def standardised(self, of: Rate, over: str, weights: Mapping[Label, float], **asked: Unpack[Valued]) -> Quoted:
        """The share or mean that each group would have with a public distribution over an attribute, such as age.

        Args:
            of: a condition, `{"income": ">50K"}`, for shares; a numeric attribute for means.
            over: the attribute that groups are made alike in.
            weights: label → public weight; made to add up to 1.
            asked: by, where, confidence, simultaneous, values (as for `mean`).
        """
        return contrasts.standardised(Question(self._answering(), **asked), of, over, weights)

    def top(
        self,
        attributes: By,
        k: int = 10,
        *,
        where: Where | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """The k largest counts, largest first, with intervals for their ranks and the probability of the order.

        Args:
            attributes: whose cells are listed.
            k: how many.
            where: only these records.
            confidence: how often all intervals of a list hold at once, those of its ranks likewise. They allow for the
                choice, which noise had a part in, and are wider than those of the same counts in a table.
            simultaneous: `"table"` changes nothing: they hold together in any case.
        """
        return ratios.top(Question(self._answering(), (), where, confidence, simultaneous), attributes, k)
