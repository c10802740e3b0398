"""The handlers of the server: tools run on threads, each within its deadline and until the client cancels it."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import logging
import math
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ..domain.errors import DeadlineExceeded, HermesPgvectorError, InvalidArgument
from ..domain.lru import LruDict
from ..domain.redaction import mask_places
from ..host import guard
from ..store.connection import stop_sign
from . import resources
from .access import Access, Place, access_of, project_theme, session_of, theme_of
from .client_memory import ClientMemory, Memories
from .sdk import INTERNAL_ERROR, INVALID_PARAMS, Exchange, Handler, RequestRefused
from .tools import Tool

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_THREADS = 32  # more calls than that wait for their turn; the connection pool is smaller still
_LATE_S = 0.5  # a call that gets its thread later than that waited for its turn
BUSY = (
    "the memory is busy with other calls and did not come to this one in time: call it again in a moment; what a call "
    "that writes had begun may be done already"
)
NO_FOLDER = (
    "this client works in folders, which decide the theme, and did not say in time in which one: call it again; if it "
    "never says, name a theme for the server: hermes-pgvector mcp --theme NAME"
)
_PROJECTS_MOST = 1024
_PROGRESS_S = 1.0  # between two notifications of progress
FAILED = "the memory failed at this; the reason is in the server's log, and hermes-pgvector doctor looks further"


class Handlers:
    """The handlers of one server, by method of the protocol.

    `theme` is what --theme names, or "" without it. `patience_s`: how long a call may take that waits for its turn.
    """

    def __init__(
        self, home: Path, tools: Sequence[Tool], *, patience_s: float, theme: str = "", identity_key: str = ""
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._patience_s = patience_s
        self._theme = theme
        self._identity_key = identity_key
        self._memories = Memories(home)
        self._session = f"mcp-{uuid.uuid4().hex[:16]}"
        self._projects: LruDict[str, str] = LruDict(_PROJECTS_MOST)
        self.forget_projects = self._projects.clear
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hermes-pgvector-mcp")

    def warm_up(self) -> None:
        """Connect in the background, and write to Postgres what other processes of this home left in their spools.

        Called where no signal raises an exception: raised while an executor starts a thread, it would leave a thread
        that the end of the process waits for forever.
        """
        place = Place(self._theme, self._session, Access(), "")
        self._threads.submit(self._memories.at, place)

    def by_method(self) -> dict[str, Handler]:
        """Return the handlers as the SDK's server takes them."""
        handlers: dict[str, Handler] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
        }
        return {method: _guarded(handler) for method, handler in handlers.items()}

    async def _list_tools(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"tools": [tool.listed() for tool in self._tools.values()]}

    async def _call_tool(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            raise RequestRefused(INVALID_PARAMS, f"there is no such tool; the tools are {', '.join(self._tools)}")
        args = params.get("arguments") or {}
        try:
            tool.check(args)
            answer = await self._with_memory(exchange, lambda memory: _run(tool, memory, args))
        except HermesPgvectorError as exc:
            return {"content": [_text(mask_places(str(exc)))], "isError": True}
        if isinstance(answer, str):
            return {"content": [_text(answer)], "isError": False}
        said = json.dumps(answer, ensure_ascii=False, default=str)
        return {"content": [_text(said)], "structuredContent": dict(answer), "isError": False}

    async def _list_resources(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"resources": await self._with_memory(exchange, resources.listed)}

    async def _list_templates(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"resourceTemplates": list(resources.TEMPLATES)}

    async def _read_resource(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        uri = str(params.get("uri"))
        theme, read = resources.asked(uri)
        return resources.contents(uri, await self._with_memory(exchange, read, theme))

    async def _list_prompts(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"prompts": list(resources.PROMPTS)}

    async def _get_prompt(self, exchange: Exchange, params: Mapping[str, Any]) -> dict[str, Any]:
        resources.check_prompt(params.get("name"))
        args = params.get("arguments") or {}
        return await self._with_memory(exchange, lambda memory: resources.prompt(memory, args))

    async def _with_memory(self, exchange: Exchange, call: Callable[[ClientMemory], _T], theme: str = "") -> _T:
        """Run `call` with the memory that this request is about, on a thread, and return its result.

        `theme` has to be the request's own, or one of its token's.
        """
        place = await self._place(exchange)

        def called() -> _T:
            memory = self._memories.at(place)
            if theme and not memory.owns(theme):
                memory = self._memories.at(place.within(theme, memory.resolved))
            return call(memory)

        return await self._on_thread(exchange, called)

    async def _place(self, exchange: Exchange) -> Place:
        session = session_of(exchange, self._session)
        theme = theme_of(exchange, self._theme, identity_key=self._identity_key)
        return Place(theme or await self._project(exchange, session), session, access_of(exchange), exchange.client)

    async def _project(self, exchange: Exchange, session: str) -> str:
        """Return the theme of the folder that the client works in; the client is asked until it has answered.

        Raises DeadlineExceeded if it does not: another theme, such as the home's own, would mix what belongs apart.
        """
        known = self._projects.use(session)
        if known is None:
            try:
                folder = await exchange.root()
            except TimeoutError:
                raise DeadlineExceeded(NO_FOLDER) from None
            known = self._projects[session] = project_theme(folder)
        return known

    async def _on_thread(self, exchange: Exchange, call: Callable[[], _T]) -> _T:
        """Run `call`, report its progress to the client, and stop it in Postgres when the request is cancelled.

        Raises DeadlineExceeded if all threads were busy, and `call` did not end within the deadline because of that.
        """
        stop = threading.Event()
        context = contextvars.copy_context()
        context.run(stop_sign.set, stop)
        turn = _Turn(self._patience_s)
        future = asyncio.get_running_loop().run_in_executor(self._threads, context.run, turn.run, call)
        told = time.monotonic()
        try:
            while True:
                done, _ = await asyncio.wait([future], timeout=min(_PROGRESS_S, turn.left_s()))
                if done:
                    return future.result()
                if turn.missed():
                    raise DeadlineExceeded(BUSY)
                if exchange.send_progress is not None and time.monotonic() - told >= _PROGRESS_S:
                    told = time.monotonic()
                    await exchange.send_progress(told - turn.asked, "still at work")
        finally:
            stop.set()
            future.cancel()


class _Turn:
    """The turn of a call to run on a thread. A call sets its own deadline when it starts, too late if it waited."""

    def __init__(self, patience_s: float) -> None:
        self.asked = time.monotonic()
        self._ends = self.asked + patience_s
        self._started: float | None = None

    def run(self, call: Callable[[], _T]) -> _T:
        """Run `call` on the thread that has come to it."""
        self._started = time.monotonic()
        return call()

    def left_s(self) -> float:
        """Return how long it is to the deadline, or no limit if the call started at once."""
        return max(0.0, self._ends - time.monotonic()) if self._waited() else math.inf

    def missed(self) -> bool:
        """Return whether the deadline has passed for a call that had to wait."""
        return self._waited() and time.monotonic() >= self._ends

    def _waited(self) -> bool:
        return self._started is None or self._started - self.asked > _LATE_S


def _run(tool: Tool, memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any] | str:
    memory.count_call()
    return tool.run(memory, args)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _guarded(handler: Callable[[Exchange, dict[str, Any]], Awaitable[dict[str, Any]]]) -> Handler:
    """Wrap a handler so that a failure becomes a protocol error; the reason of an unexpected one is logged."""

    @functools.wraps(handler)
    async def guarded_handler(exchange: Exchange, params: dict[str, Any]) -> dict[str, Any]:
        try:
            return await handler(exchange, params)
        except RequestRefused:
            raise
        except InvalidArgument as exc:
            raise RequestRefused(INVALID_PARAMS, mask_places(str(exc))) from None
        except HermesPgvectorError as exc:
            raise RequestRefused(INTERNAL_ERROR, mask_places(str(exc))) from None
        except Exception as exc:
            guard.report(handler.__name__, exc)
            raise RequestRefused(INTERNAL_ERROR, FAILED) from None

    return guarded_handler
