#!/usr/bin/env python3
"""An independent price for a saved plan or release of residua: what it measures, rebuilt and priced exactly.

    python residua_verify.py PLAN.json|RELEASE [--json]

Written from docs/mathematics/serialised.md ("the page"). Imports nothing of residua and nothing outside the standard
library. Exits with 0 if the stated guarantee covers the price, with 1 if it does not, with 2 if it cannot tell.

How it works. Under normal noise everything measured is a list of blocks, each a weight and some factors; a factor gives
every point of its attributes a key (equal keys, equal columns) and every two keys the inner product of their columns, a
whole number. A price is the largest cost of any cell, pair of cells or person, found by trying all that differ. Costs
are whole numbers of 2^-768 with weights rounded up: sums of weights times squares, they are never below the truth.
Under Laplace noise columns are written out.
"""

from __future__ import annotations

import argparse
import base64
import decimal
import hashlib
import io
import json
import math
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from itertools import accumulate, combinations, islice, pairwise, product, repeat
from pathlib import Path
from typing import Any

ONE = 2**768  # a cost of 1
AXIS = 2**192  # what entries of the cost matrix of correlated noise are counted in
MOST = 400_000  # blocks that are evaluated at two cells, before closed forms are used
DENSE = 40  # values of an attribute whose correlated noise is written out as a matrix
FEW = 1000  # values of a limited attribute whose inner products are all compared
LARGEST = 2**22  # values of an attribute, or cells of a block, that are listed
PLAN_MARGIN = Fraction(1, 2**40)  # the page, "What it prints"
SAME_NOISE = Fraction(1, 2**20)  # by so much a release may state more noise than its plan


class Refused(Exception):  # noqa: N818
    """The file is not what the page says."""


def require(holds: bool, problem: str) -> None:
    """Refuses a file of which something does not hold."""
    if not holds:
        raise Refused(problem)


# ---- intervals, then factors: decimal numbers are rational, and these contexts round them down and up

_DOWN = decimal.Context(prec=90, rounding=decimal.ROUND_FLOOR, Emax=10**8, Emin=-(10**8))
_UP = decimal.Context(prec=90, rounding=decimal.ROUND_CEILING, Emax=10**8, Emin=-(10**8))


class Interval:
    """Two decimals around a number; products and quotients are of positive ones."""

    def __init__(self, low: Any, high: Any = None) -> None:
        self.low, self.high = Decimal(low), Decimal(low if high is None else high)

    def __add__(self, other: Interval) -> Interval:
        return Interval(_DOWN.add(self.low, other.low), _UP.add(self.high, other.high))

    def __sub__(self, other: Interval) -> Interval:
        return Interval(_DOWN.subtract(self.low, other.high), _UP.subtract(self.high, other.low))

    def __mul__(self, other: Interval) -> Interval:
        return Interval(_DOWN.multiply(self.low, other.low), _UP.multiply(self.high, other.high))

    def __truediv__(self, other: Interval) -> Interval:
        return Interval(_DOWN.divide(self.low, other.high), _UP.divide(self.high, other.low))


ZERO, UNIT = Interval(0), Interval(1)


@dataclass(eq=False)
class Factor:
    """Columns over the points of some attributes, by their inner products."""

    attributes: tuple[int, ...]  # positions, increasing
    keys: Sequence[Any]  # of every point, row by row
    inner: Callable[[Any, Any], int]  # of two keys, the inner product of their columns
    orbits: Sequence[Any] | None = None  # points of one orbit can be exchanged; left out, each is its own
    bounds: tuple[int, int] | None = None  # the largest norm and the least inner product, where known
    partial: bool = False  # whether norms alone are known
    centred: bool = False  # whether these are the columns of n I − 11ᵀ

    def __post_init__(self) -> None:
        self.inner = cache(self.inner)

    @cached_property
    def norm(self) -> int:
        """The largest norm of a column."""
        return self.bounds[0] if self.bounds else max(self.inner(key, key) for key in set(self.keys))

    @cached_property
    def ratio(self) -> Fraction:
        """The least inner product of two columns over the largest norm."""
        keys = set(self.keys) if self.bounds is None else set()
        least = self.bounds[1] if self.bounds else min(self.inner(a, b) for a in keys for b in keys)
        return Fraction(least, self.norm or 1)


Block = tuple[int, list[Factor]]  # a weight in whole numbers of 2^-768, and factors
Columns = list[tuple[Fraction, list[tuple[int, tuple[int, ...]]]]]  # a weight, and of every cell a place and a column


def plain(i: int, n: int) -> Factor:
    """Columns of n I − 11ᵀ."""
    bounds = (n * (n - 1), -n if n > 1 else 0)
    return Factor((i,), range(n), lambda a, b: bounds[0] if a == b else -n, bytes(n), bounds, centred=True)


# ---- the domain, and packed numbers


def inflated(packed: bytes) -> bytes:
    """Decompressed bytes, no more than 64 MB."""
    stream = zlib.decompressobj()
    raw = stream.decompress(packed, 2**26)
    require(stream.eof, "packed numbers are incomplete, or more than 64 MB")
    return raw


def floats(text: str) -> list[float]:
    """Packed floats: all first bytes, then all second bytes, and so on."""
    raw = inflated(base64.b85decode(text))
    whole = bytearray(len(raw))
    for k in range(8):
        whole[k::8] = raw[k * len(raw) // 8 : (k + 1) * len(raw) // 8]
    return [x for (x,) in struct.iter_unpack("<d", whole)]


def unit_of(day: date, unit: str) -> str:
    """The label of the day, week, month, quarter or year."""
    year, week, _ = day.isocalendar()
    labels = {"week": f"{year:04d}-W{week:02d}", "quarter": f"{day.year:04d}-Q{(day.month + 2) // 3}"}
    return labels.get(unit) or day.isoformat()[: {"day": 10, "month": 7, "year": 4}[unit]]


class Attribute:
    """An attribute as the domain declares it."""

    def __init__(self, declared: dict[str, Any]) -> None:
        self.declared, policies = declared, (declared.get("unknown"), declared.get("missing"))
        self.drops, self.other = "drop" in policies, "other" in policies
        kinds = {"values", "edges", "size", "codes", "first", "high"} & declared.keys()
        require(len(kinds) == 1, "an attribute is declared in no way that the page lists, or in several")
        if kinds == {"first"}:
            first, last = (date.fromisoformat(declared[name]) for name in ("first", "last"))
            days = [first + timedelta(n) for n in range((last - first).days, -1, -1)]
            self.days = {unit_of(day, declared["unit"]): day for day in days}  # the first day of each
            self.labels: Sequence[Any] = list(self.days)[::-1]
        elif kinds <= {"values", "edges"}:
            self.labels = declared["values" if "values" in kinds else "labels"]
        else:
            number = declared["codes"]["labels"]["number"] if "codes" in kinds else declared.get("size")
            self.labels = range(declared.get("low", 0), declared["high"] + 1 if number is None else number)
        self.size = len(self.labels) + self.other
        fits = "edges" not in kinds or len(self.labels) == len(declared["edges"]) - 1
        require(fits and 1 <= self.size <= LARGEST, f"an attribute has not from 1 to {LARGEST:,} values")

    def levels(self) -> list[list[int]]:
        """The group of every value on every declared level, finest first."""
        levels, below, declared = [], list(range(len(self.labels))), self.declared
        for each in declared.get("codes", {}).get("levels", []):
            steps = inflated(base64.b64decode(each["of"]["packed"]))
            of = [*accumulate(step for (step,) in struct.iter_unpack("<i", steps))]
            below = [of[group] for group in below]
            levels.append(below)
        given = declared.get("levels", [])
        for name in given:
            groups = None if isinstance(given, list) else given[name]  # a list is of units of the calendar
            if groups is not None and set(groups) == {"edges", "labels"}:
                starts = [float(edge) for edge in declared["edges"][:-1]] if "edges" in declared else self.labels
                cuts = [edge if isinstance(edge, int) else float(edge) for edge in groups["edges"][1:-1]]
                levels.append([sum(cut <= start for cut in cuts) for start in starts])
                continue
            group_of = {label: group for group, members in (groups or {}).items() for label in members}
            each = [group_of[x] if group_of else unit_of(self.days[x], name) for x in self.labels]
            numbers = {group: k for k, group in enumerate(dict.fromkeys(groups or each))}
            levels.append([numbers[group] for group in each])
        return [[*codes, max(codes) + 1] if self.other else codes for codes in levels]

    def nodes(self, counts: list[int] | None) -> list[list[int]]:
        """The node of every value on every level of a tree, from the values to the root."""
        nodes = [list(range(self.size)), *(self.levels() if counts is None else [])]
        for few, many in [] if counts is None else zip([*counts, 1], [self.size, *counts], strict=True):
            require(type(few) is int and 1 <= few <= many and len(nodes) < 64, "the levels of a tree do not narrow")
            nodes.append([node * few // many for node in nodes[-1]])
        return nodes if len(nodes) > 1 and not max(nodes[-1]) else [*nodes, [0] * self.size]


# ---- correlated noise


class Axis:
    """Noise along an ordered attribute: its network, Γ, and how precisely it tells the total."""

    def __init__(self, attribute: int, n: int, body: dict[str, Any]) -> None:
        self.attribute, self.n, asked = attribute, n, body["asked"]
        q, self.a, p = floats(body["q"]), body["weights"], body["poles"]
        fits = len(q) == n and len(p) == len(self.a) and sorted(set(p)) == p
        require(fits and all(0 < x < math.inf for x in (*q, *p, *self.a)), "noise along an attribute is incomplete")
        self.q, self.weights, self.poles = ([Interval(x) for x in each] for each in (q, self.a, p))
        w, r = asked.get("prefixes", 0.0), asked.get("ranges", 0.0)
        each = floats(w) if isinstance(w, str) else [w] * n
        grounds, self.first = [x + r * (n + 1) for x in each], None
        self.nested = "groups" in asked or "singles" in asked
        if self.nested:
            self.grounds = [Interval(x) for x in grounds]
            self.first = Interval(grounds[0] * (1 + each[0] / r)) if r else None
        elif "ends" in asked:
            each, around = floats(asked["ends"]), Interval(1 - 2.0**-48, 1 + 2.0**-48)  # added in any order
            self.first, *self.grounds = (around / Interval(1 / (u * math.fsum(each))) for u in each)
        else:
            self.grounds = [UNIT / Interval(1 / x) for x in grounds]
            self.first = UNIT / Interval(1 / grounds[0] * r / (w + r)) if r else None
        singles = floats(asked["singles"]) if "singles" in asked else [0.0] * n
        chords = {(i - 1, i): asked.get("values", 0.0) + singles[i] for i in range(n)}
        groups = floats(asked["groups"]) if "groups" in asked else []
        k = len(groups) // 3
        for low, high, weight in zip(groups[:k], groups[k : 2 * k], groups[2 * k :], strict=True):
            chords[int(low) - 1, int(high)] = chords.get((int(low) - 1, int(high)), 0.0) + weight
        inside = all(-1 <= a < b < n and x >= 0 for (a, b), x in chords.items())
        fits = len(self.grounds) == len(singles) == n and all(each.low >= 0 for each in self.grounds)
        require(inside and fits, "what is asked along an attribute does not fit it")
        self.chords = {at: Interval(x) for at, x in chords.items()}
        self.wide = [(a, b, conductance) for (a, b), conductance in self.chords.items() if b - a > 1]
        self.before = list(accumulate(self.grounds, initial=self.first or ZERO))
        self.after = list(accumulate(reversed(self.grounds), initial=ZERO))[::-1]

    def covariances(self, z: Interval) -> Callable[[int, int], Interval]:
        """Cov(C_i, C_j) in the network of G + z Q⁻¹; of neighbours alone along a long attribute."""
        n, ground = self.n, -1
        hub = ground if self.first is None else n
        links: dict[int, dict[int, Interval]] = {v: {} for v in range(-1, n + 1)}
        joined = [(i - 1, i, z / self.q[i]) for i in range(n)] + [(i, hub, self.grounds[i]) for i in range(n)]
        joined += [(a, b, c) for (a, b), c in self.chords.items()] + ([(ground, hub, self.first)] if self.first else [])

        def link(a: int, b: int, conductance: Interval) -> None:
            links[a][b] = links[b][a] = links[a].get(b, ZERO) + conductance

        for each in joined:
            link(*each)
        steps, order = [], [*range(n), *([hub] if self.first else [])]
        for v in order:
            near = links.pop(v)
            require(len(near) <= 64, "groups along an attribute are not nested")
            t = sum(near.values(), ZERO)
            for a, b in combinations(near, 2):
                link(a, b, near[a] * near[b] / t)
            for a in near:
                del links[a][v]
            steps.append((v, {a: g / t for a, g in near.items() if a != ground}, UNIT / t))
        known: dict[tuple[int, int], Interval] = {}

        def covariance(a: int, b: int) -> Interval:
            return ZERO if ground in (a, b) else known[min(a, b), max(a, b)]

        for place, (v, shares, variance) in reversed(list(enumerate(steps))):
            for b in order[place + 1 :] if n <= DENSE else shares:
                known[min(v, b), max(v, b)] = sum((share * covariance(a, b) for a, share in shares.items()), ZERO)
            known[v, v] = sum((share * covariance(v, a) for a, share in shares.items()), variance)
        return covariance

    @cached_property
    def tells(self) -> float:
        """1/(1ᵀΣ1)."""
        last, parts = self.n - 1, zip(self.weights, map(self.covariances, self.poles), strict=True)
        return float((UNIT / sum((a * covariance(last, last) for a, covariance in parts), ZERO)).high)

    def zero(self, low: Decimal, high: Decimal) -> Interval:
        """The zero of Σ a/(p − z) between two poles, from −∞ to ∞."""
        left, right, pairs = low, high, list(zip(self.weights, self.poles, strict=True))
        while right - left > low * Decimal("1e-70"):
            z = _DOWN.divide(_DOWN.add(left, right), Decimal(2))
            above = sum((a / (p - Interval(z)) for a, p in pairs if p.low > z), ZERO)
            sign = above - sum((a / (Interval(z) - p) for a, p in pairs if p.low < z), ZERO)
            if sign.low <= 0 <= sign.high or not left < z < right:
                break
            left, right = (z, right) if sign.high < 0 else (left, z)
        return Interval(left, right)

    def gamma(self) -> dict[tuple[int, int], Interval]:
        """Γ(i, j), i ≤ j; of a long attribute i = j alone."""
        c = UNIT / sum((a / p for a, p in zip(self.weights, self.poles, strict=True)), ZERO)
        b, parts, entries = UNIT / sum(self.weights, ZERO), [], {}
        for low, high in pairwise(self.poles):
            z = self.zero(low.low, high.low)
            squares = ((p - z) * (p - z) if p.low > z.high else (z - p) * (z - p) for p in self.poles)
            d = UNIT / (z * sum((a / square for a, square in zip(self.weights, squares, strict=True)), ZERO))
            parts.append((d, z, self.covariances(z)))
        own = sum((d for d, _, _ in parts), c)
        last = self.n if self.n <= DENSE else 0
        for i, j in [(k, j) for k in range(self.n) for j in range(k, max(last, k + 1))]:
            star = self.after[j] if self.first is None else self.after[j] * self.before[i] / self.before[-1]
            gram = sum((c for low, high, c in self.wide if low < i and j <= high), star)  # G(i, j)
            entry = b * gram if i < j else b * (gram + self.chords[i - 1, i]) + own / self.q[i]
            for d, z, cov in parts:
                share = d * z / (self.q[i] * self.q[j])
                entry = entry + share * (cov(i, j - 1) + cov(i - 1, j)) - share * (cov(i, j) + cov(i - 1, j - 1))
            entries[i, j] = entry
        return entries

    @cached_property
    def factor(self) -> Factor:
        """Γ times 2^192 in whole numbers, above Γ in every direction: what is uncertain is added to the diagonal."""
        entries, at = self.gamma(), (self.attribute,)
        whole = {place: math.ceil(Fraction(entry.high) * AXIS) for place, entry in entries.items()}
        if self.n > DENSE:
            bounds = (max(whole.values()), -max(whole.values()) if self.nested else 0)
            return Factor(at, range(self.n), lambda i, j: whole[i, i], bounds=bounds, partial=True)
        more = self.n * max(whole[at] + 1 - math.floor(Fraction(entry.low) * AXIS) for at, entry in entries.items())
        return Factor(at, range(self.n), lambda i, j: whole[min(i, j), max(i, j)] + more * (i == j))

    def weight(self, f: Fraction, axes: int) -> int:
        """1/f' for so many axes."""
        least = min(Fraction(a * float(f)) / Fraction(a) for a in self.a)
        return math.ceil(ONE / (least * AXIS**axes))


# ---- the forms


class Scales:
    """Hands out noise scales over grids in their order: as a release keeps them, or those of a plan's rules."""

    def __init__(self, arrays: dict[str, list[Any]] | None) -> None:
        self.left = None if arrays is None else {name: iter(array) for name, array in arrays.items()}

    def __call__(self, rules: Sequence[float], measured: Sequence[int] = (), grids: bool = True) -> list[Fraction]:
        """The next ones; along an axis f, which has no grid."""
        pairs: list[tuple[Any, Any]] = [(rule, 1) for rule in rules]
        if self.left is not None:
            listed = list(islice(self.left.get("measured", iter(())), len(measured)))
            require(listed == list(measured), "the release lists other sets or groups than its plan measures")
            pairs = list(islice(zip(self.left["scales"], self.left.get("grids", repeat(1)), strict=False), len(rules)))
        positive = len(pairs) == len(rules) and all(0 < s < math.inf and 1 <= t < math.inf for s, t in pairs)
        require(positive, "noise scales are missing, or no positive numbers")
        ratios = [Fraction(s) / (Fraction(t) if grids else 1) for s, t in pairs]
        same = all(ratio <= Fraction(rule) * (1 + SAME_NOISE) for ratio, rule in zip(ratios, rules, strict=True))
        require(same, "the release states more noise than its plan")
        return ratios


def squared(ratio: Fraction) -> int:
    """1/ratio² in whole numbers of 2^-768, rounded up."""
    return math.ceil(ONE / ratio**2)


class Measured:
    """What a plan without groups measures: blocks under normal noise, columns under Laplace noise."""

    def __init__(self, body: dict[str, Any], attributes: list[Attribute], read: Scales) -> None:
        self.body, self.attributes, self.read = body, attributes, read
        self.sizes = [attribute.size for attribute in attributes]
        self.blocks, self.columns = list[Block](), Columns()
        product_form = self.tables if "shares" in body else self.along if "parts" in body else self.sets
        forms = {"dense": self.one, "pure": self.one, "blockwise": self.blockwise, "product": product_form}
        forms[body["kind"]]()
        require(not (self.blocks and self.columns), "normal and Laplace noise cannot be added up")

    def positions(self, listed: Sequence[int]) -> tuple[int, ...]:
        """Positions of attributes, which increase."""
        known = [i for i in range(len(self.sizes)) if i in listed]
        require(known == list(listed), "attributes are listed out of order, or are not in the domain")
        return tuple(known)

    def matrix(self, attributes: Sequence[int], columns: Sequence[int], rows: Sequence[Sequence[int]]) -> Factor:
        """The columns of a whole matrix, by the column of every point, −1 for none."""
        own, used = self.positions(attributes), range(-1, max(columns) + 1)
        whole = [*zip(*rows, strict=True), (0,) * len(rows)] if rows else [()] * len(used)
        fits = len(columns) == math.prod(self.sizes[i] for i in own) and len(used) <= len(whole)
        fits = fits and all(type(x) is int for row in rows for x in row) and all(k in used for k in columns)
        require(fits, "a matrix is not made of whole numbers, or does not fit its cells")
        return Factor(own, [whole[k] for k in columns], lambda a, b: sum(map(int.__mul__, a, b)))

    def one(self) -> None:
        """One integer matrix."""
        (ratio,) = self.read([self.body["scale"]])
        factor = self.matrix(self.body["attributes"], self.body["columns"], self.body["strategy"])
        if self.body["kind"] == "dense":
            self.blocks.append((squared(ratio), [factor]))
        else:
            self.columns.append((1 / ratio, [(0, key) for key in dict.fromkeys(factor.keys)]))

    def blockwise(self) -> None:
        """Integer rows over classes of values."""
        for block, number, tau in zip(*(self.body[key] for key in ("blocks", "numbers", "precisions")), strict=True):
            require(tau >= 0, "a precision is negative")
            columns, strategy = [0], self.body["strategies"][number]
            for i, level in block if tau else []:
                classes = self.body["axes"][i][level - 1]
                require(len(columns) * len(classes) <= LARGEST and min(classes) >= 0 < level, "a block is too large")
                columns = [at * (max(classes) + 1) + own for at in columns for own in classes]
            if tau:
                raw, form = inflated(base64.b85decode(strategy["rows"])), f"<{strategy['shape'][1]}q"
                factor = self.matrix([i for i, _ in block], columns, list(struct.iter_unpack(form, raw)))
                rule = (math.sqrt(factor.norm) or 1.0) * math.sqrt(1.0 / tau) * (1.0 + 2.0**-46)
                weight = squared(*self.read([rule]))
                self.blocks.append((weight, [factor]) if block else (weight * factor.norm, []))

    def listed_sets(self, key: str) -> dict[tuple[int, ...], float]:
        """The sets of a product and their precisions or shares, in order."""
        of_size = ((level["members"], level["size"]) for level in self.body["sets"])
        sets = [self.positions(m[k : k + n]) for m, n in of_size for k in range(0, max(len(m), 1), max(n, 1))]
        known = dict(zip(sets, self.body[key], strict=True))
        require(len(known) == len(sets) and min(known.values(), default=0) >= 0, f"sets repeat, or have {key} below 0")
        return known

    def tables(self) -> None:
        """Whole tables with Laplace noise: two cells that differ in all attributes stand for all."""
        for k, (S, share) in enumerate(self.listed_sets("shares").items()):
            if share:
                (ratio,) = self.read([1 / share * (1.0 + 2.0**-48)], [k])
                self.columns.append((1 / ratio, [(0, (1,)), (int(math.prod(self.sizes[i] for i in S) > 1), (1,))]))

    def sets(self) -> None:
        """Residuals of sets, some of them along axes."""
        factors, units, axes, own = list[Factor](), list[float](), dict[int, Axis](), dict[tuple[int, ...], float]()
        given = self.body["strategies"] or [{"rows": None}] * len(self.sizes)
        for i, (n, each) in enumerate(zip(self.sizes, given, strict=True)):
            if "axis" in each:
                axes[i] = Axis(i, n, each["axis"])
                factors.append(axes[i].factor)
            else:
                factors.append(plain(i, n) if each["rows"] is None else self.matrix([i], range(n), each["rows"]))
            units.append(1.0 if i in axes else float(n) if each["rows"] is None else math.sqrt(factors[i].norm) or 1.0)
        known, is_plain = self.listed_sets("precisions"), all(each == {"rows": None} for each in given)
        require(len(axes) <= 8, "noise is correlated along more than eight attributes")
        for S in sorted(known, key=lambda each: -len(axes.keys() & set(each))):  # what is measured: most axes first
            free = axes.keys() - set(S)
            more = ({*S, *A} for k in range(len(free)) for A in combinations(free, k + 1))
            told = (own.get(tuple(sorted(U)), 0.0) * math.prod(axes[i].tells for i in U.difference(S)) for U in more)
            lacking = known[S] - sum(told)
            own[S] = lacking if lacking > 1e-12 * known[S] else 0.0
        for k, S in enumerate(known):
            noisy, unit = [axes[i] for i in S if i in axes], math.prod(units[i] for i in S)
            if own[S] and all(factors[i].norm for i in S):
                if noisy:
                    rule = math.prod(units[i] ** 2 for i in S) / own[S] * (1.0 + 2.0**-40)
                    weight = noisy[0].weight(*self.read([rule], [k], grids=False), len(noisy))
                else:
                    rule = unit * math.sqrt(1.0 / own[S]) * (1.0 + 2.0 ** (-48 if is_plain else -46))
                    weight = squared(*self.read([rule], [k]))
                self.blocks.append((weight, [factors[i] for i in S]))

    def along(self) -> None:
        """Sets of short attributes, each by an operator along one attribute."""
        (at,), axis_of = self.positions([self.body["attribute"]]), cache(lambda text: Axis(at, n, json.loads(text)))
        n = self.sizes[at]
        for part in self.body["parts"]:
            short = [plain(i, self.sizes[i]) for i in self.positions(part["members"])]
            operator, N = with_texts(part["operator"], self.body["texts"]), math.prod(len(each.keys) for each in short)
            kind, laplace = operator["kind"], operator["kind"] == "buckets" or operator.get("noise") == "laplace"
            require(at not in part["members"] and not (laplace and short), "a set has members that it cannot have")
            if kind == "path":
                axis = axis_of(json.dumps(operator["axis"]))
                rule = operator["factor"] * math.prod(float(len(each.keys)) ** 2 for each in short) * (1.0 + 2.0**-40)
                self.blocks.append((axis.weight(*self.read([rule], grids=False), 1), [*short, axis.factor]))
            elif kind == "buckets":
                self.columns += buckets(n, operator["strategies"], self.read(operator["scales"]))
            else:
                require(kind == "tree" and operator["noise"] in ("normal", "laplace"), "an operator is not known")
                levels = [each if any(each) else [] for each in map(floats, operator["precisions"])]
                wider = N * (1.0 + 2.0**-50)
                rules = [[1.0 / math.sqrt((1.0 + laplace) * tau) * wider for tau in each] for each in levels]
                own, start = list(map(self.read, rules)), range(64)[operator["start"]]
                nodes = self.attributes[at].nodes(operator["counts"])[start:]
                most = [max(nodes[min(1, len(nodes) - 1)]), *(max(each) for each in nodes[1:])]
                fits = [len(each) in (0, 1, top + 1) for each, top in zip(own, most, strict=True)]
                require(all(fits) and operator["start"] >= 0, "a tree has other nodes than its attribute")
                if laplace:
                    require(max(map(len, own)) <= 1, "a tree has several scales on one level, with Laplace noise")
                    measured = ((each, places) for each, places in zip(own, nodes, strict=True) if each)
                    self.columns += [(1 / each[0], [(node, (1,)) for node in places]) for each, places in measured]
                else:
                    self.blocks.append((1, [*short, tree(at, nodes, own)]))


def with_texts(body: Any, texts: list[str]) -> Any:
    """Texts that operators share, put back."""
    if isinstance(body, dict):
        return texts[body["text"]] if body.keys() == {"text"} else {k: with_texts(v, texts) for k, v in body.items()}
    return [with_texts(each, texts) for each in body] if isinstance(body, list) else body


def tree(at: int, nodes: list[list[int]], ratios: list[list[Fraction]]) -> Factor:
    """Every node from the finest measured level to the root: of two values, the weights of the nodes that hold both."""
    weights, above = [list(map(squared, each)) or [0] for each in ratios], nodes[min(1, len(nodes) - 1)]
    ways: dict[int, list[tuple[int, int]]] = {}
    for finest, *index in zip(nodes[0], above, *nodes[1:], strict=True):  # of the finest level one scale per parent
        own = (w[0] if len(w) == 1 else w[k] for w, k in zip(weights, index, strict=True))
        ways[finest] = list(zip([finest, *index[1:]], own, strict=True))

    def shared(a: int, b: int) -> int:
        return sum(weight for (one, weight), (other, _) in zip(ways[a], ways[b], strict=True) if one == other)

    return Factor((at,), nodes[0], shared, above, (max(sum(weight for _, weight in way) for way in ways.values()), 0))


def buckets(n: int, strategies: list[list[list[int]]], ratios: list[Fraction]) -> Columns:
    """Rows over the parts of every bucket, from the coarsest level to the finest."""
    runs, columns = [n], Columns()
    for level, (rows, ratio) in reversed(list(enumerate(zip(strategies, ratios, strict=True)))):
        whole, parts, keys = list(zip(*rows, strict=True)), list[int](), list[tuple[int, tuple[int, ...]]]()
        require(all(type(x) is int for row in rows for x in row), "rows over buckets are not whole numbers")
        for bucket, size in enumerate(runs):
            b = len(whole)
            sizes = [size // b + (k < size % b) for k in range(b)] if level else [1] * size
            require(len(sizes) <= b and min(sizes) >= 1, "the buckets do not hold the values")
            keys += [(bucket, whole[part]) for part, length in enumerate(sizes) for _ in range(length)]
            parts += sizes
        columns, runs = [*columns, (1 / ratio, keys)], parts
    return columns


# ---- prices: all cells, pairs and persons that differ, or the closed forms of the page


class Cells:
    """The cells of a domain that differ in what some blocks measure, by the key of every factor."""

    def __init__(self, blocks: list[Block], sizes: list[int], limits: dict[int, int]) -> None:
        self.blocks, self.sizes, self.limits, self.exact = blocks, sizes, limits, True
        self.factors = list(dict.fromkeys(factor for _, own in blocks for factor in own))
        self.seen = [i for factor in self.factors for i in factor.attributes]
        self.partial = any(factor.partial for factor in self.factors)

    def kinds(self, copies: int, most: float = 2**20) -> list[dict[Any, Any]]:
        """Cells that stand for all others, with the codes of limited attributes; none if there are too many."""
        codes: dict[int, list[int]] = {i: [] for i in sorted(set(self.seen))}
        for i, chosen in codes.items():
            own, known = [f for f in self.factors if i in f.attributes], dict[Any, set[Any]]()
            alone = all(len(f.attributes) == 1 for f in own)
            for code in range(self.sizes[i]):
                orbit = tuple(code if f.orbits is None else f.orbits[code] for f in own) if alone else code
                key = code if i in self.limits or not alone else tuple(f.keys[code] for f in own)
                others = known.setdefault(orbit, set())
                if len(others) < copies and key not in others:
                    others.add(key)
                    chosen.append(code)
        cells: dict[Any, dict[Any, Any]] = {}
        for each in product(*codes.values()) if math.prod(map(len, codes.values())) <= most else ():
            code = dict(zip(codes, each, strict=True))
            cell: dict[Any, Any] = {i: code[i] for i in self.limits if i in code}
            for factor in self.factors:
                at = 0
                for i in factor.attributes:
                    at = at * self.sizes[i] + code[i]
                cell[factor] = factor.keys[at]
            cells[tuple(cell.values())] = cell
        return list(cells.values())

    def shared(self, one: dict[Any, Any], other: dict[Any, Any]) -> int:
        """Γ of two cells."""
        return sum(weight * math.prod(f.inner(one[f], other[f]) for f in own) for weight, own in self.blocks)

    @cached_property
    def added(self) -> int:
        """The most expensive cell."""
        costs = [self.shared(cell, cell) for cell in self.kinds(1)]
        self.exact = bool(costs) or len(set(self.seen)) == len(self.factors)
        return max(costs or [sum(weight * math.prod(f.norm for f in own) for weight, own in self.blocks)])

    def replaced(self) -> int:
        """The most expensive pair of cells."""
        few = MOST // len(self.blocks)
        ones, others = self.kinds(1, few), self.kinds(2, few)
        if 0 < len(ones) * len(others) <= few and not self.partial:
            norms = [self.shared(cell, cell) for cell in others]
            pairs = ((one, other, norm) for one in ones for other, norm in zip(others, norms, strict=True))
            return max(self.shared(one, one) + norm - 2 * self.shared(one, other) for one, other, norm in pairs)
        self.exact = False
        costs = [(weight * math.prod(f.norm for f in own), own) for weight, own in self.blocks]
        if len(self.factors) <= 16:
            below = opposed(self.factors, [(frozenset(own), Fraction(cost)) for cost, own in costs])
        else:
            below = sum(cost * max([-f.ratio for f in own] + [Fraction(0)]) for cost, own in costs)
        return min(2 * self.added + 2 * math.ceil(below), 4 * self.added)

    def persons(self, records: int) -> int:
        """The most expensive person with limits."""
        kinds, bounds = self.kinds(records, math.sqrt(MOST)) if not self.partial else [], [records**2 * self.added]
        gamma = [[self.shared(one, other) for other in kinds] for one in kinds]
        if kinds and math.comb(len(kinds) + records, len(kinds)) * len(kinds) <= MOST:
            return everyone(gamma, kinds, records, self.limits)
        self.exact = False
        if kinds and len(self.blocks) == 1:
            bounds += [meeting(gamma, kinds, records, i, most) for i, most in self.limits.items() if i in kinds[0]]
        return min(*bounds, math.ceil(self.of_residuals(records)))

    def of_residuals(self, records: int) -> Fraction:
        """The page's bound for persons and residuals."""
        limits, most, tables, bound = self.limits, dict[Any, Fraction](), dict[Any, int](), Fraction(0)
        for f, alone in product((f for f in self.factors if f.attributes[0] in limits), (True, False)):
            if len(f.attributes) == 1 and not (f.centred or f.partial) and len(f.keys) <= FEW:
                grams = ([f.inner(a, b) for b in f.keys] for a in f.keys)
                limit = limits[f.attributes[0]]
                met = [placed([max(x, 0) if alone else abs(x) for x in row], records, limit) for row in grams]
                most[f, alone] = Fraction(placed(met, records, limit), f.norm or 1)
        for weight, own in self.blocks:
            flat = frozenset(f for f in own if f.centred and f.attributes[0] in limits)
            for B in (frozenset(B) for k in range(len(flat) + 1) for B in combinations(flat, k)):
                signed = weight * math.prod(len(f.keys) ** 2 if f in B else -len(f.keys) for f in flat)
                key = frozenset(own) - flat, frozenset(f.attributes[0] for f in B)
                tables[key] = tables.get(key, 0) + signed
        for (T, B), weight in tables.items():
            pairs = [most[f, len(T) == 1] for f in T if (f, True) in most]
            pairs.append(Fraction(pairs_agreeing(records, [limits[i] for i in B])))
            bound += max(weight, 0) * math.prod(f.norm for f in T) * min(pairs)
        return bound


def opposed(factors: list[Factor], terms: Iterable[tuple[frozenset[Factor], Fraction]]) -> Fraction:
    """The largest −Γ(c, c') at any corner: every factor's ratio at 1 or its least."""
    if not factors:
        return -sum((cost for _, cost in terms), Fraction(0))
    (factor, *rest), corners = factors, [dict[frozenset[Factor], Fraction](), dict[frozenset[Factor], Fraction]()]
    for members, cost in terms:
        for merged, ratio in zip(corners, (Fraction(1), factor.ratio), strict=True):
            left = members - {factor}
            merged[left] = merged.get(left, Fraction(0)) + cost * (ratio if factor in members else 1)
    return max(opposed(rest, merged.items()) for merged in corners)


def placed(numbers: Sequence[int], records: int, limit: int) -> int:
    """(x)↓ of the page: the largest sum of so many of these, none more often than the limit."""
    ranked = sorted(numbers, reverse=True)
    return limit * sum(ranked[: records // limit]) + records % limit * sum(ranked[records // limit :][:1])


def pairs_agreeing(records: int, limits: Iterable[int]) -> int:
    """D_B of the page."""
    limit = min(limits, default=records)
    return records // limit * limit**2 + (records % limit) ** 2


def meeting(gamma: list[list[int]], kinds: list[dict[Any, Any]], records: int, i: int, limit: int) -> int:
    """The page's bound for persons and matrices, by one limited attribute."""
    places = [[u for u, cell in enumerate(kinds) if cell[i] == value] for value in {cell[i] for cell in kinds}]
    met = [placed([max(max(row[u], 0) for u in own) for own in places], records, limit) for row in gamma]
    return placed([max(met[u] for u in own) for own in places], records, limit)


def everyone(gamma: list[list[int]], kinds: list[dict[Any, Any]], records: int, limits: dict[int, int]) -> int:
    """The most expensive multiset of cells within the limits."""
    best, people = 0, [(0, records, dict[Any, int](), [0] * len(kinds), 0)]
    while people:
        first, left, used, met, cost = people.pop()
        best = max(best, cost)
        for u in range(first, len(kinds)) if left else ():
            own = {(i, kinds[u][i]): used.get((i, kinds[u][i]), 0) + 1 for i in limits if i in kinds[u]}
            if all(count <= limits[i] for (i, _), count in own.items()):
                more = list(map(int.__add__, met, gamma[u]))
                people.append((u, left - 1, {**used, **own}, more, cost + 2 * met[u] + gamma[u][u]))
    return best


def laplace_price(columns: Columns, records: int | None, limited: bool, drops: bool) -> tuple[Fraction, bool]:
    """By L1 norms, of a pair by the sum of each block's largest; records None: one is replaced."""
    n, moved = len(columns[0][1]), Fraction(0)
    norms = [sum(weight * sum(map(abs, cells[k][1])) for weight, cells in columns) for k in range(n)]
    if records is not None:
        alike = min(norms) == max(norms) and all(x >= 0 for _, cells in columns for _, column in cells for x in column)
        return records * max(norms), alike or not limited
    for weight, cells in columns:
        kinds, places = {column for _, column in cells}, {place for place, _ in cells}
        within = max(sum(map(abs, map(int.__sub__, a, b))) for a in kinds for b in kinds)
        moved += weight * max(within, 2 * max(sum(map(abs, a)) for a in kinds) if len(places) > 1 else 0)
    return max(moved, max(norms) * drops), len(columns) == 1


def price(body: dict[str, Any], arrays: Any = None, unit: Any = None) -> tuple[Fraction, bool, bool]:
    """The price for a unit (the plan's own if left out), whether it is exact, and whether it is an epsilon."""
    declared, unit = {k: v for k, v in body["domain"].items() if isinstance(v, dict)}, unit or body["unit"]
    attributes, read = [Attribute(each) for each in declared.values()], Scales(arrays)
    sizes, drops = [each.size for each in attributes], any(each.drops for each in attributes)
    groups, replaces = body["kind"] == "groups", unit["kind"] == "replace"
    per = {list(declared).index(name): most for name, most in unit.get("per", {}).items()}
    numbers = [1 if replaces else unit["records"], *per.values()]
    known = unit["kind"] in ("add-remove", "replace", "person") and all(type(x) is int and x >= 1 for x in numbers)
    require(known, "the unit is not one that the page lists")
    records = min([numbers[0], *(most * sizes[i] for i, most in per.items())])
    limits = {i: most for i, most in per.items() if most < records}
    chosen = body["chosen"] if groups else [0]
    if groups:
        read([], chosen)
        fits = len(chosen) == math.prod(sizes[i] for i in body["by"]) and min(chosen) >= -1
        require(fits, "the groups are not as many as those of their attributes")
    members = [Measured(each, attributes, read) for each in (body["members"] if groups else [body])]
    require(not any(next(left, None) for left in (read.left or {}).values()), "the release lists more than its plan")
    if members[0].columns and not groups:
        return (*laplace_price(members[0].columns, None if replaces else records, bool(limits), drops), True)
    require(not any(each.columns for each in members), "groups have normal noise")
    cells = {k: Cells(members[k].blocks, sizes, limits) for k in set(chosen) if k >= 0 and members[k].blocks}
    ranked = sorted((cells[k].added if k in cells else 0 for k in chosen), reverse=True)
    if replaces:  # within a group; out of every table; from a group to another, of which both pay
        between = [ranked[0] * drops, sum(ranked[:2]) * (len(ranked) > 1)]
        cost = max([each.replaced() for each in cells.values()] + between)
    elif groups or not limits:
        cost = pairs_agreeing(records, [limits[i] for i in body.get("by", []) if i in limits]) * ranked[0]
    else:
        cost = max(each.persons(records) for each in cells.values()) if cells else 0
    return Fraction(cost, ONE), all(each.exact for each in cells.values()) and not (groups and limits), False


# ---- guarantees, files, and what is printed


def covers(guarantee: dict[str, Any] | None, cost: Fraction, epsilon: bool) -> tuple[bool, float | None]:
    """Whether a guarantee covers a price, and its slack: how much more it allows, relatively."""
    if guarantee is None or not cost:
        return not cost, None
    kind, numbers = guarantee["kind"], {name: x for name, x in guarantee.items() if name != "kind"}
    known = all(type(x) in (int, float) and 0 < x < math.inf for x in numbers.values()) and numbers.get("delta", 0) < 1
    require(known, "the guarantee is not made of positive numbers")
    if kind == "approx":  # in floats, to one part in 2^40 of the first term; an exponential cut off lowers the second
        mu, above = math.sqrt(cost), numbers["epsilon"] / math.sqrt(cost)
        first, second = (math.erfc((above - side * mu / 2) / math.sqrt(2)) / 2 for side in (1, -1))
        delta = first * (1 + 2.0**-40) - math.exp(min(numbers["epsilon"], 700)) * second
        return not epsilon and delta <= numbers["delta"] + first * 2.0**-39, None
    allowed = {"zcdp": ("rho", 2, 1), "gdp": ("mu", 1, 2), "pure": ("epsilon", 1, 1)}[kind]
    most = allowed[1] * Fraction(numbers[allowed[0]]) ** allowed[2]
    return epsilon == (kind == "pure") and cost <= most, float(most / cost - 1)


def content(path: Path) -> bytes:
    """The bytes of a file that is one, and not too large."""
    require(path.is_file(), f"there is no file {str(path)!r}: give a saved plan, or the folder of a release")
    require(path.stat().st_size <= 2**28, f"{str(path)!r} is larger than 256 MB")
    return path.read_bytes()


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object that says everything once."""
    require(len(dict(pairs)) == len(pairs), "a key stands twice in the file")
    return dict(pairs)


def document(raw: bytes, kind: str) -> Any:
    """The body of a document whose digest is right."""
    start = raw.index(b'"body":') + 7
    header = json.loads(raw[:start] + b"null}", object_pairs_hook=distinct)
    right = header["format"] == kind and hashlib.sha256(raw[start:-1]).hexdigest() == header["sha256"]
    require(right, f"this is no {kind}, or it was changed after it was written")
    return json.loads(raw[start:-1], object_pairs_hook=distinct, parse_constant=lambda x: require(False, f"{x} in it"))


def load(path: Path) -> tuple[dict[str, Any], dict[str, list[Any]] | None, dict[str, Any]]:
    """The body of a plan, and of a release its arrays and receipt."""
    if not path.is_dir():
        return document(content(path), "residua plan"), None, {}
    release, arrays = document(content(path / "release.json"), "residua release"), {}
    names = ["plan.json", "measured.npz", *(["left_out/release.json"] if "left_out_most" in release["receipt"] else [])]
    files = {name: content(path / name) for name in names}
    same = all(hashlib.sha256(raw).hexdigest() == release["files"][name] for name, raw in files.items())
    require(same, "a file of the release was changed after it was written")
    with zipfile.ZipFile(io.BytesIO(files["measured.npz"])) as archive:
        for entry in archive.infolist():
            name, raw = entry.filename, archive.read(entry) if entry.compress_type == zipfile.ZIP_STORED else b""
            start = 10 + int.from_bytes(raw[8:10], "little")
            forms = [form for word, form in ((b"'<i8'", "<q"), (b"'<f8'", "<d")) if word in raw[:start]]
            known = name in ("measured.npy", "grids.npy", "scales.npy") and name[:-4] not in arrays and len(forms) == 1
            require(known, "'measured.npz' is not what a release keeps")
            arrays[name[:-4]] = [x for (x,) in struct.iter_unpack(forms[0], raw[start:])]
    return document(files["plan.json"], "residua plan"), arrays, release["receipt"]


def verify(path: str) -> dict[str, Any]:
    """What a plan or release costs beside what it states."""
    body, arrays, receipt = load(Path(path))
    cost, exact, epsilon = price(body, arrays)
    currency, beside, both = "epsilon" if epsilon else "pcost", Fraction(0), True
    if "left_out_most" in receipt:  # records that were not counted, released beside those that were
        other, own, _ = load(Path(path) / "left_out")
        person = {"kind": "person", "records": receipt["left_out_most"], "per": {}}
        beside, both, pure = price(other, own)
        known = other["unit"] == person and other["domain"] == body["domain"] and pure == epsilon
        require(known, "what was left out is of other records, or has another kind of noise")
    margin = PLAN_MARGIN if arrays is None or "pooled" in receipt else 0
    covered, slack = covers(body["guarantee"], cost * (1 - margin), epsilon)
    stated = None if arrays is None else receipt[currency]
    paid = stated is None or (cost + beside) * (1 - margin) <= Fraction(stated)
    price_of = {currency: float(cost + beside), "exact": exact and both, "receipt": stated, "slack": slack}
    return {"path": path, "unit": body["unit"], "guarantee": body["guarantee"], **price_of, "covered": covered and paid}


def main() -> int:
    """Prints, and says by its exit code whether the guarantee covers the price."""
    parser = argparse.ArgumentParser(description="An independent price for a saved plan or release of residua.")
    parser.add_argument("path", help="a plan saved as JSON, or the folder of a release")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    given = parser.parse_args()
    try:
        verdict = verify(given.path)
    except Exception as problem:  # whatever a forged file provokes: no verdict
        what = str(problem) if isinstance(problem, Refused) else f"the file is not what the page says: {problem!r:.200}"
        sys.stderr.write(f"residua_verify: cannot tell: {what}\n")
        return 2
    lines = [f"{key:10} {json.dumps(value)}" for key, value in verdict.items()]
    end = "The guarantee covers the price." if verdict["covered"] else "THE GUARANTEE DOES NOT COVER THE PRICE."
    sys.stdout.write((json.dumps(verdict) if given.json else "\n".join([*lines, end])) + "\n")
    return 0 if verdict["covered"] else 1


if __name__ == "__main__":
    sys.exit(main())
