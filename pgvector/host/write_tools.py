"""The tools that an operator may switch on: remember, forget and memory_profile."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..capture.sanitize import MASKED_NOTE
from ..domain.chunks import estimate_tokens
from ..domain.errors import DeadlineExceeded, InvalidArgument, StoreUnavailable
from ..domain.facts import Structure, notes_on, says_yes, structure_of
from ..domain.fork_safety import at_import, fork_lock
from ..domain.operations import ForgetMemories, Operation, RememberMemory
from ..domain.text import clean_json, digest
from ..domain.types import MEMORY_FILES, TARGETS, Filters, Question, Scope
from ..store import memories
from ..store.memories import Entry
from .hook_operations import within_limit
from .recall_tools import Args, Result, one_of, query_in, whole
from .session_context import Policy, SessionContext
from .tool_registry import (
    PREVIEW_MOST,
    PROFILE_DEFAULT_TOKENS,
    PROFILE_LEAST_TOKENS,
    PROFILE_MOST_TOKENS,
    STRUCTURE_TAKEN,
)

if TYPE_CHECKING:
    from ..runtime.process import Runtime

_METADATA_MOST_CHARS = 20_000  # as JSON; each name is masked with its value, and every search of other themes reads it
_PREVIEW_DEFAULT = 5
_IDS_MOST = 100
_PROFILE_ROWS = 200  # of each target; more would not fit
_PROFILE_CHARS = 600  # of one memory
_SETTLE_S = 1.0  # how long `forget` waits for what this process has not written yet
_LEAST_S = 0.1  # for a statement, even past the deadline
# What says where a row comes from, and so who wrote it and who may read it, also where a session lacks some of it.
_ORIGIN = frozenset(memories.WHO) | {
    "chat_type", "thread", "client", "parent_session_id", "child_session_id", "delegation",
}  # fmt: skip
LASTS_S = 600.0  # how long a token is valid
_TOKENS_MOST = 1000  # kept at once; a client may ask and never confirm
_NOT_CURRENT = (
    "it is not current: another memory of this subject was said later, or said on a machine with another clock"
)
_TURNS_STAY = (
    "messages in which it was said stay and can be recalled: only the operator deletes them: hermes-pgvector forget"
)


class _Pending(NamedTuple):
    realm: object
    entries: tuple[Entry, ...]
    ends: float


class Confirmations:
    """Tokens that confirm a dangerous call: valid once, for a limited time, for exactly what was shown.

    A `realm` identifies one theme of one database.
    """

    def __init__(self) -> None:
        self._lock = fork_lock()
        self._pending: dict[str, _Pending] = {}

    def issue(self, realm: object, entries: tuple[Entry, ...]) -> str:
        """Return a token for forgetting `entries` within LASTS_S seconds."""
        now = time.monotonic()
        token = secrets.token_hex(8)
        with self._lock:
            self._pending = {key: held for key, held in self._pending.items() if held.ends > now}
            if len(self._pending) >= _TOKENS_MOST:
                del self._pending[next(iter(self._pending))]
            self._pending[token] = _Pending(realm, entries, now + LASTS_S)
        return token

    def spend(self, realm: object, token: str) -> tuple[Entry, ...]:
        """Return what `token` was issued for, once; nothing if it is unknown, used, expired or of another realm."""
        with self._lock:
            held = self._pending.get(token)
            if held is None or held.realm != realm:
                return ()
            del self._pending[token]
        return held.entries if held.ends > time.monotonic() else ()


_confirmations = Confirmations()


@dataclass(frozen=True)
class WriteContext:
    """The context of a tool call, and its deadline (`ends`, monotonic). `may_write` counts a refusal."""

    runtime: Runtime
    context: SessionContext
    policy: Policy
    provenance: Mapping[str, str]
    may_write: Callable[[], bool]
    submit: Callable[[Operation], bool]
    ends: float

    @property
    def theme(self) -> str:
        """Return the theme of the session's memories."""
        return self.context.place.memories.name

    @property
    def left_s(self) -> float:
        """Return how long the rest of the call may take."""
        return max(_LEAST_S, self.ends - time.monotonic())

    @property
    def realm(self) -> object:
        """Return what distinguishes this theme from one of the same name in another database."""
        return (self.runtime.settings.dsn, self.runtime.home, self.theme)

    def check_writing(self) -> None:
        """Raise InvalidArgument if this kind of run does not write."""
        if not self.may_write():
            raise InvalidArgument(
                f"a run of the kind {self.context.agent_context!r} does not change memory (setting `write_contexts`)"
            )

    def check_reading(self) -> None:
        """Raise InvalidArgument if recall is off in this theme."""
        self.policy.check_recall(self.context.place, self.runtime.counts)


def answer(tool: str, args: Args, context: WriteContext) -> Result:
    """Return the result of a tool call. Raises HermesPgvectorError."""
    return {"remember": _remember, "forget": _forget, "memory_profile": _profile}[tool](args, context)


# -- remember


def _remember(args: Args, context: WriteContext) -> Result:
    context.check_writing()
    runtime, keep = context.runtime, context.policy.keep
    said = within_limit(args.get("content"), keep.max_chars, runtime.counts).strip()
    if not said:
        raise InvalidArgument("`content` is empty; say in plain words what to remember")
    target = one_of(args.get("target"), "target", TARGETS) or "memory"
    content = keep.text(said, runtime.counts)
    given = _given_metadata(args, context)
    structure = _structure(args, context)
    metadata = given | dict(context.provenance) | {"source": "remember"}
    op = RememberMemory(
        theme=context.theme, at=time.time(), target=target, content=content, structure=structure,
        metadata=metadata, given=given,
    )  # fmt: skip
    notes = [MASKED_NOTE] * (content != said) + notes_on(content, structure)
    result: Result = {"state": "accepted"}
    if says_yes(args.get("sync")):
        result = _delivered(op, context, notes)
    elif not context.submit(op):
        raise InvalidArgument("the memory was not accepted: the backlog of writes has reached its limit")
    result |= {"theme": context.theme, "target": target, "content": content}
    return result | ({"note": "; ".join(notes)} if notes else {})


def _structure(args: Args, context: WriteContext) -> Structure:
    """Return the attributes that the call gives the memory besides its text. Raises InvalidArgument."""
    given = {name: args[name] for name in STRUCTURE_TAKEN if name in args}
    kept = context.policy.keep.structure(given, context.runtime.counts)
    said = structure_of(kept, context.runtime.searcher.zone)
    if said.replaces is not None:
        # Without a database the id cannot be checked; the write is accepted all the same.
        with contextlib.suppress(StoreUnavailable, DeadlineExceeded):
            _named([said.replaces], context, "stored")
    return said


def _given_metadata(args: Args, context: WriteContext) -> Result:
    """Return the caller's metadata, masked, without what only we may set: where a row comes from."""
    metadata = args.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidArgument("`metadata` must be an object of names and values, or left out")
    if len(json.dumps(clean_json(metadata), ensure_ascii=False)) > _METADATA_MOST_CHARS:
        raise InvalidArgument(
            f"`metadata` is longer than {_METADATA_MOST_CHARS:,} characters as JSON; say what is long in `content`"
        )
    kept = context.policy.keep.metadata(metadata or {}, context.runtime.counts)
    return {key: value for key, value in kept.items() if key not in _ORIGIN}


def _delivered(op: RememberMemory, context: WriteContext, notes: list[str]) -> Result:
    """Submit the write, wait for it, and return its state; add to `notes` if the memory is not current."""
    state = context.runtime.writer.deliver(op, context.left_s)
    if state == "rejected":
        raise InvalidArgument("Postgres rejects this text; an operator sees why: hermes-pgvector spool list")
    if state == "stored":
        with context.runtime.backend.connection(context.left_s) as conn:
            found = memories.id_of(conn, op.theme, op.target, op.content)
            if found is not None and memories.is_superseded(conn, op.theme, found):
                notes.append(_NOT_CURRENT)
        if found is not None:
            return {"state": "stored", "id": found}
    where = "in the memory of this process" if context.runtime.writer.in_memory() else "on disk"
    limit_s = context.runtime.settings.recall_deadline_s
    away = context.runtime.backend.problem is not None  # then nothing was waited for
    why = "the database is out of reach" if away else f"it was not in the database within {limit_s:g} s"
    return {"state": "accepted", "waits": f"{where}: {why}"}


# -- forget


def _forget(args: Args, context: WriteContext) -> Result:
    context.check_writing()
    context.check_reading()
    ids, query, token = _ids(args), query_in(args), args.get("confirm")
    if token not in (None, ""):
        shown = _confirmations.spend(context.realm, token.strip() if isinstance(token, str) else "")
        if not shown:
            raise InvalidArgument("`confirm` is not a valid token: call forget with `query` again")
        return _forgotten(_chosen(shown, ids), context)
    if ids and query:
        raise InvalidArgument("give `ids` or `query`, not both")
    if not ids and not query:
        raise InvalidArgument("say what to forget: `id` or `ids` as recall gave them, or a `query`")
    # A write that was just accepted should be found, and not be applied after its own removal.
    context.runtime.writer.flush_own(min(_SETTLE_S, context.left_s / 2))
    return _forgotten(_named(ids, context, "removed"), context) if ids else _preview(query, args, context)


def _chosen(shown: Sequence[Entry], ids: Sequence[int]) -> list[Entry]:
    if strange := set(ids) - {entry.id for entry in shown}:
        raise InvalidArgument(f"{_listed(strange)} was not among what was shown; nothing was removed: ask again")
    return [entry for entry in shown if not ids or entry.id in ids]


def _named(ids: Sequence[int], context: WriteContext, done: str) -> list[Entry]:
    with context.runtime.backend.connection(context.left_s) as conn:
        found = memories.entries(conn, context.theme, ids)
    if missing := set(ids) - {entry.id for entry in found}:
        raise InvalidArgument(f"this theme has no memory with the id {_listed(missing)}; nothing was {done}")
    return found


def _preview(query: str, args: Args, context: WriteContext) -> Result:
    limit = whole(args, "limit", 1, PREVIEW_MOST, _PREVIEW_DEFAULT)
    asked = Question(
        query,
        Scope("theme", context.theme),
        limit,
        context.left_s,
        Filters(target=one_of(args.get("target"), "target", TARGETS)),
    )
    searcher, settings = context.runtime.searcher, context.runtime.settings
    with at_import:
        from ..recall.relevance import worth_showing
    found = searcher.recall(["memories"], asked).hits
    ids = [hit.id for hit in worth_showing(searcher, found, query, settings, time.monotonic() + context.left_s)]
    with context.runtime.backend.connection(context.left_s) as conn:
        by_id = {entry.id: entry for entry in memories.entries(conn, context.theme, ids)}
    entries = tuple(by_id[each] for each in ids if each in by_id)
    result: Result = {"would_forget": [_shown(entry) for entry in entries], "count": len(entries)}
    if not entries:
        return result | {"theme": context.theme, "note": "nothing fits, and nothing was removed"}
    note = "nothing was removed yet: call forget with `confirm`, and with `ids` to remove only some of these"
    token = _confirmations.issue(context.realm, entries)
    return result | {"theme": context.theme, "confirm": token, "expires_in_s": int(LASTS_S), "note": note}


def _forgotten(entries: Sequence[Entry], context: WriteContext) -> Result:
    runtime = context.runtime
    # The entries as they are read in: with secrets masked. Nothing of this is stored, so nothing is counted.
    in_files = {(target, context.policy.keep.text(text, Counter())) for target, text in runtime.mirror.entries()}
    who = {**context.provenance, "source": "forget"}
    with runtime.backend.connection(context.left_s) as conn:
        earlier = memories.earlier(conn, context.theme, [entry.id for entry in entries])
        done = memories.forget(conn, context.theme, entries, in_files, runtime.mirror.origin, who)
        elsewhere = memories.held_elsewhere(conn, context.theme, entries, runtime.mirror.origin)
    runtime.backend.wrote([context.theme])
    if not done:
        raise InvalidArgument("a memory has changed since it was shown; nothing was removed: look again")
    runtime.counts["memories_forgotten"] += len(entries)
    # By digests, in the order of this process's writes: so it stays forgotten if the server loses the removal.
    removals = tuple((entry.target, digest(entry.content).hex()) for entry in entries)
    context.submit(ForgetMemories(theme=context.theme, at=time.time(), removals=removals, who=who))
    standing = {entry.target for entry in entries if (entry.target, entry.content) in in_files}
    note = "; ".join(_what_stays(standing, earlier, elsewhere=elsewhere))
    return {"forgotten": list(map(_shown, entries)), "count": len(entries), "theme": context.theme, "note": note}


def _what_stays(standing: Collection[str], earlier: Sequence[int], *, elsewhere: bool) -> Iterator[str]:
    """Yield where what was forgotten still is: in files of this host or of others, in earlier memories, in turns."""
    if standing:
        names = " and ".join(MEMORY_FILES[target] for target in sorted(standing))
        yield (
            f"it is also in this host's {names}, and so in every prompt of the profile: "
            "remove it there with the memory tool, or by hand"
        )
    if earlier:
        yield f"what it took the place of stays, hidden: to remove it too, call forget with `ids` {earlier}"
    if elsewhere:
        yield memories.IN_OTHER_FILES
    yield _TURNS_STAY


def _shown(entry: Entry) -> Result:
    cut = len(entry.content) > _PROFILE_CHARS
    content = entry.content[:_PROFILE_CHARS] + "…" if cut else entry.content
    shown = {"id": entry.id, "target": entry.target, "date": entry.at.isoformat(timespec="seconds"), "content": content}
    return shown | ({"excerpt_of_chars": entry.chars} if cut or entry.chars > len(entry.content) else {})


# -- memory_profile


def _profile(args: Args, context: WriteContext) -> Result:
    context.check_reading()
    budget = whole(args, "max_tokens", PROFILE_LEAST_TOKENS, PROFILE_MOST_TOKENS, PROFILE_DEFAULT_TOKENS)
    only = one_of(args.get("target"), "target", TARGETS)
    targets = (only,) if only else ("user", "memory")
    with context.runtime.backend.connection(context.left_s) as conn:
        totals = memories.totals(conn, context.theme)
        known = {
            target: memories.newest(conn, context.theme, target, limit=_PROFILE_ROWS, chars=_PROFILE_CHARS + 1)
            for target in targets
        }
    lines = {target: [_without_target(entry) for entry in known[target]] for target in targets}
    result: Result = {"theme": context.theme, **{target: [] for target in targets}}
    result |= {"known": {target: totals[target] for target in targets}}
    left = budget - estimate_tokens(json.dumps(result)) - 40  # which the note takes
    result |= _within(lines, left)
    missing = sum(totals[target] - len(result[target]) for target in targets)
    if missing:
        result["note"] = f"{missing} more are known: recall finds them"
    return result


def _without_target(entry: Entry) -> Result:
    shown = _shown(entry)
    del shown["target"]
    return shown


def _within(lines: Mapping[str, list[Result]], tokens: int) -> dict[str, list[Result]]:
    """Return the newest lines of each target that fit: half for each, plus what the other does not need."""
    chosen: dict[str, list[Result]] = {}
    by_need = sorted(lines, key=lambda target: sum(map(_cost, lines[target])))
    for number, target in enumerate(by_need):
        share = tokens // (len(by_need) - number)
        chosen[target] = []
        for line in lines[target]:
            if (cost := _cost(line)) > share:
                continue  # a shorter one may fit
            share, tokens = share - cost, tokens - cost
            chosen[target].append(line)
    return chosen


def _cost(line: Mapping[str, Any]) -> int:
    return estimate_tokens(json.dumps(line, ensure_ascii=False)) + 1


# -- arguments


def _ids(args: Args) -> list[int]:
    given = args.get("ids")
    many = list(given) if isinstance(given, (list, tuple)) else [] if given in (None, "") else [given]
    if args.get("id") not in (None, ""):
        many.append(args["id"])
    ids = list(dict.fromkeys(whole({"id": each}, "id", 1, 2**63 - 1) for each in many))
    if len(ids) > _IDS_MOST:
        raise InvalidArgument(f"`ids` may name {_IDS_MOST} memories at most")
    return ids


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))
