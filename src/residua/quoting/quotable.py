"""The methods of everything that numbers can be quoted from: shares, ratios, means, quantiles and the like."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from residua.domain import Label
from residua.quoting.answering import Answering
from residua.quoting.asking import Rate, Sure, Together
from residua.quoting.quoted import Quoted
from residua.quoting.terms import By
from residua.quoting.values import Values
from residua.workload import Where


class Quotable(ABC):
    """What numbers can be quoted from. A subclass says how it answers; see `residua.quoting.answering`.

    Everywhere, `by` is a list of attributes, or attribute → one of its levels; `where` keeps the records
    with some values, attribute → a label, a list of labels or `rs.between(first, last)`; `confidence` is how often an
    interval holds the truth (0.95 if left out), and `simultaneous="table"` makes all intervals of a call hold together.
    Formulas, and why each interval is right: docs/quoting.md.
    """

    @abstractmethod
    def _answering(self) -> Answering:
        """Where estimates and their covariances come from."""

    def share(
        self,
        of: By | Where,
        *,
        by: By = (),
        where: Where | None = None,
        total: float | Mapping[Label, float] | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
        within: By = (),
    ) -> Quoted:
        """Which share of all records, or of each group, has each value; or meets a condition.

        Args:
            of: attributes, `["income"]`, for a share per value; or a condition, `{"income": ">50K"}`.
            by: shares are of the records of each group; of all records if left out.
            where: only these records.
            total: the public number of records (of each group: label → number); makes shares more accurate.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together.
            within: the name of `by` before version 0.2.

        Raises:
            PlanError: what it takes was not measured, or an argument means nothing.
        """
        from residua.quoting.ratios import share

        if within:
            warnings.warn("within is now by; the old name ends with version 0.2.", DeprecationWarning, stacklevel=2)
        return share(self._answering(), of, by or within, where, total, Sure(confidence, simultaneous))

    def ratio(
        self,
        numerator: Where,
        denominator: Where,
        *,
        by: By = (),
        where: Where | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """How many records meet one condition for each record that meets another.

        Args:
            numerator: a condition, `{"sex": "Female"}`; `{}` for all records.
            denominator: another.
            by: a ratio for each group.
            where: only these records.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together.
        """
        from residua.quoting.ratios import ratio

        return ratio(self._answering(), numerator, denominator, by, where, Sure(confidence, simultaneous))

    def mean(
        self,
        attribute: str,
        *,
        by: By = (),
        where: Where | None = None,
        values: Values | None = None,
        total: float | Mapping[Label, float] | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """The mean of a numeric attribute: whole numbers by value, bins by midpoint, dates by their first day.

        Args:
            attribute: whose mean.
            by: a mean for each group.
            where: only these records.
            values: label → number, or a number per value, in place of the attribute's own (of some or all).
            total: the public number of records (of each group: label → number).
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together.

        Raises:
            PlanError: not numeric, an endless bin without a value, or not measured by these groups.
        """
        from residua.quoting.ratios import mean

        return mean(self._answering(), attribute, by, where, values, total, Sure(confidence, simultaneous))

    def sum(
        self,
        attribute: str,
        *,
        by: By = (),
        where: Where | None = None,
        values: Values | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """The sum of a numeric attribute over the records of each group; arguments as for `mean`."""
        from residua.quoting.ratios import total_of

        return total_of(self._answering(), attribute, by, where, values, Sure(confidence, simultaneous))

    def quantile(
        self,
        attribute: str,
        q: float | Sequence[float],
        *,
        by: By = (),
        where: Where | None = None,
        values: Values | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """The first value that at least a share q of the records does not exceed.

        Args:
            attribute: whose quantile; whole numbers, bins or dates.
            q: a share between 0 and 1, or a list of shares for a row each.
            by: a quantile for each group.
            where: only these records.
            values: label → number, or a number per value, in place of the attribute's own.
            confidence: how often an interval holds the truth; quantiles are values, so that it holds at least so often.
            simultaneous: `"table"` for intervals that all hold together.
        """
        from residua.quoting.quantiles import quantile

        return quantile(self._answering(), attribute, q, by, where, values, Sure(confidence, simultaneous))

    def median(self, attribute: str, **asked: Any) -> Quoted:
        """The 0.5-quantile; further arguments as for `quantile`."""
        return self.quantile(attribute, 0.5, **asked)

    def gini(
        self,
        attribute: str,
        *,
        by: By = (),
        where: Where | None = None,
        values: Values | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """The Gini coefficient of a numeric attribute, 0 if its sum is shared equally; arguments as for `mean`."""
        from residua.quoting.gini import gini

        return gini(self._answering(), attribute, by, where, values, Sure(confidence, simultaneous))

    def difference(
        self,
        between: str,
        labels: Mapping[Label, float] | None = None,
        *,
        of: Rate | None = None,
        by: By = (),
        where: Where | None = None,
        values: Values | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """The difference between groups in counts, shares or means, or any combination by label.

        Args:
            between: the attribute whose values are compared.
            labels: label → coefficient, `{"Female": 1, "Male": -1}`; may be left out for an attribute with two values.
            of: None for counts; a numeric attribute for means; a condition, `{"income": ">50K"}`, for shares.
            by: a difference for each group.
            where: only these records.
            values: numbers of the attribute whose means are compared, as for `mean`.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together.
        """
        from residua.quoting.contrasts import difference

        sure = Sure(confidence, simultaneous)
        return difference(self._answering(), between, labels, of, by, where, values, sure)

    def relative_difference(
        self,
        between: str,
        first: Label,
        second: Label,
        *,
        of: Rate | None = None,
        by: By = (),
        where: Where | None = None,
        values: Values | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """By which share the count, share or mean of the first label exceeds that of the second.

        Args:
            between: the attribute whose values are compared.
            first: a label.
            second: the label that it is compared with.
            of: None for counts; a numeric attribute for means; a condition for shares.
            by: a comparison for each group.
            where: only these records.
            values: numbers of the attribute whose means are compared, as for `mean`.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together.
        """
        from residua.quoting.contrasts import relative_difference

        sure = Sure(confidence, simultaneous)
        return relative_difference(self._answering(), between, first, second, of, by, where, values, sure)

    def standardised(
        self,
        of: Rate,
        over: str,
        weights: Mapping[Label, float],
        *,
        by: By = (),
        where: Where | None = None,
        values: Values | None = None,
        confidence: float | None = None,
        simultaneous: Together = None,
    ) -> Quoted:
        """The share or mean that each group would have with a public distribution over an attribute, such as age.

        Args:
            of: a condition, `{"income": ">50K"}`, for shares; a numeric attribute for means.
            over: the attribute that groups are made alike in.
            weights: label → public weight; made to add up to 1.
            by: a rate for each group.
            where: only these records.
            values: numbers of the attribute whose means are asked, as for `mean`.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together.
        """
        from residua.quoting.contrasts import standardised

        return standardised(self._answering(), of, over, weights, by, where, values, Sure(confidence, simultaneous))

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
            confidence: how often an interval, of a count or of a rank, holds the truth.
            simultaneous: `"table"` for intervals of counts that all hold together.
        """
        from residua.quoting.top import top

        return top(self._answering(), attributes, k, where, Sure(confidence, simultaneous))
