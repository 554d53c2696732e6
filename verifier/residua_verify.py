#!/usr/bin/env python3
"""An independent price for a saved plan or release of residua: what it measures, rebuilt and priced exactly.

`python residua_verify.py PLAN.json|RELEASE` exits with 0 if the stated guarantee covers the price, with 1 if it does
not, with 2 if it cannot tell. Written from docs/mathematics/serialised.md ("the page"), it imports nothing of residua
and nothing outside the standard library.

How it works. Whatever its form, a plan measures pieces: each has a weight and some factors. A factor gives every point
of its attributes a key (equal keys, equal columns) and every two keys the inner product of their columns. A price is
the largest cost of any cell, pair of cells or person, found by trying all that differ, or a bound of the page. Costs
are whole numbers of 2^-768 with weights rounded up: never below the truth.
"""

from __future__ import annotations

import base64
import decimal
import hashlib
import heapq
import json
import math
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property
from itertools import accumulate, combinations, islice, pairwise, product, repeat
from pathlib import Path
from typing import Any

ONE = 2**768  # a cost of 1
AXIS = 2**192  # what the costs of correlated noise are counted in
MOST = 400_000  # pieces that are evaluated at two cells, before closed forms are used
FEW = 1000  # cells of a factor whose inner products are all compared
LARGEST = 2**22  # values of an attribute, or cells of a piece, that are listed
PLAN_MARGIN = Fraction(1, 2**38)  # the page, "What it prints"
SAME_NOISE = Fraction(1, 2**18)  # by so much a release may state more noise than its plan


class Refused(Exception):  # noqa: N818
    """The file is not what the page says."""


def require(holds: bool, problem: str) -> None:
    """Refuses a file of which something does not hold."""
    if not holds:
        raise Refused(problem)


# ---- what is measured: pieces, made of factors

Key = tuple[int, tuple[int, ...]]  # a place, and a column of whole numbers there


@cache
def dot(one: Key, other: Key) -> int:
    """The inner product of two columns; at different places they have no row in common."""
    return sum(map(int.__mul__, one[1], other[1])) if one[0] == other[0] else 0


@dataclass(eq=False)
class Factor:
    """Columns over the points of some attributes, by their inner products."""

    attributes: tuple[int, ...]  # positions, increasing
    keys: Sequence[Any]  # of every point, row by row
    inner: Callable[[Any, Any], int] = dot  # of two keys, the inner product of their columns
    kind: str = "rows"  # "plain": the columns of n I − 11ᵀ; "axis": inner products of a key with itself alone are known
    orbits: Sequence[Any] | None = None  # points of one orbit can be exchanged; left out, those with equal keys
    bounds: tuple[int, int] | None = None  # the largest norm and the least inner product, where known

    @cached_property
    def norm(self) -> int:
        """The largest norm of a column."""
        return self.bounds[0] if self.bounds else max(self.inner(key, key) for key in set(self.keys))

    @cached_property
    def ratio(self) -> Fraction:
        """The least inner product of two columns over the largest norm."""
        pairs = product(set(self.keys), repeat=2) if self.bounds is None else ()
        return Fraction(self.bounds[1] if self.bounds else min(self.inner(*pair) for pair in pairs), self.norm or 1)


Piece = tuple[str, int, list[Factor]]  # noise, "normal" or "laplace"; a weight in whole numbers of 2^-768; and factors


def plain(i: int, n: int) -> Factor:
    """Columns of n I − 11ᵀ."""
    bounds = (n * (n - 1), -n if n > 1 else 0)
    return Factor((i,), range(n), lambda a, b: bounds[0] if a == b else -n, "plain", bytes(n), bounds)


def floats(text: str) -> list[float]:
    """Packed floats, no more than 64 MB: all first bytes, then all second bytes, and so on."""
    stream = zlib.decompressobj()
    raw = stream.decompress(base64.b85decode(text), 2**26)
    require(stream.eof, "packed numbers are incomplete, or more than 64 MB")
    whole = bytearray(len(raw))
    for k in range(8):
        whole[k::8] = raw[k * len(raw) // 8 : (k + 1) * len(raw) // 8]
    return [x for (x,) in struct.iter_unpack("<d", whole)]


# ---- correlated noise, in intervals: decimal numbers are rational, and these contexts round them down and up

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


class Axis:
    """Noise along an ordered attribute: its network, and the diagonal of Γ."""

    def __init__(self, attribute: int, n: int, body: dict[str, Any]) -> None:
        self.attribute, self.n, network = attribute, n, body["network"]
        q, a, p = floats(body["q"]), body["weights"], body["poles"]
        grounds, chords = floats(network["grounds"]), floats(network["chords"])
        self.q, self.a, self.p = ([Interval(x) for x in each] for each in (q, a, p))
        hub = [Interval(x) for x in (network["first"] or 1, *grounds)]
        first, *self.grounds = [UNIT / each for each in hub] if network["resistances"] else hub
        self.first, self.nested = first if network["first"] else None, not network["resistances"]
        m, values = len(chords) // 3, [(i, i + 1, network["values"]) for i in range(n) if network["values"]]
        joined = [*values, *zip(chords[:m], chords[m : 2 * m], chords[2 * m :], strict=True)]
        self.chords = [(int(low) - 1, int(high) - 1, Interval(x)) for low, high, x in joined]
        fits = len(q) == len(grounds) == n and len(p) == len(a) and sorted(set(p)) == p
        fits = fits and all(0 < x < math.inf for x in (*q, *p, *a, *grounds, *chords[2 * m :]))
        require(fits and all(-1 <= a < b < n for a, b, _ in self.chords), "noise along an attribute does not fit it")

    def variances(self, z: Interval) -> list[Interval]:
        """Var(C_i − C_{i−1}) in the network of G + z Q⁻¹: running sums are taken out one by one, then put back."""
        n, ground, hub = self.n, -1, self.n if self.first else -1
        links: dict[int, dict[int, Interval]] = {v: {} for v in range(-1, n + 1)}

        def link(a: int, b: int, conductance: Interval) -> None:
            links[a][b] = links[b][a] = links[a].get(b, ZERO) + conductance

        values = [(i - 1, i, z / self.q[i]) for i in range(n)]
        for each in (*values, *self.chords, *((i, hub, self.grounds[i]) for i in range(n))):
            link(*each)
        link(ground, hub, self.first or ZERO)
        steps, known = [], dict[frozenset[int], Interval]()
        for v in [*range(n), *([hub] if self.first else [])]:
            near = links.pop(v)
            require(len(near) <= 64, "groups along an attribute are not nested")
            total = sum(near.values(), ZERO)
            for a, b in combinations(near, 2):
                link(a, b, near[a] * near[b] / total)
            for a in near:
                del links[a][v]
            steps.append((v, {a: conductance / total for a, conductance in near.items() if a != ground}, UNIT / total))
        for v, shares, variance in reversed(steps):  # C_v is a mean of its neighbours by shares, and noise of its own
            for b in shares:
                known[frozenset((v, b))] = sum((s * known[frozenset((a, b))] for a, s in shares.items()), ZERO)
            known[frozenset((v,))] = sum((s * known[frozenset((v, a))] for a, s in shares.items()), variance)
        own, shared = [known[frozenset((i,))] for i in range(n)], [known[frozenset((i, i + 1))] for i in range(n - 1)]
        return own[:1] + [x + y - both - both for x, y, both in zip(own, own[1:], shared, strict=False)]

    def zero(self, low: Fraction, high: Fraction) -> Interval:
        """The zero of Σ a/(p − z) between two poles, from −∞ to ∞."""
        pairs = [(Fraction(a.low), Fraction(p.low)) for a, p in zip(self.a, self.p, strict=True)]
        for _ in range(240):
            z = (low + high) / 2
            low, high = (z, high) if sum(a / (p - z) for a, p in pairs) < 0 else (low, z)
        ends = zip((_DOWN, _UP), (low, high), strict=True)
        return Interval(*(context.divide(Decimal(z.numerator), Decimal(z.denominator)) for context, z in ends))

    def factor(self) -> Factor:
        """Γ(i, i) times 2^192, rounded up."""
        before = list(accumulate(self.grounds, initial=self.first or ZERO))
        after = list(accumulate(reversed(self.grounds), initial=ZERO))[::-1]
        gram = [y if self.first is None else y * x / before[-1] for x, y in zip(before, after, strict=True)]
        for low, high, conductance in self.chords:  # G(i, i): what conducts between running sums before i and from i on
            gram[low + 1 : high + 1] = [each + conductance for each in gram[low + 1 : high + 1]]
        b, c = UNIT / sum(self.a, ZERO), UNIT / sum((a / p for a, p in zip(self.a, self.p, strict=True)), ZERO)
        costs = [b * each + c / q for each, q in zip(gram, self.q, strict=False)]
        for left, right in pairwise(self.p):
            z = self.zero(Fraction(left.low), Fraction(right.low))
            squares = ((p - z) * (p - z) if p.low > z.high else (z - p) * (z - p) for p in self.p)
            d = UNIT / (z * sum((a / square for a, square in zip(self.a, squares, strict=True)), ZERO))
            parts = zip(costs, self.q, self.variances(z), strict=True)
            costs = [cost + d / q - d * z / (q * q) * variance for cost, q, variance in parts]
        whole = [math.ceil(Fraction(cost.high) * (AXIS + AXIS // 2**52)) for cost in costs]  # weights drawn are rounded
        bounds = (max(whole), -max(whole) if self.nested else 0)
        return Factor((self.attribute,), range(self.n), lambda i, j: whole[i], "axis", bounds=bounds)


# ---- the forms


class Weights:
    """Hands out weights of pieces in their order: those of a plan, or what a release keeps of its noise."""

    def __init__(self, arrays: dict[str, list[Any]] | None) -> None:
        self.left = None if arrays is None else {name: iter(array) for name, array in arrays.items()}

    def __call__(self, planned: Sequence[Fraction], measured: Sequence[int] = (), kind: str = "normal") -> list[int]:
        """The next ones: (t/s)², t/s of Laplace noise, 1/s along an axis; never less than planned, about."""
        weights = list(planned)
        if self.left is not None:
            listed = list(islice(self.left.get("measured", iter(())), len(measured)))
            require(listed == list(measured), "the release lists other sets or groups than its plan measures")
            kept = list(islice(zip(self.left["scales"], self.left.get("grids", repeat(1)), strict=False), len(planned)))
            positive = len(kept) == len(planned) and all(0 < s < math.inf and 1 <= t < math.inf for s, t in kept)
            require(positive, "noise scales are missing, or no positive numbers")
            ratios = [Fraction(1 if kind == "axis" else t) / Fraction(s) for s, t in kept]
            weights = [ratio**2 if kind == "normal" else ratio for ratio in ratios]
            same = all(own >= rule * (1 - SAME_NOISE) for own, rule in zip(weights, planned, strict=True))
            require(same, "the release states more noise than its plan")
        return [math.ceil(ONE * weight) for weight in weights]


class Form:
    """What a plan without groups measures, by its form: pieces, each with its noise."""

    def __init__(self, body: dict[str, Any], sizes: list[int], weights: Weights) -> None:
        self.body, self.sizes, self.weights = body, sizes, weights
        product_form = self.along if "parts" in body else self.sets
        forms = {"dense": self.matrix, "pure": self.matrix, "blockwise": self.blockwise, "product": product_form}
        self.pieces = list(forms[body["kind"]]())
        self.laplace = any(noise == "laplace" for noise, _, _ in self.pieces)
        require(len({noise for noise, _, _ in self.pieces}) <= 1, "normal and Laplace noise cannot be added up")

    def positions(self, listed: Sequence[int]) -> tuple[int, ...]:
        """Positions of attributes, which increase."""
        known = [i for i in range(len(self.sizes)) if i in listed]
        require(known == list(listed), "attributes are listed out of order, or are not in the domain")
        return tuple(known)

    def rows(self, attributes: Sequence[int], columns: Sequence[int], rows: Sequence[Sequence[int]]) -> Factor:
        """The columns of a whole matrix, by the column of every point, −1 for none."""
        own, used = self.positions(attributes), range(-1, max(columns) + 1)
        whole = [*zip(*rows, strict=True), (0,) * len(rows)] if rows else [()] * len(used)
        fits = len(columns) == math.prod(self.sizes[i] for i in own) and len(used) <= len(whole)
        fits = fits and all(type(x) is int for row in rows for x in row) and all(k in used for k in columns)
        require(fits, "a matrix is not made of whole numbers, or does not fit its cells")
        return Factor(own, [(0, whole[k]) for k in columns])

    def matrix(self) -> Iterable[Piece]:
        """One integer matrix."""
        noise, power = ("normal", 2) if self.body["kind"] == "dense" else ("laplace", 1)
        (weight,) = self.weights([1 / Fraction(self.body["scale"]) ** power], kind=noise)
        yield noise, weight, [self.rows(self.body["attributes"], self.body["columns"], self.body["strategy"])]

    def blockwise(self) -> Iterable[Piece]:
        """Integer rows over classes of values."""
        for block, number, tau in zip(*(self.body[key] for key in ("blocks", "numbers", "precisions")), strict=True):
            columns = [0]
            for i, level in block if tau else []:
                classes = self.body["axes"][i][level - 1]
                require(len(columns) * len(classes) <= LARGEST and min(classes) >= 0 < level, "a block is too large")
                columns = [at * (max(classes) + 1) + own for at in columns for own in classes]
            if tau:
                yield self.residual(tau, [self.rows([i for i, _ in block], columns, self.body["strategies"][number])])

    def residual(self, tau: float, factors: list[Factor], measured: Sequence[int] = ()) -> Piece:
        """A product of factors, measured with precision τ."""
        require(tau > 0, "a precision is negative")
        axes = sum(f.kind == "axis" for f in factors)
        units = (1 if f.kind == "axis" else len(f.keys) ** 2 if f.kind == "plain" else f.norm or 1 for f in factors)
        (weight,) = self.weights([Fraction(tau) / math.prod(units)], measured, "axis" if axes else "normal")
        return "normal", -(-weight // AXIS**axes), factors

    def sets(self) -> Iterable[Piece]:
        """Residuals of sets, some of them along axes; or whole tables with Laplace noise."""
        factors, laplace = list[Factor](), "shares" in self.body
        for i, (n, each) in enumerate(zip(self.sizes, self.body["strategies"] or [{}] * len(self.sizes), strict=True)):
            rows = self.rows([i], range(n), each["rows"]) if each.get("rows") else plain(i, n)
            factors.append(Axis(i, n, each["axis"]).factor() if "axis" in each else rows)
        of_size = ((level["members"], level["size"]) for level in self.body["sets"])
        sets = [self.positions(m[k : k + n]) for m, n in of_size for k in range(0, max(len(m), 1), max(n, 1))]
        numbers = self.body["shares"] if laplace else self.body["measured"] or self.body["precisions"]
        require(len(set(sets)) == len(sets) and min(numbers) >= 0, "sets repeat, or have negative precisions")
        for k, (S, number) in enumerate(zip(sets, numbers, strict=True)):
            if laplace and number:  # two cells that differ in all attributes stand for all
                other = int(math.prod(self.sizes[i] for i in S) > 1)
                (weight,) = self.weights([Fraction(number)], [k], "laplace")
                yield "laplace", weight, [Factor(S, [(0, (1,)), (other, (1,))])]
            elif number and all(factors[i].norm for i in S):
                yield self.residual(number, [factors[i] for i in S], [k])

    def along(self) -> Iterable[Piece]:
        """Sets of short attributes, each by an operator along one attribute."""
        (at,) = self.positions([self.body["attribute"]])
        axes = [Axis(at, self.sizes[at], each).factor() for each in self.body["axes"]]
        for part in self.body["parts"]:
            operator, short = part["operator"], [plain(i, self.sizes[i]) for i in self.positions(part["members"])]
            normal = operator["kind"] == "path" or operator.get("noise") == "normal"
            require(at not in part["members"] and (normal or not short), "a set has members that it cannot have")
            if operator["kind"] == "path":
                yield self.residual(1 / operator["factor"], [*short, axes[range(len(axes))[operator["axis"]]]])
            else:
                yield from {"tree": self.tree, "buckets": self.buckets}[operator["kind"]](at, short, operator)

    def tree(self, at: int, short: list[Factor], operator: dict[str, Any]) -> Iterable[Piece]:
        """Of two values, the weights of the nodes that hold both, from the finest measured level to the root."""
        noise, counts, start = operator["noise"], operator["counts"], operator["start"]
        nodes, levels = [list(range(self.sizes[at]))], list[list[Key]]()
        for level in self.body["levels"] if counts is None else [*counts, 1]:
            below = max(nodes[-1]) + 1
            parents = floats(level) if type(level) is str else [node * level // below for node in range(below)]
            fits = len(parents) == below and set(parents) <= set(range(below)) and len(nodes) < 64
            require(fits, "the levels of a tree do not narrow")
            nodes.append([int(parents[node]) for node in nodes[-1]])
        require(noise in ("normal", "laplace") and start in range(len(nodes)) and not max(nodes[-1]), "no such tree")
        shared_by = [nodes[min(start + 1, len(nodes) - 1)], *nodes[start + 1 :]]  # of the finest, one number per parent
        for places, index, text in zip(nodes[start:], shared_by, operator["precisions"], strict=True):
            taus, squares = floats(text), math.prod(len(f.keys) for f in short) ** 2
            require(len(taus) in (1, max(index) + 1) and min(taus) >= 0, "a tree has other nodes than its attribute")
            rules = [Fraction(tau) / squares if noise == "normal" else Fraction(math.sqrt(2 * tau)) for tau in taus]
            weights = self.weights(rules, kind=noise) if any(taus) else [0]
            levels.append([(node, (weights[k % len(taus)],)) for node, k in zip(places, index, strict=True)])
        if noise == "laplace":
            yield from (("laplace", 1, [Factor((at,), keys)]) for keys in levels)
            return
        ways = list(zip(*levels, strict=True))
        bounds = (max(sum(weight for _, (weight,) in way) for way in set(ways)), 0)
        yield "normal", 1, [*short, Factor((at,), ways, weights_shared, orbits=shared_by[0], bounds=bounds)]

    def buckets(self, at: int, _: list[Factor], operator: dict[str, Any]) -> Iterable[Piece]:
        """Rows over the parts of every bucket, by level: of every value its bucket and column."""
        runs, levels = [self.sizes[at]], list[Factor]()
        for level, rows in reversed(list(enumerate(operator["strategies"]))):
            columns, parts, keys = list(zip(*rows, strict=True)), list[int](), list[Key]()
            require(all(type(x) is int for row in rows for x in row), "rows over buckets are not whole numbers")
            for bucket, size in enumerate(runs):
                b = len(columns)
                sizes = [size // b + (k < size % b) for k in range(b)] if level else [1] * size
                require(len(sizes) <= b and min(sizes) >= 1, "the buckets do not hold the values")
                keys += [(bucket, columns[part]) for part, length in enumerate(sizes) for _ in range(length)]
                parts += sizes
            levels, runs = [Factor((at,), keys), *levels], parts
        weights = self.weights([1 / Fraction(scale) for scale in operator["scales"]], kind="laplace")
        yield from (("laplace", weight, [factor]) for weight, factor in zip(weights, levels, strict=True))


@cache
def weights_shared(one: tuple[Key, ...], other: tuple[Key, ...]) -> int:
    """What two values share in a tree: the weights of the nodes that hold both."""
    return sum(weight for (node, (weight,)), (near, _) in zip(one, other, strict=True) if node == near)


# ---- prices: all cells and pairs that differ, or the closed forms of the page


def laplace_price(pieces: list[Piece], records: int | None, drops: bool) -> int:
    """By L1 norms, of a pair by the sum of each piece's largest; records None: one is replaced."""
    columns: list[tuple[int, Sequence[Key]]] = [(weight, factor.keys) for _, weight, (factor,) in pieces]
    most = max(sum(weight * sum(map(abs, keys[k][1])) for weight, keys in columns) for k in range(len(columns[0][1])))
    moved = 0
    for weight, keys in columns if records is None else []:
        kinds, places = {column for _, column in keys}, {place for place, _ in keys}
        within = max(sum(map(abs, map(int.__sub__, a, b))) for a in kinds for b in kinds)
        moved += weight * max(within, 2 * max(sum(map(abs, a)) for a in kinds) if len(places) > 1 else 0)
    return max(moved, most * drops) if records is None else records * most


class Cells:
    """The cells of a domain that differ in what some pieces measure with normal noise, by the key of every factor."""

    def __init__(self, pieces: list[Piece], sizes: list[int], limits: dict[int, int]) -> None:
        self.pieces, self.sizes, self.limits = pieces, sizes, limits
        self.factors = list(dict.fromkeys(factor for _, _, own in pieces for factor in own))
        self.costs = [(weight * math.prod(f.norm for f in own), frozenset(own)) for _, weight, own in pieces]

    def kinds(self, copies: int, most: int = 2**20) -> list[dict[Factor, Any]]:
        """Cells that stand for all others; none if there are too many."""
        cells, codes = dict[Any, dict[Factor, Any]](), dict[int, list[int]]()
        for i in sorted({i for factor in self.factors for i in factor.attributes}):
            own, orbits = [f for f in self.factors if i in f.attributes], dict[Any, list[int]]()
            alone = all(len(f.attributes) == 1 for f in own)
            for code in range(self.sizes[i]):
                orbits.setdefault(tuple((f.orbits or f.keys)[code] for f in own) if alone else code, []).append(code)
            codes[i] = [code for alike in orbits.values() for code in alike[:copies]]
        for each in product(*codes.values()) if math.prod(map(len, codes.values())) <= most else ():
            cell, chosen = dict[Factor, Any](), dict(zip(codes, each, strict=True))
            for factor in self.factors:
                at = 0
                for i in factor.attributes:
                    at = at * self.sizes[i] + chosen[i]
                cell[factor] = factor.keys[at]
            cells[tuple(cell.values())] = cell
        return list(cells.values())

    def shared(self, one: dict[Factor, Any], other: dict[Factor, Any]) -> int:
        """Γ of two cells."""
        return sum(weight * math.prod(f.inner(one[f], other[f]) for f in own) for _, weight, own in self.pieces)

    @cached_property
    def added(self) -> int:
        """The most expensive cell."""
        costs = [self.shared(cell, cell) for cell in self.kinds(1)]
        return max(costs or [sum(cost for cost, _ in self.costs)])

    def replaced(self) -> int:
        """The most expensive pair of cells."""
        few = MOST // len(self.pieces)
        ones, others = self.kinds(1, few), self.kinds(2, few)
        if 0 < len(ones) * len(others) <= few and not any(f.kind == "axis" for f in self.factors):
            return max(self.shared(a, a) + self.shared(b, b) - 2 * self.shared(a, b) for a, b in product(ones, others))
        classes, terms = self.alike()
        if math.prod(len(each) + 1 for each in classes) <= 2**19:
            below = opposed([(len(each), each[0].ratio) for each in classes], terms.items())
        else:
            shared, free = dict[frozenset[Factor], int](), 0
            for cost, own in self.costs:
                shared[own], free = shared.get(own, 0) + cost, free + (0 if own else cost)
            worst = (cost * max([-f.ratio for f in own] + [Fraction(0)]) for own, cost in shared.items())
            blocks = [(cost, list(own)) for own, cost in shared.items() if own and cost]
            below = min(sum(worst, Fraction(0)), -in_common(blocks)) - free
        return min(2 * self.added + 2 * math.ceil(below), 4 * self.added)

    def alike(self) -> tuple[list[list[Factor]], dict[tuple[int, ...], Fraction]]:
        """Classes of factors, and by how many of each what pieces cost.

        Factors are one class where all sets of so many of each are there, and cost the same but for rounding.
        """
        totals = {f: sum(cost for cost, own in self.costs if f in own) for f in self.factors}
        ranked, classes = sorted(totals, key=lambda f: (f.ratio, totals[f])), list[list[Factor]]()
        for f in ranked:
            last = classes[-1][-1] if classes else None
            near = last and last.ratio == f.ratio and (totals[f] - totals[last]) * 2**30 <= totals[f]
            classes = [*classes[:-1], [*classes[-1], f]] if near else [*classes, [f]]
        for each in (classes, [[f] for f in ranked]):
            kinds = dict[tuple[int, ...], dict[frozenset[Factor], int]]()
            for cost, own in self.costs:
                kind = tuple(sum(f in own for f in members) for members in each)
                kinds.setdefault(kind, {}).setdefault(own, 0)
                kinds[kind][own] += cost
            sets = {kind: math.prod(map(math.comb, map(len, each), kind)) for kind in kinds}
            if all(len(own) == sets[kind] for kind, own in kinds.items()) and all(
                (max(own.values()) - min(own.values())) * 2**30 <= max(own.values()) for own in kinds.values()
            ):
                return each, {kind: Fraction(len(own) * max(own.values())) for kind, own in kinds.items()}
        return each, {kind: Fraction(sum(own.values())) for kind, own in kinds.items()}

    def persons(self, records: int) -> int:
        """The page's bound for persons with limits, by pairs of records."""
        limits, tables, bound = self.limits, dict[Any, int](), Fraction(0)
        for _, weight, own in self.pieces:
            flat = frozenset(f for f in own if f.kind == "plain" and f.attributes[0] in limits)
            for B in (frozenset(B) for k in range(len(flat) + 1) for B in combinations(flat, k)):
                signed = weight * math.prod(len(f.keys) ** 2 if f in B else -len(f.keys) for f in flat)
                key = frozenset(own) - flat, frozenset(f.attributes[0] for f in B)
                tables[key] = tables.get(key, 0) + signed
        for (T, B), weight in tables.items():
            pairs = [Fraction(pairs_agreeing(records, [limits[i] for i in B]))]
            pairs += [self.meeting(f, i, records, len(T) == 1) for f in T for i in f.attributes if i in limits]
            bound += max(weight, 0) * math.prod(f.norm for f in T) * min(pairs)
        return min(records**2 * self.added, math.ceil(bound))

    def meeting(self, factor: Factor, i: int, records: int, alone: bool) -> Fraction:
        """f_i of the page: what the records of a person meet in a factor, over its largest norm."""
        limit, inner = self.limits[i], math.prod(self.sizes[j] for j in factor.attributes if j > i)
        points = {(k // inner % self.sizes[i], key) for k, key in enumerate(factor.keys)}
        if factor.kind == "axis" or len(points) > FEW:
            return Fraction(records**2)

        def placed(numbers: Iterable[tuple[int, int]]) -> int:
            """(x)↓ of the page: the largest sum over so many records, of which a value takes no more than the limit."""
            largest = dict[int, int]()
            for value, number in numbers:
                largest[value] = max(largest.get(value, 0), number)
            ranked = sorted(largest.values(), reverse=True)
            return limit * sum(ranked[: records // limit]) + records % limit * sum(ranked[records // limit :][:1])

        signed = (lambda x: max(x, 0)) if alone else abs
        met = {key: placed((value, signed(factor.inner(key, other))) for value, other in points) for _, key in points}
        return Fraction(placed((value, met[key]) for value, key in points), factor.norm or 1)


def opposed(classes: list[tuple[int, Fraction]], terms: Iterable[tuple[tuple[int, ...], Fraction]]) -> Fraction:
    """The largest −Γ(c, c') at any corner: of m alike d have the least ratio, others 1."""
    if not classes:
        return sum((-cost for _, cost in terms), Fraction(0))
    ((m, ratio), *rest), largest = classes, list[Fraction]()
    for d in range(m + 1):
        merged, means = dict[tuple[int, ...], Fraction](), dict[int, Fraction]()
        for (t, *left), cost in terms:
            if t not in means:
                ways = (math.comb(d, h) * math.comb(m - d, t - h) * ratio**h for h in range(t + 1))
                means[t] = sum(ways, Fraction(0)) / math.comb(m, t)
            merged[tuple(left)] = merged.get(tuple(left), Fraction(0)) + cost * means[t]
        largest.append(opposed(rest, merged.items()))
    return max(largest)


def in_common(pieces: list[tuple[int, list[Factor]]]) -> Fraction:
    """No more than Γ(c, c') of any two cells, by the sums s, P and T of the page."""
    members = list(dict.fromkeys(f for _, own in pieces for f in own))
    r = {f: Fraction(math.floor(min(f.ratio, Fraction(0)) * 2**48), 2**48) for f in members}
    n, top = len(members), max((min(len(own), 3) for _, own in pieces), default=0)
    if top < 2 or n < 4:
        return -sum((cost * max(-r[f] for f in own) for cost, own in pieces), Fraction(0))
    unit, logs = max(cost for cost, _ in pieces), dict.fromkeys(members, 0.0)
    for cost, own in pieces:
        for f in own if len(own) == top else ():
            logs[f] += math.log(cost / unit)
    mine, others = math.comb(n - 1, top - 1), math.comb(n - 2, top - 2)
    mean = sum(logs.values()) / (mine + others * (n - 1))
    logs = {f: (logs[f] - others * mean) / (mine - others) for f in members}
    most = max(logs.values())
    a = {f: Fraction(round(math.exp(max(logs[f] - most, -25)) * 2**48), 2**48) for f in members}
    single, rest, two, three = dict.fromkeys(members, Fraction(0)), Fraction(0), Fraction(0), Fraction(0)
    listed = [[(Fraction(cost, unit), own) for cost, own in pieces if len(own) == t] for t in range(n + 1)]
    if len(listed[2]) == math.comb(n, 2):
        two = min(cost / (a[own[0]] * a[own[1]]) for cost, own in listed[2])
    if len(listed[3]) == math.comb(n, 3):
        three = min(cost / (a[own[0]] * a[own[1]] * a[own[2]]) for cost, own in listed[3])
    two, three = (Fraction(math.floor(beta * 2**48), 2**48) for beta in (two, three))
    for cost, own in (piece for each in listed[1:] for piece in each):
        if len(own) == 1:
            single[own[0]] += cost
        else:
            left = cost - {2: two, 3: three}.get(len(own), 0) * math.prod(a[f] for f in own)
            rest += max(left * max(-r[f] for f in own), -left)
    x2 = {f: a[f] ** 2 * (1 + r[f]) for f in members}
    x3 = {f: a[f] ** 3 * (1 + r[f] + r[f] ** 2) for f in members}
    fixed2 = sum(-(a[f] ** 2) * r[f] for f in members)
    fixed3 = sum(-(a[f] ** 3) * r[f] * (1 + r[f]) for f in members)
    rough = [tuple(map(float, (single[f], x2[f], x3[f], a[f], r[f]))) for f in members]

    def slope(low: float, high: float) -> float:
        """The best multiplier of s, about: where the minimiser's own s is inside."""
        w = max(float(two + three * Fraction(high)) / 2, 0.0)
        ranked = sorted(((c - w * p + float(three) / 3 * t) / each, each, least) for c, p, t, each, least in rough)
        s, q = sum(each * least for _, each, least in ranked), 0.0
        for q, each, least in ranked:  # below q, its member is at its least ratio; above, at 1
            if q >= 0 and s >= low:
                return 0.0
            s += each * (1 - least)
            if s > (high if q < 0 else low):
                return q
        return max(q, 0.0)

    def proven(low: float, high: float) -> Fraction:
        s0, s1, nu = Fraction(low), Fraction(high), Fraction(slope(low, high))
        w = max((two + three * s1) / 2, Fraction(0))
        square = Fraction(0) if s0 <= 0 <= s1 else min(s0**2, s1**2)
        total = two / 2 * square + three / 6 * s0**3 - w * fixed2 + three / 3 * fixed3 + min(nu * s0, nu * s1)
        slopes = ((single[f] - w * x2[f] + three / 3 * x3[f] - nu * a[f], r[f]) for f in members)
        return total + sum(min(c, c * least) for c, least in slopes)

    ends = math.floor(sum(a[f] * r[f] for f in members)) - 1.0, math.ceil(sum(a.values())) + 1.0
    open_ = [(proven(*ends), *ends)]
    for _ in range(400):
        _, low, high = heapq.heappop(open_)
        for each in ((low, (low + high) / 2), ((low + high) / 2, high)):
            heapq.heappush(open_, (proven(*each), *each))
    return (open_[0][0] - rest) * unit


def pairs_agreeing(records: int, limits: Iterable[int]) -> int:
    """D_B of the page."""
    limit = min(limits, default=records)
    return records // limit * limit**2 + (records % limit) ** 2


def price(body: dict[str, Any], arrays: Any = None, unit: Any = None) -> tuple[Fraction, bool]:
    """The price for a unit (the plan's own if left out), and whether it is an epsilon."""
    names, sizes, unit = list(body["sizes"]), list(body["sizes"].values()), unit or body["unit"]
    require(all(type(n) is int and 1 <= n <= LARGEST for n in sizes), "an attribute has no values, or millions")
    groups, replaces, weights = body["kind"] == "groups", unit["kind"] == "replace", Weights(arrays)
    per = {names.index(name): most for name, most in unit.get("per", {}).items()}
    numbers = [1 if replaces else unit["records"], *per.values()]
    known = unit["kind"] in ("add-remove", "replace", "person") and all(type(x) is int and x >= 1 for x in numbers)
    require(known, "the unit is not one that the page lists")
    records = min([numbers[0], *(most * sizes[i] for i, most in per.items())])
    limits = {i: most for i, most in per.items() if most < records}
    chosen = body["chosen"] if groups else [0]
    number = math.prod(sizes[i] for i in body.get("by", []))
    require(len(chosen) == number and min(chosen) >= -1, "the groups are not those of their attributes")
    weights([], chosen if groups else [])
    members = [Form(each, sizes, weights) for each in (body["members"] if groups else [body])]
    require(not any(next(left, None) for left in (weights.left or {}).values()), "the release lists more than its plan")
    if members[0].laplace and not groups:
        cost = laplace_price(members[0].pieces, None if replaces else records, body["drops"])
        return Fraction(cost, ONE), True
    require(not any(each.laplace for each in members), "groups have normal noise")
    cells = {k: Cells(members[k].pieces, sizes, limits) for k in set(chosen) if k >= 0 and members[k].pieces}
    ranked = sorted((cells[k].added if k in cells else 0 for k in chosen), reverse=True)
    if replaces:  # within a group; out of every table; from a group to another, of which both pay
        between = [ranked[0] * body["drops"], sum(ranked[:2]) * (len(ranked) > 1)]
        cost = max([each.replaced() for each in cells.values()] + between)
    elif groups or not limits:
        cost = pairs_agreeing(records, [limits[i] for i in body.get("by", []) if i in limits]) * ranked[0]
    else:
        cost = max(each.persons(records) for each in cells.values()) if cells else 0
    return Fraction(cost, ONE), False


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


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object that says everything once."""
    require(len(dict(pairs)) == len(pairs), "a key stands twice in the file")
    return dict(pairs)


def document(path: Path, kind: str) -> tuple[Any, str]:
    """The body of a document whose digest is right, and the digest of the file."""
    fits = path.is_file() and path.stat().st_size <= 2**28
    require(fits, f"{str(path)!r} is no file of at most 256 MB: give a saved plan, or the folder of a release")
    raw = path.read_bytes()
    start = raw.index(b'"body":') + 7
    header, body = json.loads(raw[:start] + b"null}", object_pairs_hook=distinct), raw[start:-1]
    right = header["format"] == kind and hashlib.sha256(body).hexdigest() == header["sha256"]
    require(right, f"this is no {kind}, or it was changed after it was written")
    stated = json.loads(body, object_pairs_hook=distinct, parse_constant=lambda x: require(False, f"{x} in it"))
    return stated, hashlib.sha256(raw).hexdigest()


def load(path: Path) -> tuple[dict[str, Any], dict[str, list[Any]] | None, dict[str, Any]]:
    """The body of a plan, and of a release its arrays and receipt."""
    if not path.is_dir():
        return document(path, "residua plan")[0], None, {}
    release, _ = document(path / "release.json", "residua release")
    kinds = {"plan.json": "residua plan", "measured.json": "residua measurements"}
    kinds |= {"left_out/release.json": "residua release"} if "left_out_most" in release["receipt"] else {}
    files = {name: document(path / name, kind) for name, kind in kinds.items()}
    require(all(release["files"][name] == digest for name, (_, digest) in files.items()), "a file was changed")
    return files["plan.json"][0], files["measured.json"][0], release["receipt"]


def verify(path: str) -> dict[str, Any]:
    """What a plan or release costs beside what it states."""
    body, arrays, receipt = load(Path(path))
    cost, epsilon = price(body, arrays)
    currency, beside = "epsilon" if epsilon else "pcost", Fraction(0)
    if "left_out_most" in receipt:  # records that were not counted, released beside those that were
        other, own, _ = load(Path(path) / "left_out")
        beside, pure = price(other, own)
        person = {"kind": "person", "records": receipt["left_out_most"], "per": {}}
        same = other["unit"] == person and other["sizes"] == body["sizes"] and pure == epsilon
        require(same, "what was left out is of other records, or has another kind of noise")
    margin = PLAN_MARGIN if arrays is None or "pooled" in receipt else 0
    covered, slack = covers(body["guarantee"], cost * (1 - margin), epsilon)
    stated = None if arrays is None else receipt[currency]
    covered = covered and (stated is None or (cost + beside) * (1 - margin) <= Fraction(stated))
    facts = {currency: float(cost + beside), "receipt": stated, "slack": slack, "covered": covered}
    return {"path": path, "unit": body["unit"], "guarantee": body["guarantee"], **facts}


def main() -> int:
    """Prints, and says by its exit code whether the guarantee covers the price."""
    try:
        require(len(sys.argv) == 2, "give one saved plan, or the folder of one release")
        verdict = verify(sys.argv[1])
    except Exception as problem:  # whatever a forged file provokes: no verdict
        what = str(problem) if isinstance(problem, Refused) else f"the file is not what the page says: {problem!r:.200}"
        sys.stderr.write(f"residua_verify: cannot tell: {what}\n")
        return 2
    sys.stdout.write(json.dumps(verdict, indent=2) + "\n")
    return 0 if verdict["covered"] else 1


if __name__ == "__main__":
    sys.exit(main())
