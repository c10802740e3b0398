"""The routes as FastAPI's routes: what a request must be, how long it may take, and how an error is told."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from ..domain.errors import (
    ConfigurationError,
    DeadlineExceeded,
    HermesPgvectorError,
    InvalidArgument,
    SpoolError,
    StoreUnavailable,
)
from ..domain.redaction import mask_dsn
from ..host.session_context import hermes_home
from .desk import desks
from .page_route import PageRoute
from .params import Params
from .routes import ROUTES

logger = logging.getLogger(__name__)

_READ_S = 1.0
_CHANGE_S = 30.0
_BODY_MOST = 8_000_000  # bytes
_UNAVAILABLE = (StoreUnavailable, DeadlineExceeded, SpoolError, ConfigurationError)


def _router() -> APIRouter:
    made = APIRouter()
    for route in ROUTES:
        method = "POST" if route.changes else "GET"
        made.add_api_route(route.path, _handler(route), methods=[method], response_model=None)
    return made


def _handler(route: PageRoute) -> Callable[[Request], Awaitable[JSONResponse]]:
    async def handle(request: Request) -> JSONResponse:
        try:
            values = await json_body(request) if route.changes else dict(request.query_params)
            work = to_thread.run_sync(_answer, route, values, abandon_on_cancel=True)
            return _told(await asyncio.wait_for(work, _CHANGE_S if route.changes else _READ_S))
        except TimeoutError:
            return problem(503, "that takes too long; ask again", "DeadlineExceeded")
        except HermesPgvectorError as exc:
            return problem(_status(exc), str(exc), type(exc).__name__)
        except Exception as exc:
            logger.warning("hermes-pgvector: the dashboard's %s failed", route.path, exc_info=True)
            return problem(500, f"unexpected {type(exc).__name__}: {mask_dsn(str(exc))}", type(exc).__name__)

    return handle


def _answer(route: PageRoute, values: Mapping[str, Any]) -> Mapping[str, Any]:
    return route.answer(desks.at(hermes_home()), Params(values))


async def json_body(request: Request) -> Mapping[str, Any]:
    """Return the JSON of a request that changes something. Raises InvalidArgument for any other kind of request."""
    _check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InvalidArgument("send application/json")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _BODY_MOST:
            raise InvalidArgument(f"at most {_BODY_MOST:,} bytes are taken")
    try:
        found = json.loads(bytes(body))
    except (ValueError, RecursionError) as exc:
        raise InvalidArgument("that is no JSON") from exc
    if not isinstance(found, dict):
        raise InvalidArgument("send a JSON object")
    return found


def _check_origin(request: Request) -> None:
    """A page of another site must not have a browser change anything here."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        raise InvalidArgument("another site's page may not change anything here")


def _status(exc: HermesPgvectorError) -> int:
    if isinstance(exc, InvalidArgument):
        return 400
    if isinstance(exc, _UNAVAILABLE):
        return 503
    return 500


def _told(found: Mapping[str, Any]) -> JSONResponse:
    return JSONResponse(dict(found), headers={"Cache-Control": "no-store"})


def problem(status: int, message: str, kind: str) -> JSONResponse:
    """Return the answer that says what is wrong."""
    return JSONResponse({"error": message, "kind": kind}, status_code=status, headers={"Cache-Control": "no-store"})


router = _router()
