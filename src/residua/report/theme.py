"""Themes: an office's own name, logo, colours and fonts for its reports, in one TOML file.

name = "Statistics Example"
logo = "logo.svg"                       # beside this file; it goes into the page

[colours]                               # any name of templates/tokens.css: one colour, or one for light, one for dark
accent = ["#7a1f3d", "#f2a0b5"]

[fonts]                                 # text, head and mono: families that readers have
head = "Georgia, serif"
"""

from __future__ import annotations

import base64
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from residua.errors import FileError, SpecError

_LOGOS = {".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp"}
_MOST = 200_000  # bytes of a logo: the page holds it
# Text: what is behind it.
_READ = {"ink": "paper", "muted": "paper", "accent": "paper", "on-accent": "accent", "minus": "paper"}
_CONTRAST = 4.5  # of WCAG 2.2, AA


@dataclass(frozen=True)
class Theme:
    """What an office's pages look like.

    Args:
        name: the office's name.
        logo: its logo, as an address that holds it; nothing without one.
        style: rules for the end of the style sheet.
    """

    name: str = ""
    logo: str = ""
    style: str = ""


def read_theme(path: str | Path) -> Theme:
    """A theme from its file.

    Raises:
        FileError: there is none, or its logo cannot be read.
        SpecError: it is not TOML, names something that there is not, or text would be hard to read in its colours.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise FileError(f"theme: cannot read {str(path)!r} ({problem.strerror}); give a TOML file.") from problem
    except ValueError as problem:
        raise SpecError(f"theme: {path.name} is not TOML ({problem}).") from problem
    unknown = sorted(content.keys() - {"name", "logo", "colours", "fonts"})
    if unknown:
        raise SpecError(f"theme: {path.name} has {unknown[0]!r}; it may have name, logo, colours and fonts.")
    rules = [*_colours(content.get("colours", {})), *_fonts(content.get("fonts", {}))]
    style = f":is(.residua, body[data-theme]) {{ {' '.join(rules)} }}" if rules else ""
    return Theme(str(content.get("name", "")), _logo(path, content.get("logo")), style)


def _logo(path: Path, name: Any) -> str:
    if name is None:
        return ""
    place = path.parent / str(name)
    kind = _LOGOS.get(place.suffix.lower())
    if kind is None:
        raise SpecError(f"theme: logo = {name!r} is of no kind that browsers show; use one of {', '.join(_LOGOS)}.")
    try:
        body = place.read_bytes()
    except OSError as problem:
        raise FileError(f"theme: cannot read the logo {str(place)!r} ({problem.strerror}).") from problem
    if len(body) > _MOST:
        raise SpecError(f"theme: the logo has {len(body):,} bytes, and every page holds it; give at most {_MOST:,}.")
    return f"data:{kind};base64,{base64.b64encode(body).decode()}"


def _colours(given: Mapping[str, Any]) -> list[str]:
    known, chosen = dict(_tokens()), {}
    for name, value in given.items():
        pair = [value, value] if isinstance(value, str) else value
        if name not in known:
            raise SpecError(f"theme: there is no colour {name!r}; use one of {', '.join(known)}.")
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(re.fullmatch("#[0-9a-fA-F]{6}", str(c)) for c in pair)
        ):
            raise SpecError(f'theme: {name} = {value!r} is no colour; write "#0a5a6b", or two of them: light and dark.')
        chosen[name] = (pair[0], pair[1])
    known |= chosen
    for front, back in _READ.items():
        for scheme, ink, paper in zip(("light", "dark"), known[front], known[back], strict=True):
            if {front, back} & chosen.keys() and (ratio := _contrast(ink, paper)) < _CONTRAST:
                words = f"{front} {ink} on {back} {paper} has a contrast of {ratio:.2f} in {scheme} pages"
                raise SpecError(f"theme: {words}, which many cannot read; it needs {_CONTRAST}.")
    return [f"--{name}: light-dark({light}, {dark});" for name, (light, dark) in chosen.items()]


def _fonts(given: Mapping[str, Any]) -> list[str]:
    for name, value in given.items():
        if name not in ("text", "head", "mono"):
            raise SpecError(f"theme: there is no font {name!r}; use text, head and mono.")
        if not isinstance(value, str) or not re.fullmatch(r"[\w\s,'\"-]+", value):
            raise SpecError(f'theme: {name} = {value!r} is no list of font families; write "Georgia, serif".')
    return [f"--{name}: {value};" for name, value in given.items()]


@cache
def _tokens() -> tuple[tuple[str, tuple[str, str]], ...]:
    """Names of colours, and each for light and dark, as our style sheet has them."""
    text = (Path(__file__).parent / "templates" / "tokens.css").read_text(encoding="utf-8")
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\)", text)
    return tuple((name, (light, dark)) for name, light, dark in pairs)


def _contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2, from 1 to 21."""
    bright, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
