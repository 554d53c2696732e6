"""What plans of every form state beside their noise: to files, as plain values, and to people."""

from __future__ import annotations

import base64
import json
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np

from residua.domain import Domain, domain_of_settings, settings_of_domain
from residua.errors import FileError
from residua.files import MOST_PLAN, read_document, write_document
from residua.folders import DAMAGE
from residua.linalg.arrays import Floats
from residua.plans.noise import LAPLACE
from residua.plans.tolerances import PRICE_TOLERANCE
from residua.privacy import AddRemove, Person, PureDP, ReplaceOne, Unit
from residua.privacy.guarantees import guarantee_of_body, guarantee_to_body
from residua.workload.files import lattice_of_body, lattice_to_body, workload_of_body, workload_to_body

KIND, VERSION = "residua plan", 1
_SHOWN = 4
_LONG = 64  # letters: shorter texts unpack to little
_MODEST, _PER_LETTER = 2**26, 32  # bytes that a file's texts may unpack to, and how many more for every letter


@dataclass(frozen=True)
class Candidate:
    """A strategy that was tried.

    Args:
        name: which one.
        loss: the plan's objective under it, at the plan's budget.
    """

    name: str
    loss: float


def tried(candidates: Sequence[Candidate], gap: float) -> tuple[tuple[str, str], ...]:
    """The strategies that were tried, by their loss beside the best; nothing where none were."""
    if not candidates:
        return ()
    others = [f"{each.name} {each.loss / candidates[0].loss - 1:+.0%}" for each in candidates[1:]]
    shown = "; ".join(others[:_SHOWN]) or "none"
    rest = f"; {len(others) - _SHOWN} more are worse" if len(others) > _SHOWN else ""
    strategy = (("Strategy", f"{candidates[0].name}. Others by their loss: {shown}{rest}"),)
    if not math.isfinite(gap):
        return strategy
    return (
        *strategy,
        ("", "the bound behind the gap holds for every strategy, and is loose; which one is best is not known"),
    )


def price_remarks(unit: Unit, slack: float) -> tuple[tuple[str, str], ...]:
    """What people should know of a price that can be above what the unit really costs, with a heading."""
    if slack <= PRICE_TOLERANCE:
        return ()
    if math.isinf(slack):
        return (("Price", "a bound; what it really costs is not computed and may be much less"),)
    change = "replacing some record" if unit.contribution is None else "some person"
    return (("Price", f"at most {100 * slack:.2g}% above what {change} really costs"),)


# ---- files


def unit_to_body(unit: Unit) -> dict[str, Any]:
    """A unit of protection as plain values."""
    if isinstance(unit, Person):
        return {"kind": "person", "records": unit.records, "per": unit.limits}
    return {"kind": "replace"} if isinstance(unit, ReplaceOne) else {"kind": "add-remove", **vars(unit)}


def unit_of_body(body: dict[str, Any]) -> Unit:
    """The unit of protection that plain values describe."""
    if body["kind"] == "person":
        return Person(body["records"], per=body["per"])
    return ReplaceOne() if body["kind"] == "replace" else AddRemove(body["records"])


def stated_to_body(plan: Any) -> dict[str, Any]:
    """What every plan states, as plain values; sets that a form keeps are not written again with what was asked."""
    family = plan.family
    return {
        "kind": plan.kind,
        "domain": settings_of_domain(plan.domain),
        **sizes_to_body(plan.domain),
        "unit": unit_to_body(plan.unit),
        "guarantee": guarantee_to_body(plan.guarantee),
        "objective": plan.objective,
        "gap": plan.gap if math.isfinite(plan.gap) else None,
        "bias": plan.bias,
        "candidates": [vars(each) for each in plan.candidates],
        "lower_bound": plan.lower_bound,
        "sets": None if family is None else lattice_to_body(family.lattice),
        "workload": workload_to_body(plan.workload, None if family is None else family.lattice),
    }


def sizes_to_body(domain: Domain) -> dict[str, Any]:
    """What a price needs of a domain, for those who read files without residua."""
    return {"sizes": dict(zip(domain.names, domain.sizes.tolist(), strict=True)), "drops": domain.drops}


def stated_of_body(domain: Domain, body: dict[str, Any]) -> dict[str, Any]:
    """The fields that plain values give to every kind of plan, except the domain; and the family of sets, if any."""
    if any(body[name] != stated for name, stated in sizes_to_body(domain).items()):
        raise ValueError("it states other sizes than those of its domain")
    lattice = None if body["sets"] is None else lattice_of_body(body["sets"], len(domain))
    return {
        "guarantee": guarantee_of_body(body["guarantee"]),
        "unit": unit_of_body(body["unit"]),
        "objective": str(body["objective"]),
        "gap": math.inf if body["gap"] is None else float(body["gap"]),
        "bias": float(body["bias"]),
        "candidates": tuple(Candidate(str(each["name"]), float(each["loss"])) for each in body["candidates"]),
        "lower_bound": float(body["lower_bound"]),
        "workload": workload_of_body(domain, body["workload"], lattice),
        **({} if lattice is None else {"lattice": lattice}),
    }


def check_claims(plan: Any) -> None:
    """Refuses a plan that costs more than it claims.

    Raises:
        ValueError: it does, or its gap, bias or bound is none.
    """
    if not (plan.gap >= 0 and plan.bias >= 0 and plan.lower_bound >= 0):
        raise ValueError("its gap, bias or lower bound means nothing")
    # An ulp or so may be lost between a cost, its guarantee, and the cost that one allows.
    if plan.noise == LAPLACE:
        if not isinstance(plan.guarantee, PureDP) or plan.unit_epsilon > plan.guarantee.epsilon * (1 + 1e-9):
            raise ValueError("its guarantee is smaller than what it costs")
        return
    allowed = 0.0 if plan.guarantee is None else float(plan.guarantee.pcost_allowed()) * (1 + 1e-9)
    if plan.unit_pcost > allowed:
        raise ValueError("it costs more than it claims")


def integers_of_body(values: Any) -> Any:
    """An array of whole numbers."""
    array = np.array(values)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError("what should be whole numbers is not")
    return array


class KeptPlan(ABC):
    """A plan that files keep. A form says what it is called there, what is kept of it, and how that is read."""

    kinds: ClassVar[tuple[str, ...]] = ()  # what files call plans of this form
    _forms: ClassVar[dict[str, type[KeptPlan]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for kind in cls.__dict__.get("kinds", ()):
            known = KeptPlan._forms.setdefault(kind, cls)
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"two forms of plan are called {kind!r} in files: {known.__name__}, {cls.__name__}")
            KeptPlan._forms[kind] = cls

    @property
    def kind(self) -> str:
        """What files call it."""
        return self.kinds[0]

    @abstractmethod
    def kept(self) -> dict[str, Any]:
        """What files keep of this form beside what they keep of every plan, as plain values."""

    @classmethod
    @abstractmethod
    def of_kept(cls, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> Self:
        """The plan that plain values describe; every invariant is checked again.

        Args:
            domain: what the table may hold.
            body: the plain values.
            stated: the fields that every plan has, and the family of sets where there is one.
        """

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {**stated_to_body(self), **self.kept()}

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> Self:
        """The plan that plain values describe; what it claims is checked against its price."""
        domain = domain_of_settings(body["domain"])
        plan = KeptPlan._forms[body["kind"]].of_kept(domain, body, stated_of_body(domain, body))
        check_claims(plan)
        return cast("Self", plan)

    def save(self, path: str | Path) -> None:
        """Writes the plan to a JSON file that `Plan.load` reads, over an older plan but over nothing else."""
        write_document(Path(path), KIND, VERSION, self.to_body(), most=MOST_PLAN)

    @classmethod
    def load(cls, path: str | Path, *, follow: bool = True) -> Self:
        """Reads a saved plan, refusing a file that was changed.

        Args:
            path: the file.
            follow: whether it may be a symbolic link, as where the user named it.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        body = read_document(Path(path), KIND, VERSION, most=MOST_PLAN, follow=follow)
        try:
            require_modest(body, Path(path).stat().st_size)
            return cls.of_body(body)
        except DAMAGE as problem:
            raise FileError(f"{str(path)!r} does not hold a valid plan ({problem}); plan again.") from None


# ---- arrays as text: what they are, exactly, in a quarter of the room of decimals


def packed(values: Floats) -> str:
    """Numbers as text; neighbouring bytes are alike once transposed."""
    raw = np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(-1, 8).T
    return base64.b85encode(zlib.compress(np.ascontiguousarray(raw).tobytes(), 6)).decode()


def unpacked(text: str, most: int) -> Floats:
    """The numbers behind packed text, all of them finite and none negative.

    Args:
        text: what `packed` made.
        most: how many there may be: no more is ever unpacked.

    Raises:
        ValueError: there are more, or they are no such numbers.
    """
    raw = zlib.decompressobj().decompress(base64.b85decode(text), 8 * most + 8)
    if len(raw) % 8 or len(raw) > 8 * most:
        raise ValueError("an array is not as long as it should be")
    values = np.ascontiguousarray(np.frombuffer(raw, dtype=np.uint8).reshape(8, -1).T).view("<f8").ravel()
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("an array holds what is no number, or negative")
    return values.astype(np.float64)


def require_modest(body: Any, letters: int) -> None:
    """Refuses plain values of a small file whose packed texts are not small.

    Noise along an axis counts once for each of its parts, as each takes its time, and once however often it is used.

    Args:
        body: the plain values.
        letters: how large the file is.

    Raises:
        ValueError: they unpack to far more than the file holds.
    """
    left, sizes = _MODEST + _PER_LETTER * letters, dict[str, int]()
    for parts, text in _packed_texts(body, set()):
        if text not in sizes:
            sizes[text] = _inflated(text, left)
        left -= parts * sizes[text]
        if left < 0:
            raise ValueError("its packed numbers are far more than a file of this size may hold")


def _packed_texts(body: Any, known: set[str], parts: int = 1) -> Iterator[tuple[int, str]]:
    """Every long text, as often as it is unpacked, and how many parts the noise has that it describes."""
    if isinstance(body, str) and len(body) > _LONG:
        yield parts, body
    elif isinstance(body, list) and body and not isinstance(body[0], int | float):
        for each in body:
            yield from _packed_texts(each, known, parts)
    elif isinstance(body, dict):
        if "poles" in body:
            key, parts = json.dumps(body, sort_keys=True), len(body["poles"])
            if key in known:
                return
            known.add(key)
        for name, each in body.items():
            if name not in ("domain", "workload", "network"):
                yield from _packed_texts(each, known, parts)


def _inflated(text: str, most: int) -> int:
    """How many bytes a packed text unpacks to, or more than the most; a megabyte is held at a time."""
    try:
        left, size, stream = base64.b85decode(text), 0, zlib.decompressobj()
        while left and not stream.eof and size <= most:
            size += len(stream.decompress(left, 2**20))
            left = stream.unconsumed_tail
        return size
    except (ValueError, zlib.error):
        return 0  # no packed text
