"""The two recall tools: what the model is told about them, and what they answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..domain.dates import Zone, parse_when
from ..domain.errors import InvalidArgument
from ..domain.facts import choice_of, says_yes
from ..domain.text import both_ends, clean
from ..domain.types import PAGES_END, TARGETS, Answer, Filters, Question, Store
from ..recall.render import folded, results_within, without_common
from .tool_scopes import ToolScope

MAX_LIMIT = 50
MAX_OFFSET = PAGES_END - MAX_LIMIT
_ROLES = ("user", "assistant", "tool")
QUESTION_MAX_CHARS = 8000  # read of a pasted file of megabytes; the search itself uses still less
_DEFAULT_LIMIT = 5

_SCHEMA: dict[str, Any] = {
    "query": {"type": "string"},
    "scope": {"type": "string", "description": "current (this theme), session, all, or a theme's name"},
    "limit": {"type": "integer", "default": _DEFAULT_LIMIT},
    "offset": {"type": "integer"},
    "since": {"type": "string", "description": "2026-05-03, 2026-05, 7d"},
    "until": {"type": "string"},
}


def _schema(name: str, description: str, **more: Any) -> dict[str, Any]:
    properties = _SCHEMA | more
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    return {"name": name, "description": description, "parameters": parameters}


SCHEMAS: tuple[dict[str, Any], ...] = (
    _schema(
        "recall_memory",
        "Search lasting facts, preferences and decisions. Use it before you say that something is not known.",
        target={"type": "string", "enum": list(TARGETS)},
    ),
    _schema(
        "recall_conversation",
        "Search earlier conversations. Use it for what was said, done or planned before, and when recall_memory finds "
        "nothing.",
        role={"type": "string", "enum": list(_ROLES)},
    ),
)
_LIMITING = ("role", "target", "since", "until")  # what leaves out rows that fit
_STORES: dict[str, Store] = {"recall_memory": "memories", "recall_conversation": "turns"}

Args = Mapping[str, Any]  # of a tool call
Result = dict[str, Any]  # of a tool call, which becomes JSON


def as_json(result: Result) -> str:
    """Return a tool's answer as JSON text."""
    return json.dumps(result, ensure_ascii=False, allow_nan=False)


def answer(tool: str, args: Args, here: ToolScope, *, turns: str) -> Result:
    """Return the result of a tool call; `turns` says how the caller finds what was said. Raises HermesPgvectorError."""
    store = _STORES[tool]
    text = query_in(args)
    if not text:
        raise InvalidArgument("`query` is empty; say in plain words what to look for")
    limit, lowered = _limit(args.get("limit"))
    offset = _offset(args.get("offset"))
    scope, narrowed = here.scope(store, args.get("scope"), args.get("theme"))
    deadline_s, filters = here.settings.recall_deadline_s, _filters(store, args, here.runtime.searcher.zone)
    asking = (here.session_id,) if scope.own else ()  # another theme may have a session of the same id
    asked = Question(text, scope, limit, deadline_s, filters, offset=offset, rerank=True, asking=asking)
    found = _found(here, store, asked)
    hits = found.hits
    max_tokens = here.settings.recall_max_tokens
    results = results_within(hits, text, max_tokens, explain=says_yes(args.get("explain")))
    common, results = without_common(results)
    answered: Result = {
        "results": results,
        "count": len(results),
        "scope": scope.theme if scope.kind == "theme" else scope.kind,
        **common,
        "mode": found.mode,
    }
    if found.reranked:
        answered["reranked"] = True
    cut = len(hits) - len(results)
    more = f"{cut} more did not fit: call again with `offset` {offset + len(results)}" if cut else ""
    nothing = "" if hits else here.about(scope) or _nothing(store, filters, offset, turns)
    if notes := "; ".join(filter(None, (lowered, narrowed, more, nothing))):
        answered["note"] = notes
    return answered


def query_in(args: Args) -> str:
    """Return the argument `query`, fit to be searched for: of a long one both ends; empty if it is left out."""
    return both_ends(clean(args.get("query")), QUESTION_MAX_CHARS).strip()


def _found(here: ToolScope, store: Store, asked: Question) -> Answer:
    """Return the requested memories or turns, with the turns around each; of an exchange, only one half."""
    if store == "memories" or asked.filters.role is not None:
        return here.recall(store, asked._replace(around=store == "turns"))
    end = asked.offset + asked.limit
    # Twice as many, because both halves of an exchange may be found.
    found = here.recall(store, asked._replace(offset=0, limit=min(2 * end, PAGES_END), around=True))
    return found._replace(hits=tuple(folded(found.hits)[asked.offset : end]))


def _nothing(store: Store, filters: Filters, offset: int, turns: str) -> str:
    """Return what to do when nothing was found."""
    if offset:
        return f"no more results from `offset` {offset} on"
    given = [f"`{name}`" for name in _LIMITING if getattr(filters, name) is not None]
    limited = f"nothing fits with {' and '.join(given)}: call again without to search the rest" if given else ""
    if store == "turns":
        return limited
    return f"{limited or 'no memory fits'}; {turns}"


def _filters(store: Store, args: Args, zone: Zone) -> Filters:
    since, until = period_in(args, zone)
    if since is not None and until is not None and since >= until:
        raise InvalidArgument("`since` is not before `until`: nothing can lie between them")
    if store == "memories":
        return Filters(target=one_of(args.get("target"), "target", TARGETS), since=since, until=until)
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


def whole(args: Args, name: str, low: int, high: int, default: int | None = None) -> int:
    """Return a whole number among the arguments, `default` if it is left out. Raises InvalidArgument."""
    given = args.get(name)
    if given in (None, "") and default is not None:
        return default
    if isinstance(given, (int, float, str)) and not isinstance(given, bool):
        try:
            value = int(given)
        except (ValueError, OverflowError):
            value = low - 1
        if low <= value <= high and (isinstance(given, str) or value == given):
            return value
    raise InvalidArgument(f"`{name}` must be a whole number from {low} to {high}")


def period_in(args: Args, zone: Zone) -> tuple[datetime | None, datetime | None]:
    """Return the arguments `since` and `until`. Raises InvalidArgument."""
    return parse_when(args.get("since"), "since", zone=zone), parse_when(
        args.get("until"), "until", end=True, zone=zone
    )


def one_of(given: object, name: str, choices: tuple[str, ...]) -> str | None:
    """Return an argument that is one of `choices`, None if it is left out. Raises InvalidArgument."""
    return None if given is None or given == "" else choice_of(given, name, choices)
