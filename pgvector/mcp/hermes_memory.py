"""The tools of the package hermes-memory 0.3.0, by their names, arguments and limits, over this memory.

A fact is a line of notation, such as `D[auth]: tokens last 7 days`. Hot are the newest 10,000 characters of the active
facts; cold are the older and the closed ones. A scope is closed by what a message says, or when nobody wrote to it.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..domain.errors import InvalidArgument
from ..domain.facts import parse_notation
from ..domain.fork_safety import fork_lock
from ..domain.gil import in_slices
from ..domain.lru import LruDict
from ..domain.text import clean, on_one_line
from ..host.recall_tools import MAX_LIMIT, MAX_OFFSET, whole
from ..store.fact_list import FactFilter, facts
from .client_memory import ClientMemory
from .tools import TEXT, Tool

FACT_MOST_CHARS: Final = 400
HOT_MOST_CHARS: Final = 10_000
SEARCH_MOST: Final = 20
_SILENT_TURNS: Final = 6  # without a write, after which a scope is closed
_READ_MOST: Final = 10_000  # facts
_FORGOTTEN_AT_ONCE: Final = 100
_SESSIONS_MOST: Final = 1000  # of one client, which may give them ever new names
_FILES: Final = {"memory": 2200, "user": 1375}  # characters that the host keeps
_CLOSING = re.compile(
    r"(?<!not )(?<!never )(?<!n't )\b(?:merged|deployed|shipped|released|finished|completed|closed|fixed|resolved|"
    r"it works|working now)\b",
    re.IGNORECASE,
)
_MARKS: Final = {"constraint": "C", "decision": "D", "value": "V", "question": "?"}
_HEADINGS: Final = {"C": "Constraints", "D": "Decisions", "V": "Values", "?": "Open questions", "": "Other memories"}
_HEAD = """[MEMORY_SPEC v1.0]

NOTATION
C[t]: constraint  D[t]: decision  V[t]: value
?[t]: unknown     ✓[t]: done      ~[t]: replaces what stood there

RULES
- call memory_write() for any constraint, decision, value or open question
- call memory_search() before answering on known topics
- call memory_tick(turn, message) on every user message
- call memory_reflect(topic) when the user asks about history
"""


@dataclass
class _Session:
    """The state of a client's session: its turn, its scope, and the turn in which each scope was last written to."""

    turn: int = 0
    scope: str | None = None
    written: dict[str, int] = field(default_factory=dict)


class _Sessions:
    """The sessions of each client's memory, by the names that it gives them."""

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._known: WeakKeyDictionary[ClientMemory, LruDict[str, _Session]] = WeakKeyDictionary()

    def of(self, memory: ClientMemory, args: Mapping[str, Any]) -> _Session:
        """Return the session that a call is about."""
        name = memory.stored_session(clean(args.get("session_id") or ""))
        with self._lock:
            known = self._known.setdefault(memory, LruDict(_SESSIONS_MOST))
            if (session := known.use(name)) is None:
                session = known[name] = _Session()
            return session


_sessions = _Sessions()


# -- writing


def _write(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    memory.check_writing()
    said = clean(args["content"]).strip()
    if parse_notation(said) is None:
        raise InvalidArgument(f"[MEMORY WRITE FAILED] not a fact: {said[:200]!r}. Write TYPE[target]: content")
    head, colon, content = said.partition("]:")
    cut = len(content.strip()) > FACT_MOST_CHARS
    if cut:
        said = f"{head}{colon} {content.strip()[: FACT_MOST_CHARS - 1]}…"
    session = _sessions.of(memory, args)
    scope = _label(args) or session.scope
    answer = memory.keep("remember", {"content": said, "sync": True} | ({"scope": scope} if scope else {}))
    session.scope = scope  # only now: the scope of a rejected write must not become that of the next one
    if session.scope:
        session.written[session.scope] = session.turn
        if said[0] in "✓✔":
            _close(memory, session, session.scope)
    lines = [f"stored: {answer['id']}" if "id" in answer else f"accepted: {answer.get('waits', 'on its way')}"]
    lines.append(f"gauge:  {_gauge(_facts(memory)):.0f}%")
    if cut:
        lines.append(f"[truncated] content exceeded {FACT_MOST_CHARS} chars and was shortened. Split it into several.")
    return "\n".join([*lines, *filter(None, [answer.get("note")])])


def _tick(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    session = _sessions.of(memory, args)
    session.turn = whole(args, "turn", 0, 2**31, 0)
    done = [scope for scope, turn in session.written.items() if session.turn - turn >= _SILENT_TURNS]
    if session.scope and session.scope not in done and _CLOSING.search(clean(args.get("message") or "")):
        done.append(session.scope)
    for scope in done:
        memory.check_writing()
        _close(memory, session, scope)
    lines = [f"turn: {session.turn}", f"gauge: {_gauge(_facts(memory)):.1f}%"]
    return "\n".join([*lines, *([f"cooled: {', '.join(done)}"] if done else [])])


def _close(memory: ClientMemory, session: _Session, scope: str) -> None:
    memory.keep("remember", {"content": f"✓[{scope}]", "sync": True})
    session.written.pop(scope, None)
    session.scope = None if session.scope == scope else session.scope


def _purge(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    memory.check_writing()
    days = whole(args, "older_than_days", 0, 36_500, -1)
    before = datetime.now(UTC) - timedelta(days=days) if days >= 0 else None
    wanted = FactFilter(states=("superseded", "archived"), scope=_label(args), before=before)
    ids = [fact["id"] for fact in _facts(memory, wanted)]
    for some in in_slices(ids, _FORGOTTEN_AT_ONCE):
        memory.keep("forget", {"ids": some})
    return f"purged: {len(ids)} fact(s)\ngauge: {_gauge(_facts(memory)):.1f}%"


def _optimize(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    try:
        threshold = float(args.get("threshold_pct") or 55)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("`threshold_pct` must be a number") from None
    held: dict[str, int] = dict.fromkeys(_FILES, 0)
    for target, text in memory.opened()[0].mirror.entries():
        held[target] += len(text)
    filled = {target: 100 * held[target] / most for target, most in _FILES.items()}
    line = f"MEMORY: {filled['memory']:.0f}%  USER: {filled['user']:.0f}%"
    if max(filled.values()) <= threshold:
        return f"no action needed\n{line}\n(both below {threshold:.0f}% threshold)"
    return f"{line}\nnothing was changed: an operator moves entries into the memory with hermes-pgvector relieve"


# -- reading


def _search(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    found = _found(memory, clean(args["query"]), _label(args), min(whole(args, "limit", 1, 10_000, 5), SEARCH_MOST))
    return "\n".join(map(_line, found)) or "no results"


def _reflect(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    topic = clean(args["topic"])
    found = _found(memory, topic, None, min(whole(args, "limit", 1, 10_000, SEARCH_MOST), SEARCH_MOST))
    if not found:
        return f"no facts found for topic: {topic}"
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for fact in found:
        groups[_MARKS.get(fact.get("kind", ""), "")].append(f"  {_line(fact)}")
    parts = ["\n".join([f"{heading}:", *groups[mark]]) for mark, heading in _HEADINGS.items() if mark in groups]
    return "\n\n".join([f"reflection: {topic}  ({len(found)} facts)", *parts])


def _found(memory: ClientMemory, query: str, scope: str | None, limit: int) -> Sequence[Mapping[str, Any]]:
    asked = {"query": query, "limit": limit, "scope": "current"}
    found: list[Mapping[str, Any]] = []
    if not scope:
        found = memory.recall("recall_memory", asked)["results"]
        return found
    # Results of other scopes stand between, and an answer is limited in size: read page by page, as long as any come.
    offset, ends = 0, time.monotonic() + memory.patience_s
    while len(found) < limit and offset <= MAX_OFFSET and time.monotonic() < ends:
        page = memory.recall("recall_memory", asked | {"limit": MAX_LIMIT, "offset": offset})["results"]
        if not page:
            break
        found += [hit for hit in page if hit.get("scope", "").casefold() == scope.casefold()]
        offset += len(page)
    return found[:limit]


def _status(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    hot = _hot(_facts(memory))
    used = _chars(hot)
    scopes = list(dict.fromkeys(fact["scope"] for fact in hot if fact["scope"]))
    lines = [_HEAD, f"[MEMORY {100 * used / HOT_MOST_CHARS:.1f}% ({used}/{HOT_MOST_CHARS})]", ""]
    lines += map(_line, hot) if hot else ["(no active facts)"]
    return "\n".join([*lines, *(["", f"active scopes: {on_one_line(', '.join(scopes))}"] if scopes else [])])


def _export(memory: ClientMemory, args: Mapping[str, Any]) -> str:
    status = args.get("status") or "all"
    if status not in ("active", "cold", "all"):
        raise InvalidArgument("`status` must be one of active, cold, all, or left out")
    known = _facts(memory, FactFilter(scope=_label(args)))
    hot = {fact["id"] for fact in _hot(known)}
    kept = [fact for fact in known if status == "all" or (fact["id"] in hot) == (status == "active")]
    lines = [*map(_notation, kept)] or ["(no facts to export)"]
    if len(known) == _READ_MOST:
        lines.append(f"[truncated] these are of the first {_READ_MOST:,} facts: hermes-pgvector export writes all.")
    return "\n".join(lines)


def _facts(memory: ClientMemory, wanted: FactFilter | None = None) -> list[dict[str, Any]]:
    memory.check_reading()
    memory.settle()
    runtime, context = memory.opened()
    with runtime.backend.connection(memory.patience_s) as conn:
        return facts(conn, context.place.memories.name, wanted or FactFilter(), limit=_READ_MOST)


def _hot(known: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the active facts, newest first, as far as there is room for them."""
    hot, left = [], HOT_MOST_CHARS
    for fact in known:
        if fact["state"] == "active" and (left := left - len(_notation(fact))) >= 0:
            hot.append(fact)
    return hot


def _gauge(known: Iterable[dict[str, Any]]) -> float:
    return 100 * _chars(_hot(known)) / HOT_MOST_CHARS


def _chars(hot: Iterable[Mapping[str, Any]]) -> int:
    return sum(len(_notation(fact)) for fact in hot)


def _line(fact: Mapping[str, Any]) -> str:
    return _notation(fact) + (f" [{fact['state']}]" if fact.get("state") not in (None, "active") else "")


def _notation(fact: Mapping[str, Any]) -> str:
    """Return a fact in notation, or a memory without kind or subject as it is, on one line that steers no terminal."""
    text = on_one_line(fact["content"])
    mark = _MARKS.get(fact.get("kind") or "")
    if mark is None or not fact.get("subject") or parse_notation(fact["content"]) is not None:
        return text
    return f"{mark}[{on_one_line(fact['subject'])}]: {text}"


def _label(args: Mapping[str, Any]) -> str | None:
    label = " ".join(clean(args.get("scope") or "").split())
    if "[" in label or "]" in label:  # such a scope could not be closed by a line of notation
        raise InvalidArgument("`scope` is a name without [ and ]")
    return label or None


# -- what a client is told

_NUMBER: Final = {"type": ["integer", "string"]}
_SCOPE: Final = {"scope": {"type": "string", "description": "a unit of work, such as auth-refactor"}}
_SESSION: Final = {"session_id": TEXT}
HERMES_MEMORY: Final = (
    Tool(
        "memory_write",
        "Write a fact",
        "Store a fact in notation, TYPE[target]: content. C constraint, D decision, V value, ? unknown, ✓ done, "
        "~ obsolete. Call it whenever a constraint, decision or value is established.",
        {"content": {"type": "string", "description": "such as C[db.id]: UUID mndtry"}, **_SCOPE, **_SESSION},
        _write,
        required=("content",),
    ),
    Tool(
        "memory_search",
        "Search facts",
        "Search facts by words and meaning, at most 20. Call it before answering on a topic with history.",
        {"query": TEXT, **_SCOPE, "limit": _NUMBER | {"default": 5}},
        _search,
        required=("query",),
        reads=True,
    ),
    Tool(
        "memory_tick",
        "Count a turn",
        "Count a user message, and close scopes that are done or silent. Call it on every user message.",
        {"turn": _NUMBER, "message": TEXT, **_SESSION},
        _tick,
        required=("turn",),
    ),
    Tool(
        "memory_status",
        "Hot facts",
        "Show how full the hot facts are, the active scopes, and all hot facts. Call it at the start of a session.",
        _SESSION,
        _status,
        reads=True,
    ),
    Tool(
        "memory_reflect",
        "Reflect on a topic",
        "Show the facts on a topic by their kind. Use it when the user asks what was decided.",
        {"topic": TEXT, "limit": _NUMBER | {"default": SEARCH_MOST}},
        _reflect,
        required=("topic",),
        reads=True,
    ),
    Tool(
        "memory_export",
        "Export facts",
        "Give all facts as notation, one a line.",
        {**_SCOPE, "status": {"type": "string", "enum": ["active", "cold", "all"], "default": "all"}},
        _export,
        reads=True,
    ),
    Tool(
        "memory_purge",
        "Purge facts",
        "Delete facts for good that others replaced or that were put away.",
        {**_SCOPE, "older_than_days": {"type": "integer"}},
        _purge,
        destroys=True,
    ),
    Tool(
        "memory_optimize",
        "Check the memory files",
        "Tell how full MEMORY.md and USER.md are. It changes nothing.",
        {"threshold_pct": {"type": ["number", "string"], "default": 55}, "dry_run": {"type": "boolean"}, **_SESSION},
        _optimize,
        reads=True,
    ),
)
