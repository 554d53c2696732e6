"""Every document that residua writes is what its JSON Schema says, and the schemas refuse what was changed."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.laws.every_plan import NAMES, made
from tests.saved import KINDS, saved

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@cache
def validator(kind: str) -> Any:
    schema = json.loads((SCHEMAS / f"{kind}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def documents(kind: str) -> list[Any]:
    folder = saved()
    if kind == "ledger":
        paths = [*folder.glob("*.ledger")]
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    names = {"plan": "*.json", "release": "*/release.json", "session": "session/session.json"}
    return [json.loads(path.read_text()) for path in folder.glob(names[kind])]


@pytest.mark.parametrize("kind", ["plan", "release", "ledger", "session"])
def test_what_is_saved_is_what_the_schema_says(kind: str) -> None:
    written = documents(kind)
    assert len(written) >= (1 if kind == "session" else len(KINDS))
    for document in written:
        validator(kind).validate(document)


@pytest.mark.parametrize("name", NAMES)
def test_plans_of_every_form_are_what_the_schema_says(name: str, tmp_path: Path) -> None:
    made(name).save(tmp_path / "plan.json")
    validator("plan").validate(json.loads((tmp_path / "plan.json").read_text()))


@pytest.mark.parametrize("kind", ["plan", "release", "ledger", "session"])
def test_what_lacks_a_key_or_has_another_is_refused(kind: str) -> None:
    document = documents(kind)[0]
    inner = document.get("body", document)
    for key in set(inner) - {"parts"}:
        kept = inner.pop(key)
        assert not validator(kind).is_valid(document), key
        inner[key] = kept
    inner["other"] = 1
    assert not validator(kind).is_valid(document)
    del inner["other"]
    assert validator(kind).is_valid(document)
