"""How delimited text is written: its delimiter, encoding, decimal mark and dates; recognised from the head of a file.

Fields are text. What the decimal mark and the form of dates say is applied to every field that is wholly a number or a
date in that notation, and to no other; the decimal mark, to no field of a column that is declared to hold text: with
`decimal=","`, 1.234,5 is 1234.5; with `date_format="%d.%m.%Y"`, 31.01.2024 is 2024-01-31. Whatever counts, compares or
fingerprints records then sees numbers and dates as everywhere else.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypedDict

from residua.errors import SourceError, named
from residua.machine import compute as pc, load, pyarrow as pa

_DELIMITERS = ",;\t|"
_HEAD_ROWS = 1000
_GROUPED = "[0-9]{1,3}(?:[.'\u2019\u00a0\u202f ][0-9]{3})+"  # 1.234 or 1 234
_COMMA = f"[+-]?(?:{_GROUPED}|[0-9]+)(?:,[0-9]+)?"
_MARKED = f"[+-]?(?:{_GROUPED}(?:,[0-9]+)?|[0-9]+,[0-9]+)"  # without a mark, a number may be a code: 01
_POINT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_PARTS = {
    "d": r"(?P<day>[0-9]{1,2})",
    "m": r"(?P<month>[0-9]{1,2})",
    "b": r"(?P<name>\pL+\.?)",
    "B": r"(?P<name>\pL+\.?)",
    "Y": r"(?P<year>[0-9]{4})",
    "y": r"(?P<short>[0-9]{2})",
    "H": r"(?P<hour>[0-9]{1,2})",
    "M": r"(?P<minute>[0-9]{2})",
    "S": r"(?P<second>[0-9]{2})",
}
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y")
_NAMED = ("%d. %B %Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%d.%b.%Y", "%B %Y", "%m/%Y")
_TIMES = tuple(f"{day} {time}" for day in _DAYS for time in ("%H:%M", "%H:%M:%S"))
_RECOGNISED = (*_DAYS, *_NAMED, *_TIMES)
_YEAR = "(?:19|20)[0-9]{2}"  # a number that columns are named by
_ISO = "[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+)?"
_MONTHS = (  # English, German, French, Spanish, Italian, Dutch; any beginning of three letters that means one month
    "january januar jänner janvier enero gennaio januari",
    "february februar feber février fevrier febrero febbraio februari",
    "march märz maerz mrz mars marzo maart mrt",
    "april avril abril aprile avr",
    "may mai mayo maggio mei",
    "june juni juin junio giugno",
    "july juli juillet julio luglio",
    "august août aout agosto augustus",
    "september septembre septiembre settembre sept",
    "october oktober octobre octubre ottobre",
    "november novembre noviembre",
    "december dezember décembre decembre diciembre dicembre",
)
_CODE_PAGES = ["cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1257", "cp932", "cp949", "gb18030", "big5"]
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
          (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF32_BE, "utf-32"))  # fmt: skip


Rewriter = tuple[str, Callable[[Any], Any]]  # a pattern, and what becomes of an array of texts that match it


class Notation(TypedDict, total=False):
    """How delimited text is written, by name; `Dialect` says what it means."""

    delimiter: str | None
    encoding: str | None
    decimal: str | None
    date_format: str | Sequence[str] | None


@dataclass(frozen=True)
class Dialect:
    """How delimited text is written.

    Args:
        delimiter: one character.
        encoding: as Python names it, such as cp1252 or utf-16.
        decimal: "." or ",": with a comma, thousands may be set apart by points, spaces or apostrophes.
        date_format: %d, %m (%b, %B: a month's name), %Y (%y), and %H, %M, %S, as in `strptime`; a text, or several.
            Without a day, a month's first is meant.

    Raises:
        SourceError: something that is none of these.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    date_format: str | Sequence[str] = ()
    is_utf8: bool = field(init=False)  # whether bytes need not be decoded
    rewriters: tuple[Rewriter, ...] = field(init=False, compare=False)  # patterns of dates, and what becomes of them

    def __post_init__(self) -> None:
        one = self.delimiter
        if not isinstance(one, str) or len(one) != 1 or not one.isascii() or one in '"\r\n\0':
            raise SourceError(f"delimiter={named(one)} is not one character; use ',' or '\\t', for example.")
        try:
            codecs.getincrementaldecoder(self.encoding)
            "a".encode(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise SourceError(
                f"encoding={named(self.encoding)} is not known; write 'cp1252', 'utf-8' or 'utf-16', for example."
            ) from None
        if self.decimal not in (".", ","):
            raise SourceError(f"decimal={named(self.decimal)} is not a decimal mark; use ',' or '.'.")
        given = (self.date_format,) if isinstance(self.date_format, str) else self.date_format
        if not isinstance(given, Sequence) or not all(isinstance(each, str) for each in given):
            raise SourceError(f"date_format={named(given)} is not a form of dates; write '%d.%m.%Y', for example.")
        object.__setattr__(self, "date_format", tuple(given))
        if len({_shape(each) for each in given}) < len(given):
            raise SourceError("date_format lists two forms that the same text may have; give one of them.")

        plain = codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii")
        object.__setattr__(self, "is_utf8", plain)
        dates = [(_pattern(form), partial(_each_dated, _dated(form))) for form in given]
        object.__setattr__(self, "rewriters", tuple(dates))

    def notation(self, usual: str) -> dict[str, Any]:
        """What must be said to read it, as plain values; `usual` is the delimiter where nothing is said."""
        forms = list(self.date_format)
        said = {
            "delimiter": None if self.delimiter == usual else self.delimiter,
            "encoding": None if self.is_utf8 else self.encoding,
            "decimal": None if self.decimal == "." else self.decimal,
            "date_format": forms[0] if len(forms) == 1 else forms or None,
        }
        return {name: value for name, value in said.items() if value is not None}

    def read(self, batch: Any, codes: Collection[str] = ()) -> Any:
        """A batch of text whose numbers and dates are written as everywhere else; numbers among codes stay as they are.

        Args:
            batch: of text.
            codes: the columns in which 1.234 is a code, not a number.
        """
        numbers = [_NUMBERS] if self.decimal == "," else []
        return _rewritten(batch, lambda name: (*self.rewriters, *(() if name in codes else numbers)))

    def with_numbers(self, batch: Any, codes: Collection[str]) -> Any:
        """What `read` left of these columns, as if they held numbers: how a fingerprint has them."""
        return _rewritten(batch, lambda name: (_NUMBERS,) if name in codes else ())


def _rewritten(batch: Any, rewriters: Callable[[str], Sequence[Rewriter]]) -> Any:
    """The batch with what matches a pattern, among those of its column, rewritten."""
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for pattern, rewritten in rewriters(name):
            matching = pc.match_substring_regex(column, rf"^\s*(?:{pattern})\s*$")
            if pc.any(matching).as_py():
                column = pc.replace_with_mask(column, matching, rewritten(column.filter(matching)))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _pattern(form: str) -> str:
    """The regular expression of a form of dates, in the syntax of Arrow."""
    parts = re.split(r"%(.)", form)
    known = [part in _PARTS for part in parts[1::2]]
    fields = "".join(parts[1::2])
    if not all(known) or not any(y in fields for y in "Yy") or not any(m in fields for m in "mbB"):
        raise SourceError(
            f"date_format={form!r} is not a form of dates; write %d, %m (or %b, a name), %Y (or %y), and %H, %M, %S "
            "with what stands between them, such as '%d.%m.%Y'."
        )
    if len(set(fields.replace("B", "b").replace("b", "m").replace("y", "Y"))) < len(fields):
        raise SourceError(f"date_format={form!r} names a part of the date twice; name each once.")
    between = [re.sub(r"([^\w\s])", r"\\\1", text) for text in parts[::2]]
    return between[0] + "".join(_PARTS[part] + text for part, text in zip(parts[1::2], between[1:], strict=True))


def _shape(form: str) -> str:
    """What the text of a form looks like, whatever its numbers mean."""
    return re.sub(r"\?P<\w+>", "", _pattern(form)).replace("{1,2}", "{2}")


def _dated(form: str) -> Callable[[str], str | None]:
    """What turns text of a form into 2024-01-31, with the time of day if there is one; nothing of what is no date."""
    pattern = re.compile(_pattern(form).replace(r"\pL", r"[^\W\d_]"))

    def dated(text: str) -> str | None:
        match = pattern.fullmatch(text)
        parts = match.groupdict() if match else {}
        month = parts["month"] if "month" in parts else _month(parts.get("name", ""))
        year = int(parts["year"]) if "year" in parts else _century(int(parts.get("short", "0")))
        with suppress(ValueError, TypeError):
            day = datetime(year, int(month), *(int(parts.get(k, d)) for k, d in _REST))  # type: ignore[arg-type]
            return str(day.date()) if day == datetime(day.year, day.month, day.day) else str(day)
        return None

    return dated


_REST = (("day", 1), ("hour", 0), ("minute", 0), ("second", 0))


def _century(short: int) -> int:
    return short + (1900 if short >= 69 else 2000)  # as POSIX has it


def _month(name: str) -> int | None:
    wanted = name.rstrip(".").casefold()
    fitting = [i for i, names in enumerate(_MONTHS, 1) if any(each.startswith(wanted) for each in names.split())]
    return fitting[0] if len(wanted) >= 3 and len(fitting) == 1 else None


def _each_dated(dated: Callable[[str], str | None], column: Any) -> Any:
    coded = column.dictionary_encode()  # every different text once
    texts = [dated(text.strip()) or text for text in coded.dictionary.to_pylist()]
    return pa.array(texts, column.type).take(coded.indices)


def _pointed(column: Any) -> Any:
    digits = pc.replace_substring_regex(column, "[^0-9,+-]", "")
    return pc.replace_substring(digits, ",", ".")


_NUMBERS: Rewriter = (_MARKED, _pointed)
COMMAS, TABS = Dialect(), Dialect("\t")  # what is usual


def recognised(head: bytes) -> tuple[Dialect, dict[str, str]]:
    """How the text that begins so is written, and the kind of each column: no value of it is kept.

    Encodings by their byte-order mark, as UTF-8, or as charset-normalizer judges; the delimiter by rows of equal
    length; the decimal mark and dates by columns in which every field is so written. Where both fit, the day is first.

    Raises:
        SourceError: the first line is a record, whose values would be taken for names.
    """
    encoding = _encoding(head)
    text = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)("replace").decode(head)
    rows = {each: _rows(text, each) for each in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda each: _width(rows[each]))
    names, *records = rows[delimiter] or [[]]
    columns = [[row[i].strip() for row in records if i < len(row) and row[i].strip()] for i in range(len(names))]
    comma = [_all(column, _COMMA) and any("," in field for field in column) for column in columns]
    point = [_all(column, _POINT) and any("." in field for field in column) for column in columns]
    contrary = any(p and not _all(column, _COMMA) for p, column in zip(point, columns, strict=True))
    decimal = "," if any(comma) and not contrary else "."
    dialect = Dialect(delimiter, encoding, decimal, _forms(columns))
    kinds = {name: kind_of(column, decimal) for name, column in zip(names, columns, strict=True) if name.strip()}
    typed = [(name, column) for name, column in zip(names, columns, strict=True) if kind_of(column, decimal) != "text"]
    if typed and all(kind_of([name], decimal) != "text" and not re.fullmatch(_YEAR, name) for name, _ in typed):
        raise SourceError(
            "the first line seems to be a record, not the names of the columns: where numbers or dates follow it holds "
            "such, too; add a line of names."
        )
    return dialect, kinds


def _encoding(head: bytes) -> str:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):  # without a mark, every other byte is 0
        if head[start::2].count(0) > len(head) // 4:
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut
        return "utf-8"
    except UnicodeDecodeError:
        matches = list(load("charset_normalizer").from_bytes(head, cp_isolation=_CODE_PAGES))
        western = any("cp1252" in match.could_be_from_charset for match in matches)
        return "cp1252" if western or not matches else matches[0].encoding


def _rows(text: str, delimiter: str) -> list[list[str]]:
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows.extend(
            islice(
                (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), _HEAD_ROWS + 1
            )
        )
    return rows if len(rows) < 3 else rows[:-1]  # the last may be cut


def _width(rows: list[list[str]]) -> int:
    return len(rows[0]) if rows and len({len(row) for row in rows}) == 1 else 0


def _all(column: list[str], pattern: str) -> bool:
    return bool(column) and all(re.fullmatch(pattern, field) for field in column)


def _forms(columns: list[list[str]]) -> tuple[str, ...]:
    """The fewest forms that columns of dates have, no two of which the same text may have."""
    fitting = [set(_fitting(column)) for column in columns]
    chosen: dict[str, str] = {}  # by what it looks like
    for form in sorted(_RECOGNISED, key=lambda form: -sum(form in each for each in fitting)):
        if any(form in each and not each & set(chosen.values()) for each in fitting):
            chosen.setdefault(_shape(form), form)
    return tuple(chosen.values())


def _fitting(column: list[str]) -> list[str]:
    """The forms in which every field of a column is a date."""
    dated = bool(column) and any(char.isdigit() for char in column[0])
    return [form for form in _RECOGNISED if _all_dates(form, column)] if dated else []


def _all_dates(form: str, column: list[str]) -> bool:
    dated = _dated(form)
    return all(dated(field) for field in column)


def kind_of(column: list[str], decimal: str) -> str:
    """What all fields of a column are, as `Draft.kinds` has it."""
    if not column:
        return "text"
    if _all(column, _ISO) or _fitting(column):
        return "dates"
    if _all(column, "[+-]?[0-9]+"):  # with leading zeros they are codes
        return "text" if any(re.match("0[0-9]", field) for field in column) else "whole numbers"
    return "numbers" if _all(column, _COMMA if decimal == "," else _POINT) else "text"
