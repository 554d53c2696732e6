"""Small plan files that describe something large are refused, or accepted, in little time and memory; every kind."""

import base64
import copy
import itertools
import json
import subprocess
import sys
import zlib

import numpy as np
import pytest

import residua as rs
from residua.plans.statements import packed
from tests.resealed import sealed

_MOST_MB, _MOST_SECONDS = 500, 5.0  # of memory beyond what an import takes, and of processor time per file
_LOAD = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
import residua as rs
rs.Plan.load(sys.argv[1])  # loads libraries, and compiles
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
for path in sys.argv[2:]:
    start, how = time.process_time(), "accepted"
    try:
        rs.Plan.load(path)
    except rs.ResiduaError as problem:
        how = str(problem)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - base
    print(json.dumps([path, time.process_time() - start, more, how]), flush=True)
"""


def ones(n):
    """So many ones, packed into next to nothing."""
    rows = np.ascontiguousarray(np.ones(n).view(np.uint8).reshape(-1, 8).T)
    return base64.b85encode(zlib.compress(rows.tobytes(), 9)).decode()


DOMAIN = rs.Domain({"t": rs.Integers(0, 9, levels={"g": [0, 2, 10]}), "s": ["a", "b"]})


def body_of(workload, **how):
    body = rs.plan(workload, rs.ZCDP(0.5), **how).to_body()
    return json.loads(json.dumps({**body, "workload": None}, default=lambda array: np.asarray(array).tolist()))


AXIS = body_of(rs.prefixes(DOMAIN, "t"), form=rs.Axis())
TREE = body_of(rs.hierarchy(DOMAIN, "t"), form=rs.Tree())
MATRIX = body_of(rs.queries(DOMAIN, ["t < 3", "t > 5"]), form=rs.Matrix())
BLOCKS = body_of(rs.queries(DOMAIN, ["t < 3 and s = 'a'", "s = 'b'"]), form=rs.Blockwise())
ROWS = body_of(rs.prefixes(DOMAIN, "t", by=["s"]), form=rs.Lattice())
SETS = body_of(rs.marginals(DOMAIN, ways=2))
REPLACE, PERSON = {"kind": "replace"}, {"kind": "person", "records": 3, "per": {"t": 1}}
SHORT = [f"x{k}" for k in range(11)]
ALL = [list(some) for k in range(12) for some in itertools.combinations(range(1, 12), k)]


def over(body, size, short=("s",), **changes):
    domain = {"t": {"size": size}, **{name: {"values": ["a", "b"]} for name in short}}
    sizes = {"t": size, **dict.fromkeys(short, 2)}
    return {**copy.deepcopy(body), "domain": domain, "sizes": sizes, **changes}


def axis(size, **changes):
    body = over(AXIS, size)
    body["axes"][0].update(q=ones(size), **changes)
    return body


def tree(size, counts, *precisions):
    body = over(TREE, size)
    body["parts"][0]["operator"].update(start=0, counts=counts, precisions=[*precisions, packed(np.ones(1))])
    body["levels"] = []
    return body


def matrix(columns, unit):
    given = {"attributes": [0], "columns": list(range(columns)), "strategy": [[1] * columns], "unit": unit}
    return over(MATRIX, columns, **given)


def rows(size, unit):
    return over(
        ROWS, size, strategies=[{"rows": [[1] * (size // 2) + [0] * (size - size // 2)]}, {"rows": None}], unit=unit
    )


def strata(member, many, **changes):
    stated = {name: value for name, value in SETS.items() if name not in ("precisions", "strategies")}
    stated |= {"domain": member["domain"], "sizes": member["sizes"]}
    made = {"kind": "groups", "sets": None, "by": [1], "members": [member] * many}
    return {**stated, **made, "chosen": [0, 1], **changes}


def many_axes():
    """A thousand noises, each with a pole of its own."""
    operator, q = AXIS["parts"][0]["operator"], ones(10**5)
    parts = [{"members": some, "operator": {**operator, "axis": k}} for k, some in enumerate(ALL[:1000])]
    axes = [{**AXIS["axes"][0], "q": q, "poles": [1.0 + k], "weights": [1.0]} for k in range(1000)]
    return over(AXIS, 10**5, SHORT, attribute=0, parts=parts, axes=axes)


def many_trees():
    precisions = [ones(500_000), ones(500_000), packed(np.ones(1))]
    operator = {"kind": "tree", "start": 0, "noise": "normal", "counts": [500_000], "precisions": precisions}
    parts = [{"members": some, "operator": operator} for some in ALL[:100]]
    return over(TREE, 10**6, SHORT, attribute=0, parts=parts, levels=[])


def blocks(each, idle=0):
    given = [[[0] * each]]
    return {**BLOCKS, "strategies": BLOCKS["strategies"] + given * idle if idle else given * len(BLOCKS["strategies"])}


BOMBS = {
    "an axis of twenty million values": lambda: axis(2 * 10**7),
    "an axis of a million values": lambda: axis(10**6),
    "an axis with a weight per value": lambda: axis(10**6, asked={"prefixes": 1.0, "singles": ones(10**6)}),
    "the same with few parts": lambda: axis(
        10**6, asked={"prefixes": 1.0, "singles": ones(10**6)}, poles=[1.0, 2.0], weights=[1.0, 1.0]
    ),
    "a thousand axes": many_axes,
    "a tree over 10^8 values": lambda: tree(10**8, [], packed(np.ones(1))),
    "a tree over 3·10^7 values": lambda: tree(3 * 10**7, [], packed(np.ones(1))),
    "a tree with ten million precisions": lambda: tree(10**7, [10**7 - 1], ones(10**7 - 1), ones(10**7 - 1)),
    "a tree with six million precisions": lambda: tree(4 * 10**6, [3 * 10**6], ones(3 * 10**6), ones(3 * 10**6)),
    "a hundred trees": many_trees,
    **{
        f"a matrix of {columns:,} columns for {unit['kind']}": lambda columns=columns, unit=unit: matrix(columns, unit)
        for columns in (4_096, 16_384, 100_000)
        for unit in (REPLACE, PERSON)
    },
    "rows over very many values, replaced": lambda: rows(100_000, REPLACE),
    "rows over very many values, for persons": lambda: rows(100_000, PERSON),
    "rows over 4,096 values, for persons": lambda: rows(4_096, PERSON),
    "blocks far wider than their tables": lambda: blocks(200_000 // len(BLOCKS["strategies"])),
    "strategies for no block": lambda: blocks(20_000, 25),
    "strata of trees": lambda: strata(tree(10**6, [10**6 - 1], ones(10**6 - 1), ones(10**6 - 1)), 20),
    "strata of axes": lambda: strata(axis(10**6), 30),
    "strata of matrices": lambda: strata(matrix(4_096, REPLACE), 30, unit=REPLACE),
    "very many strata": lambda: strata(over(SETS, 2**24), 1, by=[0], chosen=[0]),
    "tables of 10^16 cells": lambda: over(
        SETS, 10**8, domain={"t": {"size": 10**8}, "s": {"size": 10**8}}, sizes={"t": 10**8, "s": 10**8}
    ),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What loading each of the files took, one after the other in one process."""
    folder = tmp_path_factory.mktemp("bombs")
    files = {"honest": AXIS, **{what: make() for what, make in BOMBS.items()}}
    for number, body in enumerate(files.values()):
        (folder / f"{number}.json").write_bytes(sealed("residua plan", 1, json.dumps(body).encode()))
        assert (folder / f"{number}.json").stat().st_size < 2.2 * 2**20
    paths = [str(folder / f"{number}.json") for number in range(len(files))]
    done = subprocess.run([sys.executable, "-c", _LOAD, *paths], check=False, capture_output=True, text=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(BOMBS, told, strict=False)), done.stderr


@pytest.mark.parametrize("what", BOMBS)
def test_no_small_file_takes_much_time_or_memory(what, loaded):
    told, errors = loaded
    assert what in told, errors[-2000:]
    _, seconds, megabytes, how = told[what]
    assert seconds < _MOST_SECONDS, how
    assert megabytes < _MOST_MB, how  # the most so far: the first that takes more is the culprit
