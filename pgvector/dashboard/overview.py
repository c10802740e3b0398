"""How the memory is doing, at a glance."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..admin.browse import theme_sizes
from ..admin.common.embedded_server import borrowed_server
from ..admin.common.installation import package_version
from ..admin.doctor.check import Check
from ..admin.doctor.checklist import examine, healthy
from ..admin.status.report import Status, flat, look
from ..domain.errors import HermesPgvectorError
from ..embed.cross_encoder import MODEL
from ..embed.embedder import space_of
from ..embed.model_folder import models_folder
from ..host.session_context import environment
from .desk import Desk
from .lately import Told
from .page_route import PageRoute
from .params import Params

_DAYS = 30
_LARGEST = 10
_WAIT_S = 0.7  # of the second that the page waits
_CHECKS_WAIT_S = 0.3
_PATIENCE_S = 8.0  # of what is made in the background
_STATE_FRESH_S, _SIZES_FRESH_S, _CHECKS_FRESH_S = 1.0, 20.0, 120.0
_FAILED_FRESH_S = 10.0  # of checks of which one failed: somebody may be mending it
_UNKNOWN: dict[str, Any] = {
    "ok": None,
    "line": "the database is being connected to",
    "problems": [],
    "checked_at": None,
}
_NOTHING_YET: Status = {"database": {}, "recall": None, "processes": [], "model": None}


def overview(desk: Desk, params: Params) -> Mapping[str, Any]:
    """Return what `status` and `doctor` say, how much there is, and how that grew.

    What takes longer than the page waits is made in the background; of it the last answer is told, or null.
    """
    state, checks, sizes = _looked_at(desk)
    status: Status = state.answer if state else _NOTHING_YET
    database = status["database"]
    return {
        "health": _health(database, checks) if state else _UNKNOWN,
        "counting": state is None or sizes is None,
        "version": package_version(),
        "waiting": _waiting(status),
        "recall": status["recall"] and _recall(status),
        "processes": [
            {name: each[name] for name in ("name", "pid", "living", "waiting")} for each in status["processes"]
        ],
        "totals": {name: database.get(name) for name in ("themes", "memories", "turns", "database_bytes")},
        "about": database.get("about", []),
        "model": status["model"],
    } | ((sizes and sizes.answer) or {"growth": [], "themes": []})


def _looked_at(desk: Desk) -> tuple[Told | None, Told | None, Told | None]:
    """Return the state, the checks and the sizes, as far as they are there in time."""
    began, lately = time.monotonic(), desk.lately
    lately.begin("state", lambda: _state(desk), _STATE_FRESH_S)
    lately.begin("sizes", lambda: _sizes(desk), _SIZES_FRESH_S)
    before = lately.told("checks", until=0)
    lately.begin("checks", lambda: _checks(desk), _CHECKS_FRESH_S if _passed(before) else _FAILED_FRESH_S)
    state = lately.told("state", began + _WAIT_S)
    checks = lately.told("checks", began + _CHECKS_WAIT_S)
    return state, checks, lately.told("sizes", began + _WAIT_S)


def _passed(checks: Told | None) -> bool:
    return checks is None or healthy(checks.answer)


def _state(desk: Desk) -> dict[str, Any]:
    return look(desk.settings, desk.home, lambda: desk.reading(_PATIENCE_S)) | {"model": _model(desk)}


def _model(desk: Desk) -> dict[str, Any]:
    """Return what texts are compared by, and why that is by words only where it is."""
    settings = desk.settings
    told = {"name": None, "dims": settings.dims, "mode": "lexical", "why": "", "reranker": _reranker(desk)}
    try:
        context = desk.context()
    except HermesPgvectorError as exc:
        return told | {"why": str(exc)}
    if context.embedder is None:
        return told | {"why": context.why_by_words()}
    space = space_of(context.embedder)
    told |= {"name": space.model, "dims": space.dims}
    if not context.backend.comparable(space):
        return told | {"why": context.why_by_words()}
    return told | {"mode": "hybrid"}


def _reranker(desk: Desk) -> str | None:
    if desk.settings.rerank == "off":
        return None
    if desk.settings.rerank_url:
        return desk.settings.rerank_model or "an endpoint"
    return MODEL if (models_folder(desk.home) / MODEL).is_dir() else None


def _sizes(desk: Desk) -> dict[str, Any] | None:
    try:
        with desk.reading(_PATIENCE_S) as conn:
            largest = theme_sizes.theme_sizes(conn, theme_sizes.largest_themes(conn, _LARGEST))
            return {
                "growth": theme_sizes.growth(conn, _DAYS),
                "themes": [each | {"private": not desk.chats.opens(each["theme"])} for each in largest],
            }
    except HermesPgvectorError:
        return None  # what is wrong, the state says


def _checks(desk: Desk) -> list[Check]:
    environ = environment(desk.home)
    with borrowed_server(desk.settings) as locate:
        return examine(
            desk.settings,
            desk.home,
            locate=locate,
            api_key=environ.get(desk.settings.embed_api_key_env, ""),
            rerank_key=environ.get(desk.settings.rerank_api_key_env, ""),
        )


def _health(database: Mapping[str, Any], checks: Told | None) -> dict[str, Any]:
    """Return what is wrong: the database as it is now, the rest as `doctor` found it last."""
    problems = []
    if "problem" in database:
        problems.append({"name": "postgres", "says": database["problem"], "fix": ""})
    found: Sequence[Check] = checks.answer if checks else ()
    problems += [
        {"name": each.name, "says": each.said, "fix": each.fix}
        for each in found
        if each.state == "fail" and not (problems and each.name == "postgres")
    ]
    return {
        "ok": False if problems else True if checks else None,
        "line": _line(problems, checks),
        "problems": problems,
        "checked_at": checks and checks.at.isoformat(),
    }


def _line(problems: Sequence[Mapping[str, str]], checks: Told | None) -> str:
    if not problems:
        return "everything works" if checks else "Postgres answers; the other checks are under way"
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return f"{problems[0]['name']}: {problems[0]['says']}{more}"


def _waiting(status: Status) -> dict[str, Any]:
    database = status["database"]
    pending = None
    if "pending_memories" in database:
        pending = database["pending_memories"] + database["pending_turns"] if database["by_meaning"] else 0
    return {
        "writes": status.get("waiting"),
        "rejected": status.get("set_aside"),
        "pending_vectors": pending,
        "held_removals": database.get("removals_held"),
    }


def _recall(status: Status) -> dict[str, Any]:
    recall, numbers = status["recall"], flat(status)
    asked = recall["prefetches"] + recall["tool_recalls"]
    found = recall["prefetches_found"] + recall["tool_recalls_found"]
    return {
        "asked": asked,
        "found": found,
        "hit_rate": round(found / asked, 3) if asked else None,
        "p50_ms": numbers.get("search_p50_ms"),
        "p95_ms": numbers.get("search_p95_ms"),
    }


ROUTES = (PageRoute("/overview", overview),)
