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
from .answer_cache import CachedAnswer
from .page_route import PageRoute
from .params import Params
from .served_homes import ServedHome

_DAYS = 30
_LARGEST = 10
_WAIT_S = 0.7  # of the second that the page waits
_CHECKS_WAIT_S = 0.3
_PATIENCE_S = 8.0  # for what is made in the background
_STATE_FRESH_S, _SIZES_FRESH_S, _CHECKS_FRESH_S = 1.0, 20.0, 120.0
_FAILED_FRESH_S = 10.0  # for checks of which one failed: somebody may be fixing it
_UNKNOWN: dict[str, Any] = {
    "ok": None,
    "line": "the database is being connected to",
    "problems": [],
    "checked_at": None,
}
_NOTHING_YET: Status = {"database": {}, "recall": None, "processes": [], "model": None}


def overview(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return what `status` and `doctor` say, how much is stored, and how that grew.

    Parts that take longer than the page waits are made in the background; their last answer is shown, or null.
    """
    state, checks, sizes = _looked_at(served)
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


def _looked_at(served: ServedHome) -> tuple[CachedAnswer | None, CachedAnswer | None, CachedAnswer | None]:
    """Return the state, the checks and the sizes, as far as they are ready in time."""
    began, answers = time.monotonic(), served.answers
    answers.refresh("state", lambda: _state(served), _STATE_FRESH_S)
    answers.refresh("sizes", lambda: _sizes(served), _SIZES_FRESH_S)
    before = answers.get("checks", until=0)
    answers.refresh("checks", lambda: _checks(served), _CHECKS_FRESH_S if _passed(before) else _FAILED_FRESH_S)
    state = answers.get("state", began + _WAIT_S)
    checks = answers.get("checks", began + _CHECKS_WAIT_S)
    return state, checks, answers.get("sizes", began + _WAIT_S)


def _passed(checks: CachedAnswer | None) -> bool:
    return checks is None or healthy(checks.answer)


def _state(served: ServedHome) -> dict[str, Any]:
    return look(served.settings, served.home, lambda: served.reading(_PATIENCE_S)) | {"model": _model(served)}


def _model(served: ServedHome) -> dict[str, Any]:
    """Return the model that texts are compared by, and the reason if they are compared by words only."""
    settings = served.settings
    model = {"name": None, "dims": settings.dims, "mode": "lexical", "why": "", "reranker": _reranker(served)}
    try:
        context = served.context()
    except HermesPgvectorError as exc:
        return model | {"why": str(exc)}
    if context.embedder is None:
        return model | {"why": context.why_by_words()}
    space = space_of(context.embedder)
    model |= {"name": space.model, "dims": space.dims}
    if not context.backend.comparable(space):
        return model | {"why": context.why_by_words()}
    return model | {"mode": "hybrid"}


def _reranker(served: ServedHome) -> str | None:
    if served.settings.rerank == "off":
        return None
    if served.settings.rerank_url:
        return served.settings.rerank_model or "an endpoint"
    return MODEL if (models_folder(served.home) / MODEL).is_dir() else None


def _sizes(served: ServedHome) -> dict[str, Any] | None:
    try:
        with served.reading(_PATIENCE_S) as conn:
            largest = theme_sizes.theme_sizes(conn, theme_sizes.largest_themes(conn, _LARGEST))
            return {
                "growth": theme_sizes.growth(conn, _DAYS),
                "themes": [each | {"private": not served.chats.opens(each["theme"])} for each in largest],
            }
    except HermesPgvectorError:
        return None  # the state says what is wrong


def _checks(served: ServedHome) -> list[Check]:
    with borrowed_server(served.settings) as locate:
        return examine(served.settings, served.home, locate=locate)


def _health(database: Mapping[str, Any], checks: CachedAnswer | None) -> dict[str, Any]:
    """Return what is wrong: with the database as of now, with the rest as of the last run of `doctor`."""
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


def _line(problems: Sequence[Mapping[str, str]], checks: CachedAnswer | None) -> str:
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
