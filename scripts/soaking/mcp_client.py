"""Clients of the MCP servers in a soak: the SDK's, which remember, record turns, recall and forget."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
from anyio import BrokenResourceError, ClosedResourceError
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError
from mcp.types import CallToolResult

from tests.support.mcp_client import connected_over_http

from . import texts
from .clients import Client, Gone
from .ledger import Ledger
from .services import McpOverHttp, McpOverStdio, Service

_ANSWERED_S = 60.0
_AWAY_S = 1.0  # for an answer to arrive whose server is gone already
_LEAVE_S = 15.0
_BROKEN = (McpError, OSError, httpx.HTTPError, BrokenResourceError, ClosedResourceError, TimeoutError)


class McpClient(Client):
    """One client in one theme."""

    door = "mcp"
    actions = {"turn": 5, "remember": 3, "forget": 1, "recall": 2, "profile": 0.2}  # noqa: RUF012

    def __init__(
        self, name: str, index: int, service: Service, theme: str, ledger: Ledger, *, seed: int, per_s: float
    ) -> None:
        super().__init__(name, index, ledger, seed=seed, per_s=per_s)
        self.theme = theme
        # What was remembered, with its number; the memory page takes some of it.
        self.remembered: deque[tuple[int, int]] = deque()
        self._service = service
        self._last = 1

    def forget_numbers(self) -> None:
        """As said there."""
        self.remembered.clear()

    def play(self) -> None:
        """Connect to each life of the server."""
        asyncio.run(self._play())

    async def _play(self) -> None:
        while not self.closed:
            if not self._service.serves:
                await asyncio.sleep(0.05)
                continue
            life, ready = self._service.life, False
            try:
                async with self._connected() as session:
                    ready = True
                    await self._live(session, life)
            except* Gone:
                pass
            except* _BROKEN as broken:
                if ready and self._there(life):
                    self.accuse(f"the connection ended by itself: {broken.exceptions[:3]}")
            await asyncio.sleep(0.2)

    def _there(self, life: int) -> bool:
        return self._service.serves and self._service.life == life and not self.closed

    def _connected(self) -> AbstractAsyncContextManager[ClientSession]:
        assert isinstance(self._service, McpOverHttp)
        return connected_over_http(self._service.url, X_Hermes_Session_Key=self.theme)

    async def _live(self, session: ClientSession, life: int) -> None:
        name = f"{self.name}-{life}-{self.random.getrandbits(32):08x}"
        while self._there(life):
            await asyncio.sleep(0.1 if self.paused else self.wait_s())
            if self.paused or not self._there(life):
                continue
            await asyncio.to_thread(self.lock.acquire)
            try:
                await self._act(session, life, name)
            finally:
                self.lock.release()

    async def _act(self, session: ClientSession, life: int, name: str) -> None:
        number = self.next_number()
        match self.some_action():
            case "turn":
                user, assistant = texts.turn(self.theme, number)
                given = {"user": user, "assistant": assistant, "session": name}
                await self._call(session, life, "turn", number, "record_turn", given, session=name)
                self._last = number
            case "remember":
                given = {"content": texts.fact(self.theme, number)}
                answer = await self._call(session, life, "remember", number, "remember", given)
                if row := answer.get("id"):
                    self.remembered.append((number, row))
            case "forget" if self.remembered:
                gone, row = self.remembered.popleft()
                await self._call(session, life, "forget", number, "forget", {"ids": [row]}, gone=gone)
            case "profile":
                await self._call(session, life, "profile", number, "profile", {})
            case "recall":
                given = {"query": texts.question(self.theme, self._last), "limit": 3}
                await self._call(session, life, "recall", number, "recall", given)

    async def _call(
        self, client: ClientSession, life: int, what: str, number: int, tool: str, given: dict[str, Any], **more: object
    ) -> dict[str, Any]:
        begun = self.begin(life, what, self.theme, number, **more)
        try:
            result = await self._answered(client.call_tool(tool, given), life)
        except Gone:
            self.gone(begun)
            raise
        text = "".join(getattr(each, "text", "") for each in result.content)
        if result.isError:
            self.end(begun, error=text[:300], found=False, text=text)
            return {}
        answer = result.structuredContent or {}
        found = any(part.get("results") for part in answer.values() if isinstance(part, dict))
        self.end(begun, found=found, text=text)
        return answer

    async def _answered(self, asked: Any, life: int) -> CallToolResult:
        """What the server answers. Raises Gone where it does not any more."""
        task, began, away_at = asyncio.ensure_future(asked), time.monotonic(), 0.0
        while not task.done():
            await asyncio.wait([task], timeout=0.1)
            now = time.monotonic()
            if not self._there(life):
                away_at = away_at or now
            if not task.done() and (now - began > _ANSWERED_S or (away_at and now - away_at > _AWAY_S)):
                task.cancel()
                if not away_at:
                    self.accuse(f"no answer within {_ANSWERED_S:.0f} s")
                raise Gone
        try:
            result: CallToolResult = task.result()
        except _BROKEN as exc:
            # A connection may break before the end of its server is known here.
            await asyncio.sleep(_AWAY_S)
            if self._there(life):
                self.accuse(f"a call failed: {exc!r}")
            raise Gone from exc
        return result


class McpStdioClient(McpClient):
    """A client that starts its server."""

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[ClientSession]:  # type: ignore[override]
        service = self._service
        assert isinstance(service, McpOverStdio)
        command, *arguments = service.command
        parameters = StdioServerParameters(command=command, args=arguments, env=service.environment())
        with service.log() as log:
            async with (
                stdio_client(parameters, errlog=log) as (reading, writing),
                ClientSession(reading, writing) as session,
            ):
                service.note_child()
                async with asyncio.timeout(_ANSWERED_S):
                    await session.initialize()
                yield session
