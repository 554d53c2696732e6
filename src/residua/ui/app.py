"""What the page may ask: the page itself, plans, files to keep, and the file of the command line to be written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from residua.errors import ResiduaError, SpecError
from residua.report.page import style
from residua.ui.documents import Desk, Document, demo, empty, opened
from residua.ui.drafts import read_draft, write_draft
from residua.ui.planning import LIMIT, PATIENT, PlanningProcesses, SlowError, SupersededError, TooLongError

_MOST_BESIDE = 3
Body = dict[str, Any]
# What a page may ask, each of the method of this name.
_ASKED = ("plan", "stop", "open", "start", "draft", "public", "save", "download", "report", "notebook", "released")


class Pages:
    """The answers of the server.

    Args:
        desk: the documents that are open.
        planner: what plans.
    """

    def __init__(self, desk: Desk, planner: PlanningProcesses) -> None:
        self._desk, self._planner = desk, planner

    def app(self) -> Starlette:
        """All routes."""

        @asynccontextmanager
        async def running(app: Starlette) -> AsyncIterator[None]:
            await self._planner.start()
            try:
                yield
            finally:
                await self._planner.stop()

        routes: list[BaseRoute] = [Route("/report.css", report_style), Route("/alive", alive)]
        routes += [Route(f"/{name}", _answering(getattr(self, name)), methods=["POST"]) for name in _ASKED]
        routes.append(Mount("/", StaticFiles(packages=[("residua.ui", "static")], html=True)))
        handlers: Any = {HTTPException: _not_found, Exception: _failed}
        return Starlette(routes=routes, lifespan=running, exception_handlers=handlers)

    def first(self) -> Body:
        """What the page shows when it is opened."""
        return self._shown(self._desk.first)

    async def start(self, body: Body) -> Body:
        """The document of the command line, the bundled example, or nothing yet."""
        which = body.get("which")
        if which == "first" and self._desk.released is not None:
            answer = await self.released({})
            return answer if "error" in answer else {"release": answer}
        if which == "first":
            return {**self.first(), "draft": read_draft(self._desk.path)}
        path = self._desk.path
        named = empty() if path is None else empty(path.name, path.parent)
        return self._shown(self._desk.add(demo() if which == "demo" else named))

    async def draft(self, body: Body) -> Body:
        """Keeps the draft of the page beside the file of the command line, or forgets it."""
        write_draft(self._desk.path, _table(body, "draft") or None)
        return {}

    async def open(self, body: Body) -> Body:
        """A document from the text of a specification that the user chose."""
        text, name = body.get("text"), body.get("name")
        if not isinstance(text, str) or not isinstance(name, str):
            raise SpecError("there is no text to open; choose a specification.")
        return self._shown(self._desk.add(opened(text.encode(), Path(name).name[:200] or "spec.toml")))

    async def plan(self, body: Body) -> Body:
        """The plan of a form."""
        document = self._desk[body.get("document")]
        content, places, problems = document.sound(_table(body, "form"))
        kept = body.get("beside") or []
        if not isinstance(kept, list) or len(kept) > _MOST_BESIDE:
            raise SpecError(f"at most {_MOST_BESIDE} plans can stand beside another; forget one.")
        beside = [self._content(one)[1] for one in kept]
        more = {"options": _table(body, "options"), "beside": beside, "places": places, "problems": problems}
        more["unfinished"] = [body["form"][kind][i].get("name") for kind, i, _ in problems if kind == "attributes"]
        limit = PATIENT if body.get("patient") is True else LIMIT
        return await self._ask("plan", document, content, page=_page(body), limit=limit, **more)

    async def public(self, body: Body) -> Body:
        """Counts that were published before, of a release or a table that the user chose on the page."""
        document = self._desk[body.get("document")]
        content, *_ = document.sound(_table(body, "form"))
        return await self._ask("public", document, content, files=_table(body, "files"), limit=PATIENT)

    async def stop(self, body: Body) -> Body:
        """Lets go whatever the page has asked."""
        self._planner.supersede(_page(body))
        return {}

    async def save(self, body: Body) -> Body:
        """Writes the file of the command line, if what is to be written is a specification."""
        document, content = self._content(body)
        checked = await self._ask("check", document, content)
        if "error" not in checked:
            self._desk.save(document.text_of(content))
        return checked

    async def download(self, body: Body) -> Body:
        """The specification as TOML."""
        document, content = self._content(body)
        return {"text": document.text_of(content), "name": document.name}

    async def report(self, body: Body) -> Body:
        """The report of the plan, as HTML; beside another plan if one is given."""
        beside = _table(body, "beside")
        return await self._file("report", body, "html", beside=self._content(beside)[1] if beside else None)

    async def notebook(self, body: Body) -> Body:
        """The plan as a notebook."""
        return await self._file("notebook", body, "ipynb")

    async def released(self, body: Body) -> Body:
        """What the page asks of the release that the command line names; it can name no other."""
        if self._desk.released is None:
            raise SpecError("no release was named on the command line; start residua ui with its folder.")
        request = {"task": "released", "name": "", "folder": str(self._desk.released), "ask": _table(body, "ask")}
        return await self._answer(request, limit=PATIENT)

    async def _file(self, task: str, body: Body, ending: str, **more: Any) -> Body:
        document, content = self._content(body)
        stem = Path(document.name).stem
        text = await self._ask(task, document, content, title=f"Plan: {stem}", limit=PATIENT, **more)
        return text | {"name": f"{stem}-plan.{ending}"}

    def _shown(self, key: str) -> Body:
        path = self._desk.path
        saves = None if path is None else path.name
        return {"document": key, **self._desk[key].shown(), "saves": saves, "demo": self._desk[key].content == _DEMO}

    def _content(self, body: Any) -> tuple[Document, dict[str, Any]]:
        if not isinstance(body, dict):
            raise SpecError("a plan to compare is not a form; reload the page.")
        document = self._desk[body.get("document")]
        return document, document.content_of(_table(body, "form"))

    async def _ask(
        self,
        task: str,
        document: Document,
        content: Mapping[str, Any],
        *,
        page: str = "",
        limit: float = LIMIT,
        **more: Any,
    ) -> Body:
        folder = str(document.folder or Path("/nonexistent"))
        request = {"task": task, "content": content, "folder": folder, "name": document.name, **more}
        return await self._answer(request, page=page, limit=limit)

    async def _answer(self, request: Mapping[str, Any], *, page: str = "", limit: float) -> Body:
        try:
            return await self._planner.ask(request, page=page, limit=limit)
        except SupersededError:
            return {"superseded": True}
        except SlowError:
            return {"slow": limit}


_DEMO = demo().content


def _answering(call: Callable[[Body], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """A call with a JSON body; a mistake is a sentence."""

    async def answer(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0] != "application/json":
            return PlainTextResponse("The planner takes JSON.", 415)
        try:
            body = msgspec.json.decode(await request.body())
        except TooLongError:
            return PlainTextResponse("This is too long for the planner.", 413)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return PlainTextResponse("This request cannot be understood.", 400)
        if not isinstance(body, dict):
            return PlainTextResponse("This request cannot be understood.", 400)
        try:
            return Response(msgspec.json.encode(await call(body)), media_type="application/json")
        except ResiduaError as problem:
            return JSONResponse({"error": str(problem)})

    return answer


async def report_style(request: Request) -> Response:
    """The style that the page shares with reports."""
    return Response(str(style()), media_type="text/css")


async def alive(request: Request) -> Response:
    """That the server is there."""
    return Response(status_code=204)


async def _not_found(request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 404
    return PlainTextResponse("There is nothing here." if status == 404 else "This page takes no such request.", status)


async def _failed(request: Request, problem: Exception) -> Response:
    return PlainTextResponse("The planner failed; this is a mistake of residua, please report it.", 500)


def _table(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    table = body.get(key) or {}
    if not isinstance(table, dict):
        raise SpecError(f"{key} is not a form; reload the page.")
    return table


def _page(body: Body) -> str:
    page = body.get("page")
    if not isinstance(page, str) or not 0 < len(page) <= 64:
        raise SpecError("the page did not say which it is; reload it.")
    return page
