"""What measured pieces say: estimates rebuilt from the residuals of all sets of short attributes that a table holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from residua.language import say, say_many
from residua.linalg.arrays import Floats, contrasts
from residua.linalg.lattice import subsets
from residua.machine import remembered
from residua.plans.estimator import Answerable, Equality, Estimator, combination_query
from residua.plans.product.conditional import known_nodes, nodes_added, require_met
from residua.plans.product.piece_measurements import PieceMeasurements
from residua.workload import AttributeQueries, Identity, Term, Workload, marginals

Asked = Mapping[int, AttributeQueries]


class PieceEstimator(Estimator):
    """Estimates from measured pieces."""

    measurements: PieceMeasurements

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        workload, sets = self.plan.workload, len(self.measurements.pieces)
        asked = 0 if workload is None else len(workload)
        wanted = say_many("1 term was asked for.", "{n} terms were asked for.", asked)
        figures = {"cells": self.measurements.cells, "name": repr(self.plan.name), "sets": sets}
        if sets > 1:
            return f"{say('{cells} noisy integers along {name}, in {sets} sets of attributes;', **figures)} {wanted}"
        return f"{say('{cells} noisy integers along {name};', **figures)} {wanted}"

    @cached_property
    def _numbers(self) -> dict[tuple[int, ...], int]:
        return {piece.members: number for number, piece in enumerate(self.measurements.pieces)}

    @remembered
    def _prepared(self, number: int) -> Any:
        return self.measurements.pieces[number].prepared(self.measurements.of_piece(number, self.noisy))

    # ---- estimates

    def read(self, asked: Asked) -> Floats:
        """Estimates of all queries of one term, one axis per attribute in the domain's order.

        What no measurement sees counts as zero.
        """
        axis = self.plan.attribute
        along = asked.get(axis)
        total = self.along(
            {i: each for i, each in asked.items() if i != axis}, along, 1 if along is None else along.rows
        )
        return np.asarray(total[0]) if along is None else np.moveaxis(total, 0, sorted(asked).index(axis))

    def along(self, asked: Asked, rows: Any, count: int) -> Floats:
        """Estimates of some rows along the attribute crossed with what is asked of short ones, (rows, …).

        Args:
            asked: of the short attributes.
            rows: what the operators are asked.
            count: how many rows that are.
        """
        sizes, short = self.plan.domain.sizes, tuple(sorted(asked))
        total = np.zeros([count, *(asked[i].rows for i in short)])
        for members in subsets(short):
            if members not in self._numbers:
                continue
            number = self._numbers[members]
            piece = self.measurements.pieces[number]
            part = piece.estimates(self._prepared(number), rows).reshape(-1, *piece.sizes)
            for place, i in enumerate(short, start=1):
                if i not in members:
                    means = asked[i].times(np.full(int(sizes[i]), 1.0 / int(sizes[i])))
                    part = np.moveaxis(np.multiply.outer(part, means), -1, place)
                    continue
                part = part - part.mean(axis=place, keepdims=True)  # noise has no part outside the residual
                if not asked[i].plain:
                    part = np.moveaxis(np.tensordot(part, asked[i].matrix(), (place, 1)), -1, place)
            total += part
        return total

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate of a marginal, attributes in the domain's order."""
        return self.read({i: Identity(int(self.plan.domain.sizes[i])) for i in positions})

    def of_term(self, term: Term) -> Floats:
        """From the pieces, without the table of all values."""
        return self.read(dict(term))

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Of the attribute by itself, where its operator knows a quick way."""
        operator = self.plan.parts.get(())
        if position != self.plan.attribute or operator is None:
            return None
        variances = operator.beside_total(q)
        if variances is None:
            return None
        sums = np.cumsum(self.marginal((position,)))
        return sums - q * sums[-1], variances

    def conditioned(self, equalities: Sequence[Equality]) -> tuple[Estimator, Sequence[Equality]]:
        """Nodes of a tree are measurements of boundless precision."""
        nodes = [known_nodes(self.plan, each) for each in equalities]
        facts = [each for each in nodes if each is not None]
        if not facts:
            return self, equalities
        beside, blocks = nodes_added(self, facts)
        added = BesideNodes(beside, blocks, np.broadcast_to(np.int64(0), (blocks.cells,)), self)
        require_met(self, facts, partial(PieceEstimator.along, added))
        return added, [each for each, node in zip(equalities, nodes, strict=True) if node is None]

    # ---- intervals and matrices

    def _reaches(self, asked: Answerable, chance: float) -> Floats:
        """From what each measurement contributes to each answer, or bounds of it."""
        domain = self.plan.domain
        if isinstance(asked, tuple):
            asked = marginals(domain, [asked])
        if isinstance(asked, Mapping):
            asked = combination_query(domain, asked)
        reaches = self._listed(asked, chance) if not asked.tabular else self._terms(asked, chance)
        # Each noise is within 1/2 of its Laplace variable; by Cauchy and Schwarz, in standard deviations.
        least = min(float(scales.min()) for _, scales, _ in self.measurements.pieces[0].batches())
        return np.asarray(reaches + math.sqrt(self.measurements.cells / 8) / least)

    def _terms(self, workload: Any, chance: float) -> Floats:
        operator, axis = self.measurements.pieces[0].operator, self.plan.attribute
        reaches = []
        for term in workload.terms():
            asked = dict(term)
            along = asked.pop(axis, None)
            others = math.prod(each.rows for each in asked.values())
            count = 1 if along is None else along.rows
            alone = operator.reaches(along, chance) if others == 1 else operator.any_reach(count * others, chance)
            reaches.append(alone)
        return np.concatenate(reaches)

    def _listed(self, workload: Workload, chance: float) -> Floats:
        """Of any queries, which ask of the attribute alone: nothing else is measured with Laplace noise."""
        operator = self.measurements.pieces[0].operator
        over = tuple(sorted({*workload.attributes, self.plan.attribute}))
        fibres = self.plan.fibres(over, workload.over(over))
        means = fibres.tensors.mean(axis=tuple(range(1, fibres.tensors.ndim)))
        return operator.row_reaches(fibres.rows(means, workload.queries), chance)

    def _whitened(self) -> Floats:
        measured = [np.zeros(0)]
        for number, piece in enumerate(self.measurements.pieces):
            values = piece.whitened(self.measurements.of_piece(number, self.noisy))
            values = values.reshape(-1, *piece.sizes)
            for axis, n in enumerate(piece.sizes, start=1):  # n numbers of rank n − 1
                values = np.moveaxis(np.tensordot(contrasts(n), values, axes=(1, axis)), 0, axis)
            measured.append(np.moveaxis(values, 0, sum(i < self.plan.attribute for i in piece.members)).ravel())
        return np.concatenate(measured)


@dataclass(frozen=True, eq=False)
class BesideNodes(PieceEstimator):
    """Estimates over a tree, and what known nodes add to them.

    Args:
        own: the estimates without them.
        Others, of what they add, as for `PieceEstimator`.
    """

    own: PieceEstimator

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        return f"{self.own.summary} {say('Beside it nodes of the tree are known.')}"

    def along(self, asked: Asked, rows: Any, count: int) -> Floats:
        """Both together."""
        return self.own.along(asked, rows, count) + super().along(asked, rows, count)

    _reaches = Estimator._reaches  # type: ignore[assignment]  # facts are no measurements
