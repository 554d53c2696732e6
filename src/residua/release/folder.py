"""A saved release: a folder that is whole or absent, states its privacy, and notices when it was changed.

release.json       kind, version, receipt, and the digest of every other file
plan.json          the plan as it was made
measurements.npy   the noisy integers (64-bit); of marginals, where they are millions, measurements/part-*.parquet
measured.json      sets measured, grid factors, noise scales
codebook.toml      the domain: attributes, labels, policies
PRIVACY.md         the privacy statement, for people
left_out/          for persons: a release of the records that the bound left out
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import tomli_w
from numpy.typing import NDArray

from residua import folders
from residua.disk import keep_room, patiently, sync_folder
from residua.domain import settings_of_domain
from residua.errors import FileError
from residua.files import MOST_DOCUMENT, MOST_PLAN, read_document, write_document
from residua.language import mark, numeral, say
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.plans.tolerances import nearness
from residua.privacy import AddRemove, Person, PureDP, describe
from residua.privacy.costs import Currencies, printed, stated
from residua.published.table import protects, what_is_counted
from residua.release.left_out import in_figures
from residua.release.parts import FOLDER, OPEN_FOLDER, PartedIntegers, part_bytes, part_name, part_room, part_starts
from residua.showing import printable

if TYPE_CHECKING:
    from residua.linalg.arrays import Integers
    from residua.release.base import Release

KIND, VERSION = "residua release", 1
_MEASURED = "residua measurements"
_DOCUMENTS = ("plan.json", "measured.json", "codebook.toml", "PRIVACY.md")
_SPARE = "spare"
_LEFT_OUT = "left_out"
PACKED_CELLS = 1 << 22  # 32 MB: from here on measurements of marginals are packed in parts
_SAME_NOISE = 2.0**-40  # relative; compiling rounds scales up by 2^-46 at most, pooling does not


@dataclass(frozen=True)
class Reserved:
    """Room on the disk for a release that is yet to be measured."""

    final: Path
    partial: Path

    def commit(self, release: Release, written: tuple[Sequence[int], Mapping[str, str]] | None = None) -> None:
        """Writes the measurements into the room reserved for them and lets the folder appear under its name.

        Args:
            release: what was measured.
            written: if others have written the measurements, part by part, into `measurements/`: where each part
                begins, the number of cells at the end, and the file of each part → its SHA-256 digest.
        """
        try:
            starts = _packed_starts(release.measurements) if written is None else list(written[0])
            if written is not None:
                digests = dict(written[1])
            elif starts is not None:
                digests = _write_parts(self.partial, starts, release.noisy)
            else:
                with (self.partial / "measurements.npy").open("r+b") as file:
                    np.lib.format.write_array(file, np.ascontiguousarray(release.noisy), allow_pickle=False)
                    file.truncate()
                    file.flush()
                    os.fsync(file.fileno())
                digests = folders.digests_of(self.partial, ["measurements.npy"])
            (self.partial / _SPARE).unlink(missing_ok=True)  # room for the last two files
            folders.write_synced(self.partial / "PRIVACY.md", privacy_statement(release).encode())
            if release.left_out is not None:
                release.left_out.save(self.partial / _LEFT_OUT)
                digests |= folders.digests_of(self.partial, [f"{_LEFT_OUT}/release.json"])
            body: dict[str, Any] = {"receipt": dict(release.receipt)}
            body["files"] = folders.digests_of(self.partial, _DOCUMENTS) | digests
            if starts is not None:
                body["parts"] = starts
                sync_folder(self.partial / FOLDER)
            write_document(self.partial / "release.json", KIND, VERSION, body)
            sync_folder(self.partial)
        except OSError as problem:
            raise FileError(f"cannot write the release {str(self.final)!r}: {folders.reason(problem)}.") from None
        self._appear()

    def _appear(self) -> None:
        try:
            patiently(self.partial.rename, self.final)
        except OSError as problem:  # the name was taken meanwhile; measuring again would cost again
            kept = self.final.with_name(f"{self.final.name}-{self.partial.name[-8:]}")
            patiently(self.partial.rename, kept)
            raise FileError(
                f"the release cannot be named {str(self.final)!r} ({folders.reason(problem)}); "
                f"it is whole in {str(kept)!r}: use that."
            ) from None
        finally:
            sync_folder(self.final.parent)


@contextlib.contextmanager
def reserve(path: Path, plan: Plan, measurements: Measurements, *, by_others: bool = False) -> Iterator[Reserved]:
    """Makes sure, before anything is spent, that a release can be written: its name is free and there is room.

    Args:
        path: the folder.
        plan: what will be measured.
        measurements: what that comes down to.
        by_others: whether others will write the measurements, part by part into `measuring/`; room is only looked for.

    Raises:
        FileError: the folder exists, cannot be made, or the disk is too full. Nothing was spent.
    """
    path = path.absolute()
    with folders.partial_folder(path, "release") as partial:
        try:
            _prepare(partial, plan, measurements)
            if not by_others:
                _allocate(partial, measurements)
            else:
                (partial / OPEN_FOLDER).mkdir()
                if shutil.disk_usage(partial).free < 9 * measurements.cells:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as problem:
            raise FileError(
                f"out: there is no room for the release in {str(path.parent)!r} ({folders.reason(problem)}); "
                "make space or choose another folder, nothing was spent."
            ) from None
        yield Reserved(path, partial)


def load_release(path: Path, made_of: Callable[..., Release]) -> Release:
    """Reads a saved release, refusing one that was changed, or that does not measure what its plan says.

    Nothing in the folder is trusted: only regular files are opened, and each only once its size is known to fit.
    """
    folders.require_folder(path, "release", "release.json")
    body = read_document(path / "release.json", KIND, VERSION)
    with folders.refusing_damage(f"the release {str(path)!r} is"):
        stated, receipt = body["files"], folders.receipt_of(body["receipt"])
        folders.check_digests(path, stated, {"plan.json": MOST_PLAN}, "release")
        plan = Plan.load(path / "plan.json", follow=False)
        compiled = plan.measurements
        measured = folders.ArrayForm(np.dtype(np.int64), (compiled.cells,))
        most = {"measured.json": MOST_PLAN, "codebook.toml": MOST_PLAN, "PRIVACY.md": MOST_DOCUMENT}
        parts = _parts(path, body, compiled.cells)
        whole = {"measurements.npy": measured.most} if parts is None else {}
        folders.check_digests(path, stated, {**whole, **most}, "release")
        arrays = _arrays(path / "measured.json", compiled)
        _check_measurements(compiled, arrays, pooled="pooled" in receipt)
        integers = folders.mapped_array(path / "measurements.npy", measured) if parts is None else parts
        left_out = _left_out(path, stated, plan, receipt, made_of)
        return made_of(plan, plan.saved_measurements(arrays), cast("Integers", integers), receipt, left_out)


def _left_out(
    path: Path, stated: Mapping[str, str], plan: Plan, receipt: Mapping[str, Any], made_of: Callable[..., Release]
) -> Release | None:
    """The records that a bound left out, a release in the release, if the receipt says that they were measured."""
    if "left_out_most" not in receipt:
        return None
    folders.check_digests(path, stated, {f"{_LEFT_OUT}/release.json": MOST_DOCUMENT}, "release")
    left_out = load_release(path / _LEFT_OUT, made_of)
    if left_out.planned.domain != plan.domain or left_out.planned.unit != Person(receipt["left_out_most"]):
        raise ValueError("what it says was left out is of other records")
    return left_out


def _parts(path: Path, body: Mapping[str, Any], cells: int) -> PartedIntegers | None:
    """The measurements of a release in parts, which are read and compared with their digests when asked for."""
    if "parts" not in body:
        return None
    parts = PartedIntegers(path, body["parts"], body["files"])
    if parts.size != cells:
        raise ValueError("its parts are not as many as the plan measures")
    folders.require_files(path, [part_name(part) for part in range(len(body["parts"]) - 1)], "release")
    return parts


def _check_measurements(compiled: Measurements, saved: Mapping[str, NDArray[Any]], *, pooled: bool) -> None:
    """Refuses measurements that are not what compiling the plan gives.

    A release that pools others is not rounded as a plan's own measurements are: its noise scales may differ in the last
    bits, and where a scale lies at a power of two its grid may be twice as fine or as coarse, with the noise.

    Raises:
        ValueError: other sets, or more or less noise.
    """
    own = compiled.arrays()
    grids, given = own.get("grids", np.ones(1)), saved.get("grids", np.ones(1))
    finer = given / grids
    same = (
        np.array_equal(own.get("measured", 0), saved.get("measured", 0))
        and np.isin(finer, (0.5, 1.0, 2.0) if pooled else (1.0,)).all()
    )
    if not (same and np.all(np.abs(saved["scales"] / (own["scales"] * finer) - 1.0) <= _SAME_NOISE)):
        raise ValueError("'measured.json' holds other sets or other noise than the plan")


def _prepare(folder: Path, plan: Plan, measurements: Measurements) -> None:
    """Everything that is known before measuring."""
    plan.save(folder / "plan.json")
    folders.write_synced(folder / "codebook.toml", tomli_w.dumps({"domain": settings_of_domain(plan.domain)}).encode())
    arrays = {name: array.tolist() for name, array in measurements.arrays().items()}
    write_document(folder / "measured.json", _MEASURED, VERSION, arrays, most=MOST_PLAN)


def _arrays(path: Path, compiled: Measurements) -> dict[str, NDArray[Any]]:
    """What a file says was measured, if these are arrays like those of the plan."""
    own = compiled.arrays()
    stated = read_document(path, _MEASURED, VERSION, most=2**16 + 32 * sum(array.size for array in own.values()))
    arrays = {name: np.array(numbers) for name, numbers in stated.items()}
    forms = [{name: (array.dtype, array.shape) for name, array in each.items()} for each in (own, arrays)]
    if forms[0] != forms[1]:
        raise ValueError(f"{path.name!r} has other arrays than the plan")
    return arrays


def _packed_starts(measurements: Measurements) -> list[int] | None:
    """Where the parts of measurements begin that are packed; None where they are few, or read all together."""
    return part_starts(measurements.cells) if measurements.by_table and measurements.cells >= PACKED_CELLS else None


def _write_parts(folder: Path, starts: Sequence[int], integers: Integers) -> dict[str, str]:
    """Writes the parts into the room reserved for them; their digests."""
    digests = {}
    for part, (first, stop) in enumerate(pairwise(starts)):
        content = memoryview(part_bytes(np.ascontiguousarray(integers[first:stop])))
        with (folder / part_name(part)).open("r+b") as file:
            file.write(content)
            file.truncate()
        digests[part_name(part)] = hashlib.sha256(content).hexdigest()
    for name in digests:  # once all are on their way to the disk
        with (folder / name).open("r+b") as written:
            os.fsync(written.fileno())
    return digests


def _allocate(folder: Path, measurements: Measurements) -> None:
    """As many bytes on the disk as the rest will need."""
    starts = _packed_starts(measurements)
    rooms = {"measurements.npy": 8 * measurements.cells + 4096}
    if starts is not None:
        (folder / FOLDER).mkdir()
        rooms = {part_name(i): part_room(stop - first) for i, (first, stop) in enumerate(pairwise(starts))}
    for name, room in rooms.items():
        with (folder / name).open("wb") as file:
            keep_room(file.fileno(), room)
    with (folder / _SPARE).open("wb") as file:
        keep_room(file.fileno(), 2**18 + 64 * int(np.minimum(measurements.sizes, 2**12).sum()))  # and what is left out


def in_currencies(currency: str, cost: float) -> list[tuple[str, str, str]]:
    """A cost in every currency: the name of each, the figure, rounded up, and which kind of privacy it is of."""
    if currency == "epsilon":
        costs: PureDP | Currencies = PureDP(cost)
        epsilons = [("epsilon", numeral(printed(cost)), say("pure differential privacy: no delta"))]
    else:
        costs = describe(cost)
        pairs = zip(costs.epsilons, costs.deltas, strict=True)
        figures = (say("{epsilon} at delta = {delta}", epsilon=numeral(printed(e)), delta=f"{d:g}") for e, d in pairs)
        epsilons = [("epsilon", figure, say("approximate differential privacy")) for figure in figures]
    return [
        ("rho", numeral(printed(costs.rho)), say("zero-concentrated differential privacy")),
        ("mu", numeral(printed(costs.mu)), say("Gaussian differential privacy")),
        *epsilons,
    ]


def _of_counts(release: Release) -> list[str]:
    """What it means for the guarantee that rows came with counts."""
    weights = release.receipt.get("weights")
    if weights is not None:
        most, step = (f"{release.receipt[name]:g}" for name in ("weights_most", "weights_step"))
        squared = "weights_squared" in release.receipt
        step = f"{float(most) * float(step):g}" if squared else step
        squares = mark(
            "Squares of the survey weights in column {column}, up to that of {most}, in steps of {step}, for the "
            "sampling error of totals (`rs.weighted`). The guarantee is for one respondent, with any weight."
        )
        words = mark(
            "Respondents counted by the survey weights in column {column}, those above {most} as {most}, in steps of "
            "{step}: numbers are in steps. The guarantee is for one respondent, with any weight. Error bars are of "
            "noise alone; `rs.weighted` gives totals of the population, with sampling error."
        )
        return [say(squares if squared else words, column=repr(weights), most=most, step=step), ""]
    column = release.receipt.get("counts")
    if column is None:
        return []
    words = mark(
        "The data were aggregated before: each row stood for as many records as its column {column} said. The "
        "guarantee is for one of the records so counted, not for a row. Had the column held survey weights, one "
        "respondent would be as many records as the weight says."
    )
    return [say(words, column=repr(column)), ""]


def _of_persons(release: Release) -> list[str]:
    """What a bound on a person's records means for the numbers."""
    unit = release.planned.unit
    if isinstance(unit, AddRemove) and unit.records > 1:
        return [say("That no person has more than {n} records was declared, not enforced.", n=unit.records), ""]
    if not isinstance(unit, Person):
        return []
    columns = printable(str(release.receipt.get("person", "")))
    said = [
        *([say("All records with the same `{columns}` are one person's.", columns=columns)] if columns else []),
        say(
            "The bound on each person's records was enforced: every table {counted}. They were chosen at random from "
            "that person's own, by a secret kept with the ledger. Numbers are lower than the true ones by what was "
            "left out, which no error bar shows.",
            counted=what_is_counted(unit),
        ),
    ]
    if release.left_out is None:
        return [*said, say("How many records that is was not measured."), ""]
    currency, most = release.measurements.currency, release.receipt["left_out_most"]
    share = 100 * release.left_out.receipt[currency] / release.receipt[currency]
    words = mark(
        "That is {records}: measured with noise of their own, in all and by one-way table (folder `left_out`), for "
        "{share:.2g} % of the cost above. Of one person at most {most} such records are in these figures; what anybody "
        "has beyond that is not seen."
    )
    return [*said, say(words, records=in_figures(release), share=share, most=most), ""]


def privacy_statement(release: Release) -> str:
    """What was measured, whom the noise protects and how well, as Markdown."""
    plan, currency = release.planned, release.measurements.currency
    noise, known = mark("normal") if currency == "pcost" else "Laplace", 0 < plan.gap < math.inf
    gap = nearness(plan.gap, plan.comparison_class) if known else ""
    cost = release.receipt.get(currency, plan.unit_pcost if currency == "pcost" else plan.unit_epsilon)
    bias = []
    if plan.bias:
        words = mark(
            "Answers are biased: on n records they may be off systematically by n times {bias:.6g}, as a root mean "
            "square over the queries (single queries by more). No intervals are given."
        )
        bias = [say(words, bias=plan.bias), ""]
    protected = {
        "guarantee": stated(plan.guarantee, release.receipt), "unit": protects(plan.unit, release.receipt)
    }  # fmt: skip
    lines = [
        f"# {say('Privacy statement')}",
        "",
        say("Guarantee: {guarantee}, for {unit}.", **protected),
        "",
        say("The same cost in every currency (each figure rounded up):"),
        "",
        *(f"- {name} = {figure} ({kind})" for name, figure, kind in in_currencies(currency, cost)),
        "",
        f"## {say('What was measured')}",
        "",
        release.summary,
        say(
            "Each integer is an exact linear combination of counts plus rounded {noise} noise, sampled exactly from "
            "the operating system's randomness. No true count is in this folder. All tables are post-processing of "
            "the same measurements: they agree with each other, and publishing more of them costs nothing.",
            noise=say(noise),
        ),
        "",
        say("Planned for: {objective}, stated as {gap}.", objective=plan.objective, gap=gap)
        if known
        else say("Planned for: {objective}.", objective=plan.objective),
        "",
        *bias,
        *_of_counts(release),
        *_of_persons(release),
        say("Values outside the declared domain and missing values followed the policies in `codebook.toml`."),
        "",
        f"## {say('How to check the price')}",
        "",
        say(
            "With residua: `residua audit .` in this folder. Without it: `python residua_verify.py .` with the one "
            "file `verifier/residua_verify.py` of residua's sources, which needs Python alone and shares no code "
            "with residua."
        ),
        "",
    ]
    return "\n".join(map(printable, lines))  # a name cannot add a line
