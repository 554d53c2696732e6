"""Mutations of every kind of file residua reads, and how each reading ends.

A door is a kind of file: a folder to start from, and what is read from it. A mutation changes one file of it by bits
and bytes, or by the values in it, with or without making the digests fit again as a forger would. Whatever was changed,
reading must end in acceptance or in a `ResiduaError`, and where no digest was made to fit, in acceptance of an equal
thing; within 5 seconds of a processor's time and 500 MB. The tests run a few hundred mutations of each kind,
`benchmarks/fuzzing.py` thousands.
"""

import json
import random
import shutil
import signal
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

import residua as rs
from residua.cli.planning import make_plan
from residua.cli.sessions import read_session_spec
from residua.cli.sources import open_source
from residua.cli.spec import read_spec
from residua.errors import ResiduaError
from residua.plans.verifier import priced
from residua.session.adapting import _read as read_adaptation
from tests.resealed import DOCUMENTS, body_of, reseal, sealed
from tests.saved import FORMS, KINDS, LEFT_OUT, adapted, code_lists, estimates, form, saved

SECONDS = 5  # of a processor's time, for one reading: a busy machine makes no hang
WAITING = 120  # seconds in all
MOST_BYTES = 500_000_000  # that one reading may add to the memory of the process, at any moment
NASTY = [
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e-320, 1e308, 2**31, 2**53, 2**63, 2**64, 10**400, -(10**30)),
    *("", "\0", "\x1b[31m", "é", "a" * 10_000, "nan", "1/0", "-1/1", "kind", "\ud800"),
    *([], {}, [[]], [None], [[1], [2, 3]], {"kind": "zcdp"}, [0] * 50, {"": {}}, [1e999], float("nan")),
]
DEEP = 100_000


def plan_facts(plan: rs.Plan) -> object:
    """What a plan is, for comparing; a plan that is accepted can be priced, or says why not."""
    import contextlib

    with contextlib.suppress(ResiduaError):
        priced(plan)
    return json.dumps(plan.to_body())


def read_plan(folder: Path) -> object:
    return plan_facts(rs.Plan.load(folder / "plan.json"))


def read_release(folder: Path) -> object:
    release = rs.Release.load(folder)
    beside = None if (left := release.left_out) is None else (plan_facts(left.planned), left.noisy.tobytes())
    return plan_facts(release.planned), release.noisy.tobytes(), dict(release.receipt), release.summary, beside


def read_projection(folder: Path) -> object:
    projected = rs.Projected.load(folder)
    return plan_facts(projected.plan), projected.fit.array.tobytes(), projected.statement, projected.gap


def read_ledger(folder: Path) -> object:
    ledger = rs.Ledger(folder / "a.ledger")
    return [*ledger.entries], str(ledger.spent), str(ledger.remaining), ledger.meaning, repr(ledger.unit)


def read_session(folder: Path) -> object:
    session = rs.Session(folder / "data.csv", ledger=folder / "a.ledger", state=folder / "session")
    status, adaptations = session.status, sorted((folder / "session").glob("adaptations/*.json"))
    adapted = [repr((each.asked, each.scores and each.scores.values)) for each in map(read_adaptation, adaptations)]
    return status.parts, status.lost, status.spent, status.remaining, status.choices, adapted


def read_continual(folder: Path) -> object:
    stream = rs.Continual(folder / "stream", ledger=folder / "a.ledger")
    released = stream._folder.released()
    return plan_facts(stream.plan), released, stream.cumulative().columns["estimate"].tobytes()


def read_estimates(folder: Path) -> object:
    estimated = rs.Estimated.load(folder)
    return plan_facts(estimated.plan), estimated.statement, estimated.total, estimated.fitted.singles.tobytes()


def read_codes(folder: Path) -> object:
    (path,) = folder.iterdir()
    listed = rs.CodeList.from_file(path, "code", levels=["tract", "state"])
    return list(listed.labels), [(level.name, list(level.labels), level.codes.tolist()) for level in listed.levels]


def read_codebook(folder: Path) -> object:
    return repr(rs.Domain.load(folder / "codebook.toml"))


def read_specification(folder: Path) -> object:
    path = folder / "spec.toml"
    session = "[[plan." in path.read_text(encoding="utf-8", errors="replace")
    specs = [named.spec for named in read_session_spec(path).plans.values()] if session else [read_spec(path)]
    for spec in specs:
        open_source(spec)
        if spec.workload.queries < 300:
            priced(make_plan(spec))
    return [(repr(spec.guarantee), repr(spec.workload), repr(spec.unit), repr(spec.domain)) for spec in specs]


SPECS = [
    """[source]\npath = "data.csv"\n[privacy]\nrho = 0.5\nrecords = 2\n[ledger]\npath = "a.ledger"\nrho = 1.0
[objective]\nminimise = "total"\n[[workload]]\nways = [0, 1, 2]\n[[workload]]\nsets = [["sex", "age"]]\nweight = 2.0
[domain.sex]\nvalues = ["F", "M"]\nmissing = "other"\n[domain.age]\nlow = 0\nhigh = 9\n""",
    """[source]\ndatabase = "d.duckdb"\nquery = "select * from t"\n[privacy]\nepsilon = 1.0\ndelta = 1e-9
[[workload]]\nqueries = ["age = 'old' and sex = 'F'", "age = 'child'"]\n[domain.sex]\nvalues = ["F", "M"]
[domain.age]\nedges = [0, 18, 30, 65, inf]\nlabels = ["child", "young", "adult", "old"]\n""",
    """[source]\npath = ["data.csv"]\ncounts = "n"\n[privacy]\nmu = 1.0\n[objective]\nminimise = "max"
[[workload]]\nprefixes = "age"\nby = ["sex"]\n[[workload]]\nhierarchy = "age"\n[domain.sex]\nvalues = ["F", "M"]
[domain.age]\nlow = 0\nhigh = 9\nlevels = { band = [0, 5, 9] }\nunknown = "drop"\n""",
    """[source]\npath = "data.csv"\n[privacy]\nrho = 0.5\n[session]\nstate = "s"\n[ledger]\npath = "a.ledger"
[[plan.one.workload]]\nways = 1\n[plan.one]\nindependent = true\n[[plan.two.workload]]\nways = [2]\nstddev = 3
[plan.two.privacy]\nmu = 0.5\n[domain.sex]\nvalues = ["F", "M"]\n[domain.age]\nsize = 4\n""",
    """[source]\npath = "data.csv"\n[privacy]\nmu = 1.0\nreplace = true\n[objective]\nminimise = "p-norm"\np = 3
tolerance = 0.01\n[[workload]]\nsets = [["age", "sex"]]
[domain.sex]\nvalues = ["F", "M"]\n[domain.age]\nlow = 0\nhigh = 4\n""",
    """[source]\npath = "data.csv"\n[privacy]\nepsilon = 1.0\n[[workload]]\nways = 1\n[domain]\nsex = ["F", "M"]
[[domain.impossible]]\nsex = "F"\nage = "low"\n[domain.age]\nintervals = [[0, 5], [5, 9]]
labels = ["low", "high"]\n""",
]


def _plan(folder: Path, chance: random.Random) -> None:
    kind = chance.choice([*KINDS, "replace_one", *FORMS])
    shutil.copy(form(kind) / "plan.json" if kind in FORMS else saved() / f"{kind}.json", folder / "plan.json")


def _folder(what: str) -> Callable[[Path, random.Random], None]:
    def copy(folder: Path, chance: random.Random) -> None:
        kind = chance.choice([*KINDS, *FORMS, *(["session"] if what == "release" else [])])
        shutil.copytree(form(kind) / what if kind in FORMS else saved() / f"{kind}_{what}", folder, dirs_exist_ok=True)

    return copy


def _left_out(folder: Path, chance: random.Random) -> None:
    shutil.copytree(form(chance.choice([*LEFT_OUT])) / "release", folder, dirs_exist_ok=True)
    assert (folder / "left_out" / "release.json").is_file()


def _estimates(folder: Path, chance: random.Random) -> None:
    shutil.copytree(estimates(), folder, dirs_exist_ok=True)


def _codes(folder: Path, chance: random.Random) -> None:
    shutil.copy(code_lists() / f"codes.{chance.choice(['csv', 'parquet'])}", folder)


def _codebook(folder: Path, chance: random.Random) -> None:
    shutil.copy(form(chance.choice(FORMS)) / "release" / "codebook.toml", folder)


def _ledger(folder: Path, chance: random.Random) -> None:
    kind = chance.choice([*KINDS, "session", "adapted"])
    shutil.copy(adapted() / "a.ledger" if kind == "adapted" else saved() / f"{kind}.ledger", folder / "a.ledger")
    if chance.random() < 0.3:
        rs.Ledger(folder / "a.ledger").accept(fingerprint="other", why="corrected")


def _session(folder: Path, chance: random.Random) -> None:
    if chance.random() < 0.5:
        shutil.copytree(adapted(), folder, dirs_exist_ok=True)
    else:
        shutil.copytree(saved() / "session", folder / "session")
        shutil.copy(saved() / "session.ledger", folder / "a.ledger")
    shutil.copy(saved() / "data.csv", folder / "data.csv")


def _continual(folder: Path, chance: random.Random) -> None:
    import pyarrow as pa

    domain = rs.Domain({"month": rs.Integers(1, 4)})
    plan = rs.plan(rs.prefixes(domain, "month"), rs.ZCDP(0.5), form=rs.Axis())
    ledger = rs.Ledger(folder / "a.ledger", rs.ZCDP(0.5))
    stream = rs.Continual(folder / "stream", ledger=ledger, plan=plan)
    for month in range(1, 1 + chance.randrange(3)):
        stream.append(pa.table({"month": [month] * 5}))


def _specification(folder: Path, chance: random.Random) -> None:
    (folder / "spec.toml").write_text(chance.choice(SPECS))
    for name in ("data.csv", "d.duckdb"):
        shutil.copy(saved() / "data.csv", folder / name)


@dataclass(frozen=True)
class Door:
    """A kind of file: how one is laid out to start from, and what is read from it."""

    lay: Callable[[Path, random.Random], None]
    read: Callable[[Path], object]


DOORS = {
    "specification": Door(_specification, read_specification),
    "plan": Door(_plan, read_plan),
    "release": Door(_folder("release"), read_release),
    "release of what was left out": Door(_left_out, read_release),
    "projection": Door(_folder("projection"), read_projection),
    "estimates": Door(_estimates, read_estimates),
    "code list": Door(_codes, read_codes),
    "codebook": Door(_codebook, read_codebook),
    "ledger": Door(_ledger, read_ledger),
    "session": Door(_session, read_session),
    "continual": Door(_continual, read_continual),
}


@dataclass
class Endings:
    """How the readings ended, and those that ended wrongly: what was done, and what came of it."""

    counted: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0  # of a processor's time, at most
    memory: int = 0  # bytes, at most

    def __str__(self) -> str:
        told = ", ".join(f"{count} {ending}" for ending, count in sorted(self.counted.items()))
        return f"{told}; at most {self.seconds:.1f} s and {self.memory / 1e6:.0f} MB"


def fuzz(name: str, mutations: int, seed: int) -> Endings:
    """Mutates files of one kind, one mutation each, and says how reading them ended."""
    chance, door, endings = random.Random(f"{name}:{seed}"), DOORS[name], Endings()
    while sum(endings.counted.values()) < mutations:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "thing"
            folder.mkdir()
            door.lay(folder, chance)
            original = door.read(folder)
            for _ in range(10):  # of one original: laying it out takes as long as reading it
                file = chance.choice([path for path in sorted(folder.rglob("*")) if path.is_file() and _ours(path)])
                kept = file.read_bytes()
                saved = {path: path.read_bytes() for path in _documents(folder)}
                done, forged = mutated(file, chance)
                began, held = time.process_time(), _begin_watching()
                ending = _ending(door, folder, original, forged=forged)
                endings.seconds = max(endings.seconds, seconds := time.process_time() - began)
                taken = max(_most_memory() - held, 0)
                endings.memory = max(endings.memory, taken)
                if taken > MOST_BYTES and ":" not in ending:
                    ending = f"takes too much: {taken / 1e6:.0f} MB, {ending}"
                if seconds > SECONDS and ":" not in ending:
                    ending = f"takes too long: {seconds:.1f} s, {ending}"
                endings.counted[ending.partition(":")[0]] += 1
                if ":" in ending:
                    endings.wrong.append(f"seed {seed}: {file.relative_to(folder)} {done}: {ending}")
                file.write_bytes(kept)
                for path, content in saved.items():
                    path.write_bytes(content)
    return endings


_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _begin_watching() -> int:
    """How much memory the process has now, from which its largest amount is measured; 0 where that is not known."""
    if not _FORGET.exists():
        return 0
    _FORGET.write_text("5")
    return _most_memory()


def _most_memory() -> int:
    """The most memory that the process had since, in bytes."""
    if not _FORGET.exists():
        return 0
    return next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM")) * 1024


def _ours(path: Path) -> bool:
    return path.name not in ("data.csv", "d.duckdb", "lock")


def _documents(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.json") if path.name in DOCUMENTS.values()]


def _ending(door: Door, folder: Path, original: object, *, forged: bool) -> str:
    """How a reading ends; a wrong ending says more after a colon."""
    before = {number: signal.signal(number, _hang) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.alarm(WAITING)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        found = door.read(folder)
    except ResiduaError as problem:
        sentence = str(problem)
        plain = sentence.isprintable() and len(sentence) < 2_000
        return "refused" if plain and sentence.endswith((".", "?")) else f"refused badly: {sentence[:300]!r}"
    except BaseException as problem:
        trace = problem.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        return f"raised: {type(problem).__name__} {str(problem)[:200]} at {where}"
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
    if found == original:
        return "accepted as equal"
    return (
        "accepted as another" if forged or _prefix(found, original) else "accepted: not equal, and no digest was forged"
    )


def _prefix(found: object, original: object) -> bool:
    """Whether a ledger lost its end, which it cannot notice by itself."""
    return isinstance(found, tuple) and isinstance(found[0], list) and found[0] == original[0][: len(found[0])]  # type: ignore[index]


class Hang(BaseException):
    """A reading takes too long; no error that a reader of damaged files may catch."""


def _hang(number: int, frame: object) -> None:
    raise Hang(f"longer than {SECONDS} s of a processor's time, or {WAITING} s in all")


# ---- mutations


def mutated(file: Path, chance: random.Random) -> tuple[str, bool]:
    """Changes a file; says what was done, and whether what comes of it may be another valid thing."""
    content = file.read_bytes()
    # Nothing seals a specification, a code list, or a codebook by itself.
    alone = not any((file.parent / name).is_file() for name in DOCUMENTS.values())
    free = alone and file.suffix in (".toml", ".csv", ".parquet")
    document = content.startswith(b'{"format":') and b'"body":' in content
    ways = ["bytes", "bytes", "sealed bytes"] + (
        ["values"] * 4 if document or file.suffix in (".toml", ".ledger") else []
    )
    way = chance.choice(ways)
    if way == "values":
        try:
            return _of_values(file, content, chance), True
        except (ValueError, TypeError, RecursionError):
            way = "bytes"
    if way == "sealed bytes" and document:
        header = json.loads(content)
        file.write_bytes(sealed(header["format"], header["version"], _bytes(body_of(content), chance)))
    else:
        file.write_bytes(_bytes(content, chance))
    if way == "sealed bytes":
        _seal_around(file)
    return way, way == "sealed bytes" or free


def _seal_around(file: Path) -> None:
    for folder in file.parents[:3]:  # estimates seal the folder of their release, a release that of what was left out
        if any((folder / name).is_file() and folder / name != file for name in DOCUMENTS.values()):
            reseal(folder)


def _bytes(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    at = chance.randrange(len(changed) + 1)
    end = min(len(changed), at + chance.choice([1, 2, 8, 100]))
    way = chance.randrange(7)
    if way <= 1 and changed:
        changed[at % len(changed)] ^= 1 << chance.randrange(8)
    elif way == 2:
        del changed[at:end]
    elif way == 3:
        changed[at:at] = chance.randbytes(chance.choice([1, 4, 40]))
    elif way == 4:
        changed[at:at] = changed[at:end] * chance.choice([1, 2, 1000])
    elif way == 5:
        del changed[at:]
    else:
        changed[at:at] = chance.choice(
            [b"[" * DEEP, b"{" * DEEP, b"9" * 5000, b"\0", b'"', b"\n", b"\r\n", b"1e999", b"-"]
        )
    return bytes(changed)


def _of_values(file: Path, content: bytes, chance: random.Random) -> str:
    """Changes one value of a document, a specification or a line of a ledger, and seals it again."""
    if file.suffix == ".toml":
        tree, done = _changed(tomllib.loads(content.decode()), chance)
        file.write_text(tomli_w.dumps(tree), encoding="utf-8")
        _seal_around(file)
        return done
    if file.suffix == ".ledger":
        return _ledger_line(file, content, chance)
    header = json.loads(content)
    tree, done = _changed(header["body"], chance)
    file.write_bytes(sealed(header["format"], header["version"], json.dumps(tree).encode()))
    _seal_around(file)
    return done


def _ledger_line(file: Path, content: bytes, chance: random.Random) -> str:
    import hashlib

    lines = [json.loads(line) for line in content.splitlines()]
    which = chance.randrange(len(lines))
    lines[which], done = _changed({key: value for key, value in lines[which].items() if key != "sha256"}, chance)
    previous, sealed_lines = "", []
    for body in lines:
        if isinstance(body, dict):
            body.pop("sha256", None)
            if "previous" in body:
                body["previous"] = previous
        opened = json.dumps(body, separators=(",", ":"))[:-1].encode()
        previous = hashlib.sha256(opened).hexdigest()
        sealed_lines.append(opened + f',"sha256":"{previous}"}}'.encode())
    file.write_bytes(b"\n".join(sealed_lines) + b"\n")
    return f"line {which} {done}"


def _changed(tree: Any, chance: random.Random) -> tuple[Any, str]:
    """The tree with one value replaced, removed, repeated or moved; and what was done, in words."""
    places = list(_places(tree))
    holder, key = chance.choice(places)
    way = chance.choice(["replace", "replace", "replace", "remove", "repeat", "rename", "scale"])
    old = holder[key]
    if way == "remove":
        del holder[key]
    elif way == "repeat" and isinstance(holder, list):
        holder.insert(key, old)
    elif way == "rename" and isinstance(holder, dict):
        holder[chance.choice([*holder, "x", ""])] = holder.pop(key)
    elif way == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = old * chance.choice([-1, 2, 1000, 1e-3, 1 + 1e-9, 10**6])
    else:
        holder[key] = json.loads(json.dumps(chance.choice(NASTY))) if chance.random() < 0.95 else _deep(500)
    return tree, f"{way} {key!r} ({str(old)[:40]}) by {str(holder[key] if key in _keys(holder) else '')[:40]}"


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _deep(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def _places(tree: Any) -> Any:
    """Every place in a tree of plain values: what holds it, and its key."""
    for key in list(_keys(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list) and tree[key]:
            yield from _places(tree[key])
