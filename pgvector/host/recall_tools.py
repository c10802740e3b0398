"""The two tools: what the model is told of them, and what they answer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from ..domain.commandline import typed
from ..domain.dates import WAYS, parse_when
from ..domain.errors import HermesPgvectorError, InvalidArgument
from ..domain.text import both_ends, clean
from ..domain.types import PAGES_END, Answer, Filters, Question, Scope, Store
from ..recall.render import as_result
from .tool_scopes import SCOPES, ToolScope

MAX_LIMIT = 50
MAX_OFFSET = PAGES_END - MAX_LIMIT
_ROLES = ("user", "assistant", "tool")
QUESTION_MAX_CHARS = 8000  # looked at in a pasted file of megabytes; the search itself takes less still
_DEFAULT_LIMIT = 5

_COMMON: dict[str, Any] = {
    "query": {"type": "string", "description": "What to look for, in plain words."},
    "scope": {"type": "string", "description": f"Where to look: {SCOPES}."},
    "theme": {"type": "string", "description": "Another theme to look in, by its name; instead of `scope`."},
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_LIMIT,
        "description": f"How many results; default {_DEFAULT_LIMIT}.",
    },
    "offset": {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "description": "How many to skip."},
    "since": {"type": "string", "description": f"Only what is from then on: {WAYS}."},
    "until": {
        "type": "string",
        "description": "Only what is from before then, or from within that day, week, month or year; like `since`.",
    },
    "explain": {"type": "boolean", "description": "Also say how each result was found."},
}

SCHEMAS: tuple[dict[str, Any], ...] = (
    {
        "name": "recall_memory",
        "description": (
            "Search durable memories (facts, preferences, decisions) by meaning and by words. "
            "Use it before saying that something is not known."
        ),
        "parameters": {
            "type": "object",
            "properties": _COMMON
            | {
                "target": {
                    "type": "string",
                    "enum": ["memory", "user"],
                    "description": "Only notes (memory) or only facts about the user (user); leave out for both.",
                },
            },
            "required": ["query"],
        },
    },
    {
        "name": "recall_conversation",
        "description": (
            "Search what was said in earlier conversation turns, by meaning and by words. "
            "Each result comes with the turns right before and after it."
        ),
        "parameters": {
            "type": "object",
            "properties": _COMMON
            | {
                "role": {
                    "type": "string",
                    "enum": list(_ROLES),
                    "description": "Only what the user, the assistant or a delegated task (tool) said.",
                },
            },
            "required": ["query"],
        },
    },
)
_STORES: dict[str, Store] = {"recall_memory": "memories", "recall_conversation": "turns"}

Recall = Callable[[Store, Question], Answer]
About = Callable[[Scope], str]


def answer(tool: str, args: object, here: ToolScope, recall: Recall, about: About) -> str:
    """Return the JSON text a tool call returns; what went wrong stands under `error`, with what to do about it.

    `about`: what to say of a scope in which nothing was found.
    """
    try:
        return _json(_answer(tool, args if isinstance(args, Mapping) else {}, here, recall, about))
    except HermesPgvectorError as exc:
        return error(str(exc))


def error(message: str) -> str:
    """Return a tool's error as JSON text."""
    return _json({"error": typed(message or "unknown error; run hermes-pgvector doctor")})


def _answer(tool: str, args: Mapping[str, Any], here: ToolScope, recall: Recall, about: About) -> dict[str, Any]:
    store = _STORES.get(tool)
    if store is None:
        raise InvalidArgument(f"there is no tool {tool!r} here; the tools are {', '.join(_STORES)}")
    text = both_ends(clean(args.get("query")), QUESTION_MAX_CHARS).strip()
    if not text:
        raise InvalidArgument("`query` is empty; say in plain words what to look for")
    limit, note = _limit(args.get("limit"))
    scope, narrowed = here.scope(store, args.get("scope"), args.get("theme"))
    asked = Question(
        text,
        scope,
        limit,
        here.deadline_s,
        _filters(store, args),
        offset=_offset(args.get("offset")),
        around=store == "turns",
        rerank=True,
    )
    found = recall(store, asked)
    explain = args.get("explain") in (True, "true", "True", 1)
    result: dict[str, Any] = {
        "results": [as_result(hit, text, explain=explain) for hit in found.hits],
        "count": len(found.hits),
        "scope": "all" if scope.kind == "all" else "session" if scope.kind == "session" else scope.theme,
        "mode": found.mode,
    }
    if found.reranked:
        result["reranked"] = True
    nothing = "" if found.hits else about(scope)
    if notes := "; ".join(filter(None, (note, narrowed, nothing))):
        result["note"] = notes
    return result


def _filters(store: Store, args: Mapping[str, Any]) -> Filters:
    since, until = parse_when(args.get("since"), "since"), parse_when(args.get("until"), "until", end=True)
    if since is not None and until is not None and since >= until:
        raise InvalidArgument("`since` is not before `until`: nothing can lie between them")
    if store == "memories":
        return Filters(target=one_of(args.get("target"), "target", ("memory", "user")), since=since, until=until)
    return Filters(role=one_of(args.get("role"), "role", _ROLES), since=since, until=until)


def _limit(given: object) -> tuple[int, str]:
    if given is None or given == "":
        return _DEFAULT_LIMIT, ""
    value = _number(given)
    if math.isnan(value) or value < 1:
        raise InvalidArgument(f"`limit` must be a whole number from 1 to {MAX_LIMIT}")
    if value > MAX_LIMIT:
        return MAX_LIMIT, f"`limit` was lowered to {MAX_LIMIT}, the most one call returns; use `offset` for more"
    return int(value), ""


def _offset(given: object) -> int:
    if given is None or given == "":
        return 0
    value = _number(given)
    if math.isnan(value) or not 0 <= value <= MAX_OFFSET:
        raise InvalidArgument(
            f"`offset` must be a whole number from 0 to {MAX_OFFSET}; to see more, ask a narrower question: "
            "other words, `since` and `until`, or another scope"
        )
    return int(value)


def _number(given: object) -> float:
    """Return the number an argument means, NaN when it means none."""
    try:
        return float(given) if isinstance(given, (int, float, str)) and not isinstance(given, bool) else math.nan
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def one_of(given: object, name: str, choices: tuple[str, ...]) -> str | None:
    """Return an argument that is one of `choices`, None where it is left out. Raises InvalidArgument."""
    if given is None or given == "":
        return None
    if isinstance(given, str) and given in choices:
        return given
    raise InvalidArgument(f"`{name}` must be one of {', '.join(choices)}, or left out")


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
