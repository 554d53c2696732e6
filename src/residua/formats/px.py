"""PX, the file format of PxWeb: one file per table, in UTF-8, with codes, notes and several languages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from residua.domain.words import said, title_in_words, title_of
from residua.folders import write_synced
from residua.formats.about import About, title_of_measure
from residua.formats.cube import Cube
from residua.formats.writer import Writer
from residua.language import mark, say, speaking
from residua.published.quality import FLAGS
from residua.showing import printable

_NOTHING = '"."'
_QUALITY = mark("Quality (1, 2 or 3)")
_LONGEST = 200  # characters of one piece of text; longer ones are continued
MEASURE = mark("Measure")


class Px(Writer):
    """Writes one PX file per table."""

    def add(self, cube: Cube) -> Path:
        """Writes a table."""
        path = self.folder / f"{cube.name}.px"
        write_synced(path, "".join(lines(cube, self.about.beside(cube.counted))).encode())
        return path


def lines(cube: Cube, about: About) -> Iterator[str]:
    """A table in PX, line by line."""
    measures = {name: title_of_measure(name) for name in cube.measures}
    heads = [*measures.values(), *([say(_QUALITY)] if cube.has_bars else [])]
    names = _names(cube)
    first, others = _languages(cube, about)
    when = "".join(c for c in str(about.receipt.get("time", ""))[:16] if c.isdigit())
    yield 'CHARSET="ANSI";\nAXIS-VERSION="2013";\nCODEPAGE="utf-8";\n'
    yield f'LANGUAGE="{first}";\n'
    if others:
        yield f"LANGUAGES={_list([first, *others])};\n"
    if len(when) == 12:
        yield f'CREATION-DATE="{when[:8]} {when[8:10]}:{when[10:]}";\n'
    yield f'DECIMALS=15;\nSHOWDECIMALS={min(cube.decimals, 6)};\nMATRIX="T{cube.number:04d}";\nSUBJECT-CODE="DP";\n'
    yield f"SUBJECT-AREA={_text(about.title)};\nCONTENTS={_text(cube.contents)};\n"
    yield f"UNITS={_text(cube.unit(about.counts))};\n"
    yield f"TITLE={_text(cube.title)};\nDESCRIPTION={_text(cube.title)};\n"
    if names:
        yield f"STUB={_list(names)};\n"
    yield f"HEADING={_list([say(MEASURE)])};\n"
    for name, each in zip(names, cube.dimensions, strict=True):
        yield f"VALUES({_text(name)})={_list(_unique(each.titles, each.codes))};\n"
    yield f"VALUES({_text(say(MEASURE))})={_list(heads)};\n"
    for name, each in zip(names, cube.dimensions, strict=True):
        yield f"CODES({_text(name)})={_list(each.codes)};\n"
    yield f"CODES({_text(say(MEASURE))})={_list([*measures, *(['quality'] if cube.has_bars else [])])};\n"
    for language in others:
        heading = say(MEASURE)
        with speaking(language, cube.table.domain):
            translated = "".join(_translated(cube, names, language, about.counts, heading))
        yield translated
    yield f"NOTEX={_text('#'.join(about.notes))};\n"
    for name, each in zip(names, cube.dimensions, strict=True):
        if each.description:
            yield f"NOTE({_text(name)})={_text(each.description)};\n"
    for name, title in measures.items():
        yield f"VALUENOTE({_text(say(MEASURE))},{_text(title)})={_text(about.measures[name])};\n"
    if cube.has_bars:
        words = ", ".join(f"{i + 1}: {say(flag)}" for i, flag in enumerate(FLAGS))
        yield f"VALUENOTE({_text(say(MEASURE))},{_text(say(_QUALITY))})={_text(words)};\n"
    yield f"SOURCE={_text(f'residua {about.version}')};\nDATA=\n"
    columns = [values.tolist() for values in cube.measures.values()]
    grades = [[flag or _NOTHING] for flag in cube.flags("123")] if cube.has_bars else [[]] * len(cube)
    for row, grade in zip(zip(*columns, strict=True), grades, strict=True):
        yield " ".join([*(f"{value:.15g}" if np.isfinite(value) else _NOTHING for value in row), *grade]) + "\n"
    yield ";\n"


def _names(cube: Cube) -> list[str]:
    """What each variable is called; PX tells variables apart by it."""
    titles = [each.title for each in cube.dimensions]
    taken = [title for i, title in enumerate(titles) if title in titles[:i] or title == say(MEASURE)]
    return [each.name if each.title in taken else each.title for each in cube.dimensions]


def _languages(cube: Cube, about: About) -> tuple[str, list[str]]:
    attributes = [cube.table.domain[each.name] for each in cube.dimensions]
    known = dict.fromkeys(language for attribute in attributes for language in attribute.words.languages)
    first = about.language or next(iter(known), "en")
    return first, [language for language in known if language != first]


def _translated(cube: Cube, names: list[str], language: str, counts: str, heading: str) -> Iterator[str]:
    """The same texts in another language."""
    other = f"[{language}]"
    others = []
    for name, each in zip(names, cube.dimensions, strict=True):
        attribute = cube.table.domain[each.name]
        title = printable(said(attribute.words.title)) or name
        others.append((title, [printable(title_of(attribute, label)) for label in each.labels], each.codes))
    title = title_in_words(cube.table.domain, cube.stem)
    yield f"TITLE{other}={_text(title)};\nCONTENTS{other}={_text(cube.contents)};\n"
    yield f"UNITS{other}={_text(cube.unit(counts))};\n"
    if others:
        yield f"STUB{other}={_list([title for title, _, _ in others])};\n"
    yield f"HEADING{other}={_list([heading])};\n"
    for title, values, codes in others:
        yield f"VALUES{other}({_text(title)})={_list(_unique(values, codes))};\n"
        yield f"CODES{other}({_text(title)})={_list(codes)};\n"


def _unique(titles: list[str] | tuple[str, ...], codes: tuple[str, ...]) -> list[str]:
    """Values, told apart where two have one title."""
    if len(set(titles)) == len(titles):
        return list(titles)
    return [f"{title} ({code})" for title, code in zip(titles, codes, strict=True)]


def _list(texts: list[str] | tuple[str, ...]) -> str:
    return ",".join(f'"{_safe(text)}"' for text in texts)  # in pieces, one would be read as several


def _text(words: str) -> str:
    """A text as PX writes it: in quotes, in pieces where it is long."""
    safe = _safe(words)
    pieces = [safe[i : i + _LONGEST] for i in range(0, len(safe), _LONGEST)] or [""]
    return "\n".join(f'"{piece}"' for piece in pieces)


def _safe(words: str) -> str:
    """A text without what PX cannot hold: quotes; and `DATA=`, for which some readers look in texts too."""
    return printable(words).replace('"', "'").replace("DATA=", "DATA =")
