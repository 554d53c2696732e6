"""Choices for each group on the command line: what a look recommends, as a file, and a file of what was decided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from residua.cli.places import require_free
from residua.cli.sessions import print_spent
from residua.cli.show import out, plain_table, print_json
from residua.errors import FileError, SpecError
from residua.session import GroupChoice, Session, Verdicts

if TYPE_CHECKING:
    from residua.cli.looking import Rule

_CANDIDATE = "candidate"


def print_group_choice(
    session: Session, choice: GroupChoice, rule: Rule | None, *, as_json: bool, verdicts: Path | None
) -> None:
    """What each candidate would cost to finish and, by the rule, how many groups should have which."""
    advice = None if rule is None else choice.recommend(share=rule.share, snr=rule.snr, by=rule.by)
    left = {name: float(session.price(plan) / 2) for name, plan in choice.candidates.items()}
    if verdicts is not None and advice is not None:
        _write(choice, advice, verdicts)
    if as_json:
        print_json({"groups": len(choice.groups), "by": list(choice.by), "rho_to_finish": left, **_told(advice)})
        return
    out.print(f"{len(choice.groups):,} groups of {', '.join(choice.by)}")
    for name, rho in left.items():
        out.print(f"To finish {name} in all groups: rho {rho:.6g}")
    print_spent(session)
    if advice is None:
        return
    table = plain_table(("recommended", "left"), ("groups", "right"))
    steps = int(advice.stepping.sum())
    for candidate, count in advice.counts.items():
        if candidate is not None:
            table.add_row(f"finish {candidate}", f"{count:,}")
    table.add_row("step on", f"{steps:,}")
    table.add_row("leave at the look", f"{int((advice.chosen < 0).sum()) - steps:,}")
    out.print(table)
    if verdicts is not None:
        out.print(
            f"Wrote {verdicts}: change it where you know better, then: residua session finish --groups {verdicts}"
        )


def read_verdicts(choice: GroupChoice, path: Path) -> tuple[dict[Any, str | None], list[Any]]:
    """What a file says of groups: the candidate of each, and those in which to step.

    Raises:
        FileError: no such file, or it cannot be read.
        SpecError: columns are missing, or a value is no group.
    """
    import pyarrow.csv

    try:
        text = dict.fromkeys((*choice.by, _CANDIDATE), pyarrow.string())
        read = pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=text))
    except (OSError, pyarrow.ArrowInvalid) as problem:
        raise FileError(f"--groups {str(path)!r} cannot be read as CSV ({problem}).") from None
    lacking = [name for name in (*choice.by, _CANDIDATE) if name not in read.column_names]
    if lacking:
        raise SpecError(
            f"--groups {str(path)!r} has no column {lacking[0]!r}; it needs {', '.join(choice.by)} and candidate, as "
            "residua session look --verdicts writes them."
        )
    known = {_text(group): group for group in choice.groups}
    rows = list(zip(*(read[name].to_pylist() for name in choice.by), strict=True))
    unknown = [row for row in rows if row not in known]
    if unknown or len(set(rows)) < len(rows):
        what = f"{unknown[0]!r}, which is no group" if unknown else "a group twice"
        raise SpecError(f"--groups {str(path)!r} names {what}; give each group of {', '.join(choice.by)} once.")
    names = read[_CANDIDATE].to_pylist()
    chosen = {known[row]: name or None for row, name in zip(rows, names, strict=True)}
    step = read["step"].to_pylist() if "step" in read.column_names else [False] * len(rows)
    return chosen, [known[row] for row, on in zip(rows, step, strict=True) if on]


def _write(choice: GroupChoice, advice: Verdicts, path: Path) -> None:
    import pyarrow.csv

    require_free(path)
    try:
        pyarrow.csv.write_csv(advice.to_arrow(choice.by), path)
    except OSError as problem:
        raise FileError(f"--verdicts {str(path)!r} cannot be written ({problem}).") from None


def _text(group: Any) -> tuple[str, ...]:
    return tuple(map(str, group)) if isinstance(group, tuple) else (str(group),)


def _told(advice: Verdicts | None) -> dict[str, Any]:
    if advice is None:
        return {"recommendation": None}
    counts = {("none" if name is None else name): count for name, count in advice.counts.items()}
    return {"recommendation": {"groups": counts, "step": int(advice.stepping.sum())}}
