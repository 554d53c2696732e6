"""One page per paper: its tables with verdicts, and its figures; HTML that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from benchmarks.paper.tables import CUT, DIFFERS, EQUAL, UNKNOWN, Drawing, Table

STYLE = """
body{font:15px/1.5 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:.6em 0}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:right}
th:first-child,td:first-child,td.v{text-align:left}td.p{color:#666}td.equal{background:#e7f4e4}
td.differs{background:#fdf0d5}td.unknown{background:#f9dcdc}td.v{font-size:13px;max-width:420px}
figure,.wide{margin:1.2em 0;overflow-x:auto}svg{max-width:100%;height:auto}
"""
CLASSES = {EQUAL: "equal", CUT: "equal", DIFFERS: "differs", UNKNOWN: "unknown"}


def summary(tables: Sequence[Table]) -> str:
    """How many numbers have which verdict, in words."""
    counted: Counter[str] = sum((table.verdicts for table in tables), Counter())
    return ", ".join(f"{count} {verdict}" for verdict, count in counted.most_common())


def page(title: str, about: str, tables: Sequence[Table], drawings: Sequence[Drawing], missing: Sequence[str]) -> str:
    """The page.

    Args:
        title: the paper's.
        about: a sentence on what is compared.
        tables: in the paper's order.
        drawings: likewise.
        missing: data that cannot be had, and how to give them.
    """
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(about)}</p>", f"<p><b>{escape(summary(tables))}.</b></p>"]
    if missing:
        parts.append("<ul>" + "".join(f"<li>{escape(each)}</li>" for each in missing) + "</ul>")
    parts += [_table(table) for table in tables]
    parts += [
        f"<figure><figcaption><b>{escape(each.name)}.</b> {escape(each.caption)}</figcaption>{each.svg}</figure>"
        for each in drawings
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th colspan="2">{escape(column)}</th>' for column in table.columns)
    below = "<th>printed</th><th>ours</th>" * len(table.columns)
    rows = []
    for label, entries in table.rows:
        cells = ""
        for entry in entries:
            printed, ours = entry.texts
            cells += f'<td class="p">{printed}</td><td class="{CLASSES.get(entry.verdict, "")}">{ours}</td>'
        rows.append(f'<tr><td>{escape(label)}</td>{cells}<td class="v">{escape(table.reasons(label))}</td></tr>')
    remark = f"<p>{escape(table.remark)}</p>" if table.remark else ""
    return (
        f"<h2>{escape(table.name)}: {escape(table.title)}</h2>{remark}<div class='wide'><table>"
        f"<thead><tr><th></th>{head}"
        f"<th>verdict</th></tr><tr><th></th>{below}<th></th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
