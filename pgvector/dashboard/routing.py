"""The routes for FastAPI: what a request must be, how long it may take, and how errors are answered."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from ..domain.errors import HermesPgvectorError, InvalidArgument, OperationRejected
from ..domain.redaction import mask_dsn
from .page_route import PageRoute
from .params import Params
from .profile_homes import home_of
from .routes import ROUTES
from .served_homes import served_homes
from .workers import Workers

logger = logging.getLogger(__name__)

_READ_S = 1.0
_CHANGE_S = 30.0
_BODY_MOST = 8_000_000  # bytes
_BODY_S = 30.0  # for it to arrive
_TOO_LONG = "that takes too long; ask again, or see: hermes-pgvector doctor"
_GOES_ON = "that takes long and goes on, so it may still be done; look whether it was before you ask again"
_questions = Workers("hermes-pgvector-page", 24)
_changes = Workers("hermes-pgvector-change", 8)


def _router() -> APIRouter:
    made = APIRouter()
    for route in ROUTES:
        method = "POST" if route.changes else "GET"
        made.add_api_route(route.path, _handler(route), methods=[method], response_model=None)
    return made


def _handler(route: PageRoute) -> Callable[[Request], Awaitable[JSONResponse]]:
    workers, patience_s = (_changes, _CHANGE_S) if route.changes else (_questions, _READ_S)

    async def handle(request: Request) -> JSONResponse:
        try:
            values = await json_body(request) if route.changes else dict(request.query_params)
            work = partial(_answer, route, home_of(request.query_params.get("profile", "")), values)
            return _answered(await workers.answer(work, patience_s))
        except (TimeoutError, asyncio.CancelledError):  # also when the server ends before its answer
            return problem(503, _GOES_ON if route.changes else _TOO_LONG, "DeadlineExceeded")
        except HermesPgvectorError as exc:
            return problem(_status(exc), str(exc), type(exc).__name__)
        except Exception as exc:
            logger.warning("hermes-pgvector: the dashboard's %s failed", route.path, exc_info=True)
            return problem(500, f"unexpected {type(exc).__name__}: {mask_dsn(str(exc))}", type(exc).__name__)

    return handle


def _answer(route: PageRoute, home: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    with served_homes.at(home) as served:
        return route.answer(served, Params(values))


async def json_body(request: Request, most: int = _BODY_MOST) -> Mapping[str, Any]:
    """Return the JSON, of at most `most` bytes, of a request that changes something.

    Raises InvalidArgument for any other kind of request.
    """
    _check_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InvalidArgument("send application/json")
    try:
        found = json.loads(await _received(request, most), parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        raise InvalidArgument("that is no JSON, or one that is nested too deep") from exc
    if not isinstance(found, dict):
        raise InvalidArgument("send a JSON object")
    return found


async def _received(request: Request, most: int) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise InvalidArgument(f"at most {most:,} bytes are taken")
    except ClientDisconnect as exc:
        raise InvalidArgument("the request ended before its body did") from exc
    except TimeoutError as exc:
        raise InvalidArgument(f"the request did not arrive within {_BODY_S:g} s, and nothing was done") from exc
    return bytes(body)


def _no_number(name: str) -> NoReturn:
    """Raise ValueError for NaN and infinities, which Python would accept."""
    raise ValueError(name)


def _check_origin(request: Request) -> None:
    """Raise InvalidArgument for what a browser sends for a page of another site."""
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != request.headers.get("host", "").lower():
        raise InvalidArgument("another site's page may not change anything here")


def _status(exc: HermesPgvectorError) -> int:
    """Return 400 for an error that would recur, and 503 for one that somebody can fix."""
    return 400 if isinstance(exc, (InvalidArgument, OperationRejected)) else 503


class _Json(JSONResponse):
    """JSON of any text: a lone surrogate, which has no UTF-8, becomes a question mark."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )


def _answered(found: Mapping[str, Any]) -> JSONResponse:
    return _Json(dict(found), headers={"Cache-Control": "no-store"})


def problem(status: int, message: str, kind: str) -> JSONResponse:
    """Return the answer that says what is wrong."""
    return _Json({"error": message, "kind": kind}, status_code=status, headers={"Cache-Control": "no-store"})


router = _router()
