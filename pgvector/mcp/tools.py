"""The tools: what a client is told of each, and what it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..domain.chunks import estimate_tokens
from ..domain.errors import InvalidArgument
from ..domain.redaction import mask_places
from ..domain.text import clean
from ..domain.types import TARGETS
from ..host.recall_tools import MAX_LIMIT, one_of, period_in, whole
from ..host.tool_registry import (
    ALSO_TAKEN,
    PROFILE_DEFAULT_TOKENS,
    PROFILE_LEAST_TOKENS,
    PROFILE_MOST_TOKENS,
    not_taken,
    quoted,
)
from ..store import sessions as stored_sessions
from .client_memory import ClientMemory

Run = Callable[[ClientMemory, Mapping[str, Any]], Mapping[str, Any] | str]
_SESSIONS_DEFAULT = 20
_SESSIONS_MOST = 100
_TURNS_DEFAULT = 50
TURNS_MOST: Final = 500
_TURN_CHARS = 6000  # of one turn of a transcript
_LIST_TOKENS = 20_000  # of a list in one answer, counted high; clients refuse or cut what is much longer
_OF = ("both", "memories", "turns")


@dataclass(frozen=True)
class Tool:
    """A tool as a client lists it, and the function that runs when it is called and returns an object or plain text.

    `also` are arguments that it accepts besides those that the client is told of.
    """

    name: str
    title: str
    description: str
    takes: Mapping[str, Any]
    run: Run
    gives: Mapping[str, Any] | None = None
    required: tuple[str, ...] = ()
    reads: bool = False
    destroys: bool = False
    idempotent: bool = True
    also: tuple[str, ...] = ()

    def listed(self) -> dict[str, Any]:
        """Return the tool as `tools/list` gives it."""
        told: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": _object(self.takes, self.required, closed=not self.also),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.reads,
                "destructiveHint": self.destroys,
                "idempotentHint": self.idempotent,
                "openWorldHint": False,
            },
        }
        if self.gives is not None:
            told["outputSchema"] = _object(self.gives, ())
        return told

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise InvalidArgument that names arguments which are unknown to the tool, or required and missing."""
        if problem := not_taken(self.name, args, [*self.takes, *self.also]):
            raise InvalidArgument(problem)
        if missing := [name for name in self.required if args.get(name) in (None, "")]:
            raise InvalidArgument(f"{quoted(missing)} is missing or empty")


def _object(properties: Mapping[str, Any], required: tuple[str, ...], *, closed: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return schema | ({"additionalProperties": False} if closed else {})


TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer"}
_TARGET = {
    "type": "string",
    "enum": list(TARGETS),
    "description": "user: about the user; memory: everything else (the default)",
}
_RESULTS = {"type": "array", "items": {"type": "object"}}
_PART = _object(
    {"results": _RESULTS, "count": _WHOLE, "scope": TEXT, "mode": TEXT, "note": TEXT}, ("results", "count", "scope")
)
_BOUNDS = {
    "since": {"type": "string", "description": "only from then on: 2026-05-03, 2026-05, 7d"},
    "until": {"type": "string", "description": "only before then"},
}


# -- recall


RECALL_TOOLS: Final = {"memories": "recall_memory", "turns": "recall_conversation"}
_ONLY = {"target": "memories", "role": "turns"}  # the store that an argument is about


def _recall(memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any]:
    of = one_of(args.get("of"), "of", _OF) or "both"
    about = {store for name, store in _ONLY.items() if args.get(name)} | ({of} - {"both"})
    if len(about) > 1:
        raise InvalidArgument("`target` is for memories and `role` for turns: leave one of them out")
    rest = {name: value for name, value in args.items() if name != "of"}
    found, failed = searched(memory, about or RECALL_TOOLS.keys(), rest)
    scope = next(iter(found.values()))["scope"]
    return found | {store: {"results": [], "count": 0, "scope": scope, "note": note} for store, note in failed.items()}


def searched(
    memory: ClientMemory, stores: Collection[str], args: Mapping[str, Any]
) -> tuple[dict[str, Mapping[str, Any]], dict[str, str]]:
    """Return what was found in each of the stores, and a note for each that could not be searched.

    One of the two tables may be locked, as while it is compacted. Raises InvalidArgument if no store can be searched.
    """
    found: dict[str, Mapping[str, Any]] = {}
    failed: dict[str, InvalidArgument] = {}
    for store, tool in RECALL_TOOLS.items():
        if store in stores:
            try:
                found[store] = memory.recall(tool, args)
            except InvalidArgument as exc:
                failed[store] = exc
    if not found:
        raise next(iter(failed.values()))
    return found, {store: f"{store} were not searched: {mask_places(str(why))}" for store, why in failed.items()}


RECALL = Tool(
    "recall",
    "Recall",
    "Search what is remembered: lasting facts, preferences and decisions (memories) and earlier conversations (turns). "
    "Use it before you say that something is not known, and before work that may have been discussed before.",
    {
        "query": {"type": "string", "description": "what to look for, in plain words"},
        "of": {"type": "string", "enum": list(_OF), "default": "both"},
        "scope": {"type": "string", "description": "current (this theme), session, all, or a theme's name"},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 5},
        "offset": {"type": "integer", "minimum": 0},
        **_BOUNDS,
        "target": _TARGET | {"description": "memories only: about the user, or everything else"},
        "role": {"type": "string", "enum": ["user", "assistant", "tool"], "description": "turns only"},
    },
    _recall,
    gives={"memories": _PART, "turns": _PART},
    required=("query",),
    reads=True,
    also=ALSO_TAKEN["recall_memory"],
)


# -- remember, forget, profile


def _writing(tool: str) -> Run:
    """Return a function that calls the provider's tool of this name, if this access may write."""

    def run(memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any]:
        memory.check_writing()
        return memory.keep(tool, args)

    return run


REMEMBER = Tool(
    "remember",
    "Remember",
    "Keep a fact, preference or decision for good, as one statement that stands by itself. Use it when something "
    "should be known in later sessions.",
    {"content": {"type": "string", "description": "one statement"}, "target": _TARGET},
    _writing("remember"),
    gives={"state": TEXT, "theme": TEXT, "target": TEXT, "content": TEXT, "id": _WHOLE, "note": TEXT},
    required=("content",),
    also=ALSO_TAKEN["remember"],
)


FORGET = Tool(
    "forget",
    "Forget",
    "Remove memories for good, when asked to forget or to correct something: by the id of recall at once; `query` only "
    "shows what would go, and a token to `confirm` it with.",
    {
        "id": _WHOLE,
        "ids": {"type": "array", "items": _WHOLE},
        "query": TEXT,
        "target": _TARGET | {"description": "with `query`: only memories of that kind"},
        "confirm": {"type": "string", "description": "the token of a call with `query`"},
    },
    _writing("forget"),
    gives={"forgotten": _RESULTS, "would_forget": _RESULTS, "count": _WHOLE, "theme": TEXT, "confirm": TEXT},
    destroys=True,
    also=ALSO_TAKEN["forget"],
)

PROFILE = Tool(
    "profile",
    "Profile",
    "Show what is known of the user, and the newest notes. Use it at the start of a session.",
    {
        "target": _TARGET | {"description": "only what is about the user, or only the rest"},
        "max_tokens": {
            "type": "integer",
            "minimum": PROFILE_LEAST_TOKENS,
            "maximum": PROFILE_MOST_TOKENS,
            "default": PROFILE_DEFAULT_TOKENS,
        },
    },
    lambda memory, args: memory.keep("memory_profile", args),
    gives={"theme": TEXT, "user": _RESULTS, "memory": _RESULTS, "known": {"type": "object"}, "note": TEXT},
    reads=True,
)


# -- sessions, record_turn


def paged(rows: Sequence[Mapping[str, Any]], limit: int, offset: int) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return as many of the rows as one answer takes, at least one, and a `note` if there may be more than these."""
    shown: list[Mapping[str, Any]] = []
    left = _LIST_TOKENS
    for row in rows:
        left -= estimate_tokens(json.dumps(row, ensure_ascii=False, default=str))
        if shown and left < 0:
            break
        shown.append(row)
    if not shown or (len(shown) == len(rows) and len(rows) < limit):
        return shown, {}
    return shown, {"note": f"there may be more: call again with `offset` {offset + len(shown)}"}


def _sessions(memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any]:
    memory.check_reading()
    runtime, context = memory.opened()
    theme, offset = context.theme.name, whole(args, "offset", 0, 1_000_000, 0)
    session = clean(args.get("session") or "").strip()
    if session:
        return _said(memory, session, whole(args, "limit", 1, TURNS_MOST, _TURNS_DEFAULT), offset)
    limit = whole(args, "limit", 1, _SESSIONS_MOST, _SESSIONS_DEFAULT)
    memory.settle()
    since, until = period_in(args, runtime.searcher.zone)
    with runtime.backend.connection(memory.patience_s) as conn:
        found = stored_sessions.sessions(conn, theme, limit=limit, offset=offset, since=since, until=until)
    shown, note = paged([plain_row(row) for row in found], limit, offset)
    return {"theme": theme, "sessions": shown, "count": len(shown)} | note


def _said(memory: ClientMemory, session: str, limit: int, offset: int) -> Mapping[str, Any]:
    found = transcript(memory, session, limit, offset)
    shown, note = paged(found["turns"], limit, offset)
    if not shown:
        none = "no such session has turns in this theme: call sessions without `session` to see which have"
        note = {"note": "this theme has no more turns of that session" if offset else none}
    return found | {"turns": shown, "count": len(shown)} | note


def transcript(memory: ClientMemory, session: str, limit: int, offset: int = 0) -> dict[str, Any]:
    """Return what was said in a session of the memory's theme, in order."""
    runtime, context = memory.opened()
    theme, session = context.theme.name, memory.stored_session(session)
    memory.settle()
    with runtime.backend.connection(memory.patience_s) as conn:
        rows = list(stored_sessions.transcript(conn, theme, session, limit=limit, offset=offset))
    turns = [_turn(row) for row in rows]
    return {"theme": theme, "session_id": session, "turns": turns, "count": len(turns)}


def _turn(row: Mapping[str, Any]) -> dict[str, Any]:
    content = row["content"]
    shown = {"id": row["id"], "role": row["role"], "date": row["ts"].isoformat(timespec="seconds")}
    if len(content) > _TURN_CHARS:
        return shown | {"content": content[:_TURN_CHARS] + "…", "excerpt_of_chars": len(content)}
    return shown | {"content": content}


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a row that hold something, times as text."""
    return {
        name: value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
        for name, value in row.items()
        if value is not None
    }


SESSIONS = Tool(
    "sessions",
    "Sessions",
    "List the sessions of this theme, those that spoke last first, or read one in full with `session`.",
    {
        "session": {"type": "string", "description": "the id of a session: what was said in it"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": TURNS_MOST,
            "description": f"at most {_SESSIONS_MOST} sessions, or {TURNS_MOST} turns of one",
        },
        "offset": {"type": "integer", "minimum": 0},
        **_BOUNDS,
    },
    _sessions,
    gives={
        "theme": TEXT,
        "sessions": _RESULTS,
        "session_id": TEXT,
        "turns": _RESULTS,
        "count": _WHOLE,
        "note": TEXT,
    },
    reads=True,
)


def _record_turn(memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any]:
    memory.check_writing()
    user, assistant = clean(args.get("user") or ""), clean(args.get("assistant") or "")
    if not user.strip() and not assistant.strip():
        raise InvalidArgument("give `user`, what was asked, and `assistant`, what was answered")
    reason = memory.record_turn(user, assistant, clean(args.get("session") or ""))
    return {"state": "skipped", "note": reason} if reason else {"state": "accepted"}


RECORD_TURN = Tool(
    "record_turn",
    "Record a turn",
    "Keep what was said in this conversation: once after each answer, where no hook does it.",
    {
        "user": {"type": "string", "description": "what the user wrote"},
        "assistant": {"type": "string", "description": "what was answered"},
        "session": {"type": "string", "description": "a name of the conversation (default: this connection)"},
    },
    _record_turn,
    gives={"state": TEXT, "note": TEXT},
    required=(),
)

TOOLS: Final = (RECALL, REMEMBER, FORGET, PROFILE, SESSIONS, RECORD_TURN)
