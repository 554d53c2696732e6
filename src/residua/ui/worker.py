"""A process that plans: one request in, one line of JSON out. The server ends it when it takes too long.

It is run by `python -m residua.ui.worker` and reads no data: what it is sent are the tables of a specification, checked
by the server to name no file but those of values that the opened specification names itself.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from residua.cli.planning import make_plan
from residua.cli.spec import Spec, spec_of
from residua.errors import ResiduaError, SpecError
from residua.report.contents import report_html
from residua.ui.facts import facts_of
from residua.ui.notebook import notebook
from residua.ui.public import published_counts
from residua.ui.released import released

Request = Mapping[str, Any]
_TOTAL = {"ways": [0]}


def answer(request: Request) -> dict[str, Any]:
    """The answer to one request: facts, a file as a text, or a sentence that says what is wrong, and where."""
    started = time.perf_counter()
    try:
        facts = _TASKS[request["task"]](request)
    except ResiduaError as problem:
        return {"error": _sentence(str(problem), request), "problems": request.get("problems", ())}
    except MemoryError:
        return {"error": "There is not enough memory; ask for fewer or smaller tables."}
    except Exception:  # a mistake of ours: nothing of it reaches the page
        return {"error": "The planner failed on this specification; this is a mistake of residua, please report it."}
    return {**facts, "seconds": time.perf_counter() - started}


def _spec(request: Request, content: Any = None) -> Spec:
    return spec_of(request["content"] if content is None else content, Path(request["folder"]) / request["name"])


def _facts(request: Request) -> dict[str, Any]:
    """The plan of what is finished; parts that are not are named, and nothing else waits for them."""
    beside = [_spec(request, content) for content in request.get("beside", [])]
    problems = list(request.get("problems", ()))
    if not request["content"].get("domain"):
        return {"nothing": True, "problems": problems}
    try:
        spec = _spec(request)
    except ResiduaError:
        content, wrong = _finished(request)
        if content == request["content"]:
            raise
        problems += wrong
        if not content["domain"] or not content["workload"]:
            return {"nothing": True, "problems": problems}
        spec = _spec(request, content)
    return {**facts_of(spec, request.get("options", {}), beside), "problems": problems}


def _report(request: Request) -> dict[str, Any]:
    beside = make_plan(_spec(request, request["beside"])) if request.get("beside") else None
    return {"text": report_html(make_plan(_spec(request)), title=request["title"], beside=beside)}


def _notebook(request: Request) -> dict[str, Any]:
    return {"text": notebook(_spec(request), request["content"]["workload"], request["title"]).decode()}


def _public(request: Request) -> dict[str, Any]:
    columns = _finished({**request, "content": {**request["content"], "workload": []}})[0]["domain"]
    if not columns:
        raise SpecError("no column is finished yet; say what one of them may hold.")
    spec = _spec(request, {"domain": columns, "workload": [_TOTAL], "privacy": {"rho": 1.0}})
    return published_counts(spec.domain, request["files"])


def _check(request: Request) -> dict[str, Any]:
    _spec(request)
    return {}


_TASKS: dict[str, Callable[[Request], dict[str, Any]]] = {
    "plan": _facts,
    "report": _report,
    "notebook": _notebook,
    "check": _check,
    "public": _public,
    "released": released,
}


_WARMING: Request = {
    "task": "plan",
    "folder": ".",
    "name": "",
    "content": {"domain": {"a": {"size": 2}, "b": {"size": 3}}, "workload": [{"ways": [1, 2], "stddev": 1.0}]},
}


def _sentence(text: str, request: Request) -> str:
    """The sentence without the name of the file, which the page shows."""
    return text.removeprefix(f"{request['name']}: ")


def _finished(request: Request) -> tuple[dict[str, Any], list[tuple[str, int, str]]]:
    """The content without the attributes and entries that are wrong by themselves, and what is wrong with them.

    An entry that names an attribute which is left out is left out too, and not called wrong.
    """
    content = request["content"]
    domain, entries = content.get("domain", {}), content.get("workload", [])
    places = request.get("places") or {"attributes": range(len(domain)), "tables": range(len(entries))}
    rules = {name: domain[name] for name in domain if name == "impossible" and isinstance(domain[name], list)}
    problems: list[tuple[str, int, str]] = []

    def sound(kind: str, i: int, declared: Mapping[str, Any], entry: Any) -> bool:
        try:
            _spec(request, {"domain": declared, "workload": [entry], "privacy": {"rho": 1.0}})
        except ResiduaError as problem:
            problems.append((kind, places[kind][i], _sentence(str(problem), request)))
            return False
        return True

    named = [name for name in domain if name not in rules]
    good = {name: domain[name] for i, name in enumerate(named) if sound("attributes", i, {name: domain[name]}, _TOTAL)}
    lost = {*request.get("unfinished", ()), *named} - set(good)
    entries = [_few(entry, len(good)) for entry in entries]
    asked = [entry for i, entry in enumerate(entries) if not _names(entry) & lost and sound("tables", i, good, entry)]
    return {**content, "domain": good | ({} if lost else rules), "workload": asked}, problems


def _few(entry: Mapping[str, Any], count: int) -> Mapping[str, Any]:
    """An entry without tables of more attributes than there are yet."""
    ways = entry.get("ways")
    return {**entry, "ways": [n for n in ways if n <= count] or [count]} if isinstance(ways, list) else entry


def _names(setting: Any) -> set[str]:
    """All texts in a setting, keys included: the attributes that an entry names are among them."""
    if isinstance(setting, Mapping):
        return _names([*setting, *setting.values()])
    return set().union(*map(_names, setting)) if isinstance(setting, list) else {str(setting)}


def _requests(source: IO[bytes], into: queue.Queue[Request]) -> None:
    """Hands over requests; when the server is gone, so are we, whatever we are doing."""
    try:
        while True:
            into.put(pickle.load(source))  # from the server, which started us, and from nobody else
    except EOFError:
        os._exit(0)


def main() -> None:
    """Answers until the server closes the pipe."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    sys.stdout = sys.stderr  # nothing but answers goes to the server
    warnings.simplefilter("ignore")
    requests: queue.Queue[Request] = queue.Queue()
    threading.Thread(target=_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    warm = False
    out.write(b"ready\n")
    out.flush()
    while True:
        out.write(msgspec.json.encode(answer(requests.get())) + b"\n")
        out.flush()
        if not warm and requests.empty():
            answer(_WARMING)  # loads what plans for wishes need, while the user reads
            warm = True


if __name__ == "__main__":
    main()
