"""The two lines of the MCP SDK, 1.x and 2.x, behind one set of names: nothing else of ours imports `mcp`.

A server is a handler for each method of the protocol. A handler takes the request and its parameters as they stand on
the wire, and returns the result so.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final
from urllib.parse import unquote, urlsplit

INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
NOT_FOUND: Final = -32002  # of a resource
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


class RequestRefused(Exception):
    """An error of the protocol, as a handler answers a request with it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Exchange:
    """A request under way: who asks, and what can be told the client meanwhile.

    `http` is the ASGI scope of a request that came over HTTP. `send_progress` is None where nobody asked for it.
    """

    session: Any
    http: Mapping[str, Any] | None
    send_progress: Callable[[float, str], Awaitable[None]] | None

    def header(self, name: str) -> str:
        """Return a header of the HTTP request, blanks around it left out; "" where there is none."""
        wanted = name.lower().encode()
        found = next((value for key, value in (self.http or {}).get("headers", ()) if key.lower() == wanted), b"")
        return bytes(found).decode("utf-8", "surrogateescape").strip()

    @property
    def client(self) -> str:
        """Return the name by which the client introduced itself; "" where it did not."""
        params = self.session.client_params
        info = getattr(params, "clientInfo", None) or getattr(params, "client_info", None)
        return str(getattr(info, "name", "") or "")[:_NAME_CHARS]

    async def root(self) -> str:
        """Return the path of the first folder that the client works in; "" where it names none."""
        params = self.session.client_params
        if getattr(getattr(params, "capabilities", None), "roots", None) is None:
            return ""
        with contextlib.suppress(_sdk_error()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer revisions of the protocol take leave of roots
            listed = await self.session.list_roots()
            address = urlsplit(str(listed.roots[0].uri)) if listed.roots else urlsplit("")
            return unquote(address.path) if address.scheme == "file" else ""
        return ""


Handler = Callable[[Exchange, dict[str, Any]], Awaitable[dict[str, Any]]]


def make_server(name: str, version: str, instructions: str, handlers: Mapping[str, Handler]) -> Any:
    """Return the SDK's server with these handlers, by method. Raises ImportError without the SDK."""
    server = import_module("mcp.server.lowlevel").Server(name, version=version, instructions=instructions)
    add = _add_to_2 if hasattr(server, "add_request_handler") else _add_to_1
    for method, handler in handlers.items():
        add(server, method, handler)
    return server


def _add_to_1(server: Any, method: str, handler: Handler) -> None:
    types, shared = import_module("mcp.types"), import_module("mcp.shared.exceptions")
    kind, _ = _KINDS[method]
    result = getattr(types, f"{kind}Result")

    async def handle(request: Any) -> Any:
        context = server.request_context
        token = getattr(context.meta, "progressToken", None)

        async def tell(done: float, message: str) -> None:
            request_id = str(context.request_id)
            await context.session.send_progress_notification(token, done, None, message, related_request_id=request_id)

        exchange = Exchange(context.session, _scope_of(context.request), None if token is None else tell)
        try:
            answer = await handler(exchange, _plain(request.params))
        except RequestRefused as exc:
            raise shared.McpError(types.ErrorData(code=exc.code, message=str(exc))) from None
        return types.ServerResult(result.model_validate(answer))

    server.request_handlers[getattr(types, f"{kind}Request")] = handle


def _add_to_2(server: Any, method: str, handler: Handler) -> None:
    types, shared = import_module("mcp.types"), import_module("mcp.shared.exceptions")
    kind, parameters = _KINDS[method]
    result = getattr(types, f"{kind}Result")

    async def handle(context: Any, params: Any) -> Any:
        async def tell(done: float, message: str) -> None:
            await context.session.report_progress(done, None, message)

        wanted = (context.meta or {}).get("progress_token") is not None
        exchange = Exchange(context.session, _scope_of(context.request), tell if wanted else None)
        try:
            answer = await handler(exchange, _plain(params))
        except RequestRefused as exc:
            raise shared.MCPError(exc.code, str(exc)) from None
        return result.model_validate(answer)

    server.add_request_handler(method, getattr(types, parameters), handle)


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
    """Speak with one client over two text files of anyio, until it closes the first."""
    stdio = import_module("mcp.server.stdio")
    async with stdio.stdio_server(stdin, stdout) as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def session_manager(server: Any) -> Any:
    """Return what speaks with many clients over streamable HTTP: `run()`, a context, and `handle_request`, an ASGI app.

    It checks neither Origin nor Host, nor who asks.
    """
    return import_module("mcp.server.streamable_http_manager").StreamableHTTPSessionManager(app=server)
