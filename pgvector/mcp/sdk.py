"""The versions 1.x and 2.x of the MCP SDK behind one interface: no other module of ours imports `mcp`.

A server has a handler for each method of the protocol. A handler takes the request and its parameters in their wire
format, and returns the result in it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote, urlsplit

INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_FOUND: Final = -32002  # of a resource
INVALID_REQUEST: Final = -32600
SESSION_HEADER: Final = b"mcp-session-id"
_KINDS: Final = {  # by method: how the SDK names its request, parameters and result
    "tools/list": ("ListTools", "PaginatedRequestParams"),
    "tools/call": ("CallTool", "CallToolRequestParams"),
    "resources/list": ("ListResources", "PaginatedRequestParams"),
    "resources/templates/list": ("ListResourceTemplates", "PaginatedRequestParams"),
    "resources/read": ("ReadResource", "ReadResourceRequestParams"),
    "prompts/list": ("ListPrompts", "PaginatedRequestParams"),
    "prompts/get": ("GetPrompt", "GetPromptRequestParams"),
}
_NAME_CHARS = 64  # of a client
_ROOTS_S = 3.0  # for a client to say which folder it works in


class RequestRefused(Exception):
    """A protocol error with which a handler answers a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Exchange:
    """A request in progress: who asks, and how to tell and ask the client something meanwhile.

    `http` is the ASGI scope of a request that came over HTTP. `send_progress` is None if the client did not ask for it,
    and `ask_roots` if the client does not tell which folders it works in.
    """

    client: str
    http: Mapping[str, Any] | None
    send_progress: Callable[[float, str], Awaitable[None]] | None
    ask_roots: Callable[[], Awaitable[Any]] | None

    def header(self, name: str) -> str:
        """Return a header of the HTTP request without blanks around it, or "" if there is none."""
        wanted = name.lower().encode()
        found = next((value for key, value in (self.http or {}).get("headers", ()) if key.lower() == wanted), b"")
        return bytes(found).decode("utf-8", "surrogateescape").strip()

    async def root(self) -> str:
        """Return the path of the first folder that the client works in, or "" if it names none.

        Raises TimeoutError if the client does not say so in time.
        """
        if self.ask_roots is None:
            return ""
        with contextlib.suppress(_sdk_error(), ValueError):
            async with asyncio.timeout(_ROOTS_S):
                roots = (await self.ask_roots()).roots
            address = urlsplit(str(roots[0].uri)) if roots else urlsplit("")
            # Folders that differ only in a byte which is not UTF-8 are two projects.
            return unquote(address.path, errors="surrogateescape") if address.scheme == "file" else ""
        return ""


Handler = Callable[[Exchange, dict[str, Any]], Awaitable[dict[str, Any]]]


def make_server(
    name: str,
    version: str,
    instructions: str,
    handlers: Mapping[str, Handler],
    *,
    on_roots_changed: Callable[[], None],
) -> Any:
    """Return the SDK's server with these handlers, by method. Raises ImportError without the SDK."""
    server = import_module("mcp.server.lowlevel").Server(name, version=version, instructions=instructions)
    (_fill_2 if hasattr(server, "add_request_handler") else _fill_1)(server, handlers, on_roots_changed)
    return server


def _fill_1(server: Any, handlers: Mapping[str, Handler], on_roots_changed: Callable[[], None]) -> None:
    types = import_module("mcp.types")
    for method, handler in handlers.items():
        kind, _ = _KINDS[method]
        server.request_handlers[getattr(types, f"{kind}Request")] = _handler_1(server, types, kind, handler)

    async def roots_changed(_: Any) -> None:
        on_roots_changed()

    server.notification_handlers[types.RootsListChangedNotification] = roots_changed


def _handler_1(server: Any, types: Any, kind: str, handler: Handler) -> Callable[[Any], Awaitable[Any]]:
    error = _sdk_error()
    result = getattr(types, f"{kind}Result")

    async def handle(request: Any) -> Any:
        context = server.request_context
        session, token = context.session, getattr(context.meta, "progressToken", None)
        client = getattr(session.client_params, "clientInfo", None)
        capabilities = getattr(session.client_params, "capabilities", None)

        async def tell(done: float, message: str) -> None:
            await session.send_progress_notification(
                token, done, None, message, related_request_id=str(context.request_id)
            )

        exchange = Exchange(
            _name_of(client),
            _scope_of(context.request),
            None if token is None else tell,
            _asking(session, types.ServerRequest(types.ListRootsRequest()), types, context.request_id, capabilities),
        )
        try:
            answer = await handler(exchange, _plain(request.params))
        except RequestRefused as exc:
            raise error(types.ErrorData(code=exc.code, message=str(exc))) from None
        return types.ServerResult(result.model_validate(answer))

    return handle


def _fill_2(server: Any, handlers: Mapping[str, Handler], on_roots_changed: Callable[[], None]) -> None:
    types = import_module("mcp.types")
    for method, handler in handlers.items():
        kind, parameters = _KINDS[method]
        server.add_request_handler(method, getattr(types, parameters), _handler_2(types, kind, handler))

    async def roots_changed(context: Any, params: Any) -> None:
        on_roots_changed()

    server.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, roots_changed)


def _handler_2(types: Any, kind: str, handler: Handler) -> Callable[[Any, Any], Awaitable[Any]]:
    error = _sdk_error()
    result = getattr(types, f"{kind}Result")

    async def handle(context: Any, params: Any) -> Any:
        session = context.session
        client = getattr(session.client_params, "client_info", None)

        async def tell(done: float, message: str) -> None:
            await session.report_progress(done, None, message)

        wanted = (context.meta or {}).get("progress_token") is not None
        exchange = Exchange(
            _name_of(client),
            _scope_of(context.request),
            tell if wanted else None,
            _asking(session, types.ListRootsRequest(), types, context.request_id, session.client_capabilities),
        )
        try:
            answer = await handler(exchange, _plain(params))
        except RequestRefused as exc:
            raise error(exc.code, str(exc)) from None
        return result.model_validate(answer)

    return handle


def _asking(
    session: Any, request: Any, types: Any, request_id: Any, capabilities: Any
) -> Callable[[], Awaitable[Any]] | None:
    """Return a function that asks the client for its folders on the stream of its request; None if it has no roots."""
    if getattr(capabilities, "roots", None) is None:
        return None
    metadata = import_module("mcp.shared.message").ServerMessageMetadata(related_request_id=request_id)
    return lambda: session.send_request(request, types.ListRootsResult, metadata=metadata)


def _name_of(client: Any) -> str:
    return str(getattr(client, "name", "") or "")[:_NAME_CHARS]


def _plain(params: Any) -> dict[str, Any]:
    found: dict[str, Any] = (
        {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
    )
    return found


def _scope_of(request: Any) -> Mapping[str, Any] | None:
    return None if request is None else request.scope


def _sdk_error() -> type[Exception]:
    shared = import_module("mcp.shared.exceptions")
    found: type[Exception] = getattr(shared, "MCPError", None) or shared.McpError
    return found


async def serve_streams(server: Any, stdin: Any, stdout: Any) -> None:
    """Serve one client that sends requests as the lines of `stdin`, until these end or it no longer reads `stdout`.

    `stdout` is a text file of anyio.
    """
    stdio, anyio = import_module("mcp.server.stdio"), import_module("anyio")
    try:
        async with stdio.stdio_server(stdin, stdout) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        pass  # answers were still on their way to a client that has left


def session_manager(server: Any) -> Any:
    """Return the manager of many clients over streamable HTTP: `run()`, a context, and `handle_request`, an ASGI app.

    It checks neither the caller nor Host and Origin.
    """
    security = import_module("mcp.server.transport_security").TransportSecuritySettings(
        enable_dns_rebinding_protection=False
    )
    manager = import_module("mcp.server.streamable_http_manager").StreamableHTTPSessionManager
    return manager(app=server, security_settings=security)


async def end_session(manager: Any, session_id: str) -> None:
    """End a session of `session_manager` and keep nothing of it.

    Version 1.x offers no other way, and keeps even sessions that their clients have ended.
    """
    transport = manager._server_instances.pop(session_id, None)
    if transport is not None and not transport.is_terminated:
        await transport.terminate()
