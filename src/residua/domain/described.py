"""Columns as published metadata describes them: a Data Package, a DDI codebook, or an SDMX structure.

Each gives column → the settings of an attribute, as a specification writes them; a column whose values the file does
not list has at most a title. Codes that a file declares to be missing, and nothing else, make the policy `"other"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from residua.errors import DomainError, FileError, named
from residua.files import read_regular

SUFFIXES = (".json", ".xml")
_MOST = 2**28  # bytes of a file
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")  # 01 is a code
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_Settings = dict[str, Any]
_OTHER = {"unknown": "other", "missing": "other"}


def is_description(path: object) -> bool:
    """Whether a path is that of a file that describes columns, by its ending."""
    return isinstance(path, str | Path) and Path(path).suffix.lower() in SUFFIXES


def described_columns(path: str | Path, *, lists_too: bool = False) -> dict[str, _Settings]:
    """Column → what the file says of it: values, meanings, bounds, title, policies.

    Of an SDMX structure the columns are the dimensions, or else the code lists, which beside dimensions come too if so
    wanted.

    Raises:
        DomainError: the file cannot be read, or is none of the three.
    """
    document = _document(path)
    with _understood(path):
        if isinstance(document, ElementTree.Element) and document.tag == "codeBook":
            return {name: said for name, said in map(_of_ddi, document.iter("var")) if name}
        if isinstance(document, dict) and (fields := list(_fields(document, Path(path).parent))):
            return dict([_of_field(*each) for each in fields])
        columns, lists = _structures(document)
    if not lists:
        raise DomainError(
            f"{str(path)!r} is no Data Package, no DDI codebook and no SDMX structure with code lists; name one."
        )
    listed = {name: _coded(codes) for name, codes in lists.items()}
    named = {name: {**title, **listed.get(codes, {})} for name, (codes, title) in columns.items()}
    return listed | named if lists_too or not named else named


def described_column(path: str | Path, name: str | None) -> _Settings:
    """What the file says of one column, or of one code list; of its only one if none is named.

    Raises:
        DomainError: there is no such column, or there are several.
    """
    there = {name: said for name, said in described_columns(path, lists_too=True).items() if "values" in said}
    if name is None and len(there) == 1:
        return next(iter(there.values()))
    if name not in there:
        names = ", ".join(map(repr, list(there)[:8])) or "none"
        raise DomainError(f"column = {named(name)} is not a list of values in {str(path)!r}; it has {names}.")
    return there[name]


def parents_of_list(path: str | Path, name: str | None) -> tuple[list[str], list[Any], list[str]]:
    """The codes of an SDMX code list, their names, and the parent of each, empty where it has none."""
    document = _document(path)
    with _understood(path):
        lists = _structures(document)[1]
    name = next(iter(lists)) if name is None and len(lists) == 1 else name
    if name not in lists:
        raise DomainError(
            f"child = {named(name)} is no code list of {str(path)!r}; it has {', '.join(lists) or 'none'}."
        )
    codes, names, parents = zip(*lists[name], strict=True)
    return list(codes), list(names), list(parents)


def _document(path: str | Path) -> Any:
    if not is_description(path):
        raise DomainError(f"{str(path)!r} does not end in .json or .xml; name a file that describes columns.")
    try:
        content = read_regular(Path(path), most=_MOST, follow=True)
        if Path(path).suffix.lower() == ".xml":
            root = ElementTree.fromstring(content)
            for each in root.iter():
                each.tag = str(each.tag).rpartition("}")[2]  # versions differ in namespaces
            return root
        document = json.loads(content.decode("utf-8-sig"))
    except FileError as problem:
        raise DomainError(str(problem)) from None
    except (ElementTree.ParseError, ValueError, RecursionError) as problem:
        raise DomainError(f"{str(path)!r} cannot be read ({problem}); save it again as UTF-8.") from None
    if not isinstance(document, dict):
        raise DomainError(f"{str(path)!r} is a list, not a Data Package or an SDMX structure; name the right file.")
    return document


@contextmanager
def _understood(path: str | Path) -> Iterator[None]:
    """Says of what is not as its standard has it that it is not."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as problem:
        raise DomainError(
            f"{str(path)!r} is not as a Data Package, a DDI codebook or an SDMX structure is "
            f"({type(problem).__name__}: {problem}); correct it, or declare the columns by hand."
        ) from None


# ---- Data Package and Table Schema


def _fields(document: Mapping[str, Any], folder: Path) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Every field, with the missing values of its schema."""
    for schema in [each.get("schema", {}) for each in document.get("resources", ())] or [document]:
        read = _document(folder / schema) if isinstance(schema, str) else schema
        for field in read.get("fields", ()):
            yield field, field.get("missingValues", read.get("missingValues", ()))


def _of_field(field: Mapping[str, Any], missing: Iterable[Any]) -> tuple[str, _Settings]:
    kind, within = field.get("type", "any"), field.get("constraints", {})
    said: _Settings = {key: field[key] for key in ("title", "description") if isinstance(field.get(key), str)}
    given = within.get("enum") or field.get("categories") or ()
    pairs = [(each["value"], each.get("label", "")) if isinstance(each, dict) else (each, "") for each in given]
    low, high = within.get("minimum"), within.get("maximum")
    if pairs:
        said |= _valued([value for value, _ in pairs], [label for _, label in pairs], whole=kind == "integer")
    elif kind == "boolean" and not {"trueValues", "falseValues"} & set(field):
        said["values"] = ["false", "true"]
    elif low is not None and high is not None and kind in ("integer", "year"):
        said |= {"low": int(low), "high": int(high)}
    elif low is not None and high is not None and kind in ("date", "datetime"):
        said |= {"first": str(low)[:10], "last": str(high)[:10]}
    codes = [each for each in missing if (each["value"] if isinstance(each, dict) else each) != ""]
    required = within.get("required")
    return str(field.get("name", "")), _with_missing(said, required is False or (codes and not required))


# ---- DDI codebook


def _of_ddi(var: Any) -> tuple[str, _Settings]:
    form = var.find("varFormat")
    whole = form is None or form.get("type") != "character"
    invalid = {each.get("VALUE") for each in var.findall("invalrng/item")}
    listed = var.findall("catgry")
    groups = [(_text(each.find("catValu")), _texts(each, "labl"), each.get("missing")) for each in listed]
    valid = [(code, label) for code, label, missing in groups if code and missing != "Y" and code not in invalid]
    said: _Settings = {"title": title} if (title := _texts(var, "labl")) else {}
    bounds = var.find("valrng/range")
    low, high = ("", "") if bounds is None else (bounds.get("min", ""), bounds.get("max", ""))
    if valid and var.get("intrvl") != "contin":
        said |= _valued(*map(list, zip(*valid, strict=True)), whole=whole)
    elif _WHOLE.fullmatch(low) and _WHOLE.fullmatch(high) and var.get("dcml", "0") == "0":
        said |= {"low": int(low), "high": int(high)}
    has_missing = len(valid) < len(groups) or var.find("invalrng") is not None
    return var.get("name", ""), _with_missing(said, has_missing)


def _text(element: Any) -> str:
    return "" if element is None or element.text is None else " ".join(element.text.split())


def _texts(element: Any, tag: str) -> Any:
    """What the elements of a name say: a text, or language → text."""
    texts = {each.get(_LANGUAGE, ""): _text(each) for each in element.findall(tag) if _text(each)}
    return texts if len(texts) > 1 and "" not in texts else next(iter(texts.values()), "")


# ---- SDMX structures: code lists, and the dimensions of data structures that take their values from them


_Codes = list[tuple[str, Any, str]]  # code, name, parent
_Structures = tuple[dict[str, tuple[str, _Settings]], dict[str, _Codes]]


def _structures(document: Any) -> _Structures:
    """The columns, each with the identifier of its code list, and the code lists."""
    lists: dict[str, _Codes]
    if isinstance(document, dict):
        data = document.get("data", document)
        lists = {
            str(listed["id"]): [(str(each["id"]), _named(each), str(each.get("parent", ""))) for each in codes]
            for listed in data.get("codelists", ())
            if (codes := listed.get("codes"))
        }
        titles = {c["id"]: _named(c) for scheme in data.get("conceptSchemes", ()) for c in scheme.get("concepts", ())}
        parts = (each["dataStructureComponents"]["dimensionList"] for each in data.get("dataStructures", ()))
        asked = (
            (each["id"], each.get("conceptIdentity", ""), each.get("localRepresentation", {}).get("enumeration", ""))
            for part in parts
            for each in part["dimensions"]
        )
    else:
        lists = {
            listed.get("id"): [(each.get("id"), _texts(each, "Name"), _reference(each, "Parent")) for each in codes]
            for listed in document.iter("Codelist")
            if (codes := listed.findall("Code"))
        }
        titles = {each.get("id"): _texts(each, "Name") for each in document.iter("Concept")}
        places = ("ConceptIdentity", "LocalRepresentation/Enumeration")
        dimensions = document.iter("Dimension")
        asked = ((each.get("id"), *(_reference(each, place) for place in places)) for each in dimensions)
    columns = {}
    for name, concept, codes in asked:
        title = titles.get(_id_of(concept))
        columns[str(name)] = (_id_of(codes), {"title": title} if title else {})
    return columns, lists


def _reference(item: Any, place: str) -> str:
    """What an element inside refers to: by a Ref (2.1), or by its text, a URN or the identifier (3.0)."""
    element = item.find(place)
    inner = None if element is None else element.find("Ref")
    return _id_of(_text(element)) if inner is None else str(inner.get("id", ""))


def _id_of(urn: str) -> str:
    """CL_SEX of urn:sdmx:org.sdmx.infomodel.codelist.Codelist=OFFICE:CL_SEX(1.0), or of a concept's URN."""
    return re.sub(r"\([^)]*\)\.?", " ", urn.rpartition(":")[2]).split()[-1] if urn else ""


def _named(item: Mapping[str, Any]) -> Any:
    names = item.get("names") or {}
    return names if len(names) > 1 else next(iter(names.values()), item.get("name", ""))


def _coded(codes: _Codes) -> _Settings:
    return _valued([code for code, _, _ in codes], [name for _, name, _ in codes], whole=False)


def _with_missing(said: _Settings, missing: object) -> _Settings:
    return said | _OTHER if missing and is_declared(said) else said


def is_declared(settings: Mapping[str, Any]) -> bool:
    """Whether settings of an attribute say what it may hold, and not only what it is called."""
    return not settings.keys().isdisjoint(("values", "low", "first"))


def _valued(values: list[Any], names: list[Any], *, whole: bool) -> _Settings:
    """Values and their names; whole numbers where all are, and text else."""
    if whole and all(_WHOLE.fullmatch(str(value)) for value in values):
        values = [int(value) for value in values]
    else:
        values = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
    meanings = {str(value): name for value, name in zip(values, names, strict=True) if name and name != str(value)}
    return {"values": values, **({"meanings": meanings} if meanings else {})}
