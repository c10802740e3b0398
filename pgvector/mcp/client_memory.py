"""The memory of one client in one theme and session: the provider, called as hermes-agent would call it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..domain.errors import HermesPgvectorError, InvalidArgument, StoreUnavailable
from ..domain.fork_safety import fork_lock
from ..domain.lru import LruDict
from ..domain.redaction import mask_identifiers
from ..domain.text import clean
from ..domain.theme_access import Reach, SharedChats
from ..host.hook_operations import Turn
from ..host.provider import PgvectorMemoryProvider
from ..host.recall_tools import Args, Result
from ..host.session_context import SessionContext, profile_of
from ..host.sought import sought_before_turn
from ..recall.hot import HotLimits
from ..recall.prefetch import MessagePlace, prefetch_block
from ..recall.transcripts import Transcripts
from ..runtime.process import Runtime
from .access import Place

_OPEN_MOST = 256  # clients' memories kept ready
_SETTLE_S = 1.0  # how long a reader of sessions waits for what this process has not written yet
_NOT_READY = "memory is not ready: see what the server wrote to stderr, or run hermes-pgvector doctor"


class ClientMemory(PgvectorMemoryProvider):
    """A provider whose tools an MCP client calls, all of them whatever the setting `tools` says."""

    FINDS_TURNS = "turns are what was said"  # in the same answer

    def __init__(self, home: Path, place: Place) -> None:
        super().__init__()
        self._access = place.access
        self.initialize(
            place.session, hermes_home=str(home), gateway_session_key=place.theme, agent_identity=profile_of(home)
        )
        if self._context is None:
            raise StoreUnavailable(_NOT_READY)
        # Whatever kept the session out of its token's theme, it would read and write the default theme instead.
        if place.access.themes and self._context.place.memories.source != "session_key":
            self.shutdown()
            raise InvalidArgument(f"allowed_themes does not name {place.theme!r}, the theme of this token")
        client = mask_identifiers(clean(place.client), self._settings.identity_key)
        scope = {**self._context.scope, "client": client or "mcp"}
        self._context = self._context._replace(scope=scope)
        self.opened()[0].counts["mcp_servers"] = 1  # in this process, for `status`
        if place.access.themes:
            shared = SharedChats(self._settings.shared_chats, self._settings.identity_key)
            self._policy = self._policy._replace(reach=Reach.of_token(place.access.themes, self._policy.rules, shared))

    def _reconcile(self, runtime: Runtime, context: SessionContext) -> None:
        """Leave the host's memory files to the host."""

    def _may_write(self, runtime: Runtime, context: SessionContext) -> bool:
        return not self._access.read_only and super()._may_write(runtime, context)

    def opened(self) -> tuple[Runtime, SessionContext]:
        """Return the runtime, and the session's context with its themes. Raises StoreUnavailable."""
        ready = self._ready()
        if ready is None:
            raise StoreUnavailable(_NOT_READY)
        return ready

    @property
    def session_id(self) -> str:
        """Return the name of the session, as it is stored."""
        return self._session_id

    def stored_session(self, name: str) -> str:
        """Return the stored name of any session; a name that is given in this form stays as it is."""
        return self._session_name(name)

    def count_call(self) -> None:
        """Count a call of a tool, for `status`."""
        self.opened()[0].counts["mcp_calls"] += 1

    def recall(self, tool: str, args: Args) -> Result:
        """Return the answer of a tool that recalls. Raises InvalidArgument with what went wrong."""
        return self._answered(self._recall, tool, args)

    def keep(self, tool: str, args: Args) -> Result:
        """Return the answer of a tool that writes, removes or lists memories. Raises as `recall`."""
        return self._answered(self._keep, tool, args)

    def _answered(self, does: Callable[[str, Args, Runtime, SessionContext], Result], tool: str, args: Args) -> Result:
        ready = self.opened()
        try:
            return does(tool, args, *ready)
        except HermesPgvectorError as exc:
            raise InvalidArgument(str(exc)) from exc

    def check_writing(self) -> None:
        """Raise InvalidArgument if this access may not write."""
        if self._access.read_only:
            raise InvalidArgument("this token may only read")

    def check_reading(self) -> None:
        """Raise InvalidArgument if recall is off in this theme."""
        runtime, context = self.opened()
        self._policy.check_recall(context.place, runtime.counts)

    def resolved(self, theme: str) -> str:
        """Return the stored name of the theme that a name means."""
        return self._policy.rules.resolve_name(theme)

    def owns(self, theme: str) -> bool:
        """Return whether this is the theme of the session's memories."""
        return self.resolved(theme) == self.opened()[1].place.memories.name

    def may_read(self, theme: str) -> bool:
        """Return whether a tool may name this theme as its scope."""
        return self._policy.reach.allows(theme, chat=False)

    def hot_block(self, max_tokens: int) -> str:
        """Return the hot block of the theme, see recall/hot.py; "" if it is empty or recall is off."""
        runtime, context = self.opened()
        limits = HotLimits.of(self._settings)._replace(tokens=min(self._settings.hot_tokens, max_tokens))
        if not limits.tokens or self._policy.silences(context.place, runtime.counts):
            return ""
        memories, turns = context.place.memories.name, context.place.turns.name
        return runtime.searcher.hot(memories, turns, limits, deadline_s=self.patience_s).text

    def fitting(self, message: str, max_tokens: int) -> str:
        """Return a block of what fits the first message of a conversation; "" if nothing does or recall is off.

        What the client was shown before, or still has of the conversation, is not known here: none of it is left out.
        """
        runtime, context = self.opened()
        settings, policy = self._settings, self._policy
        text, why_not = sought_before_turn(message, settings, policy, context.place, runtime.counts)
        if why_not:
            return ""
        settings = replace(settings, prefetch_max_tokens=min(settings.prefetch_max_tokens, max_tokens))
        where = MessagePlace(context.theme.name, uuid.uuid4().hex)
        try:
            block = prefetch_block(runtime.searcher, Transcripts(runtime.said), text, where, settings)
        except HermesPgvectorError:
            runtime.counts["prefetch_failures"] += 1  # the store has logged once why
            return ""
        runtime.counts.update(prefetches=1, prefetches_found=bool(block))
        return block

    def record_turn(self, user: str, assistant: str, session: str) -> str:
        """Accept a finished turn; return why nothing of it is stored, or "" if something is. Raises InvalidArgument."""
        runtime, context = self.opened()
        if not self._settings.sync_turns:
            raise InvalidArgument("turns are not stored here (setting `sync_turns`)")
        if not self._may_write(runtime, context):
            raise InvalidArgument("this kind of run does not write (setting `write_contexts`)")
        name = self._session_name(session) or self._session_id
        place = (context.theme.name, name)
        turn = Turn(place, context.provenance(name, ""), self._policy.keep, self._settings.turn_min_chars)
        op = turn.operation(user, assistant, runtime.counts, runtime.said.generation(place))
        if op is None:
            return "nothing of it is worth keeping: it is too short, or not a conversation"
        if not self._submit(runtime, op):
            raise InvalidArgument("the turn was not accepted: the backlog of writes has reached its limit")
        runtime.said.add(place, op.at, op.op_id)
        return ""

    def settle(self) -> None:
        """Wait a moment until what was just recorded here is in Postgres."""
        self.opened()[0].writer.flush_own(min(_SETTLE_S, self.patience_s / 2))

    @property
    def patience_s(self) -> float:
        """Return how long a call may take."""
        return self._settings.recall_deadline_s


class Memories:
    """The memories that the clients of one server use, made when first asked for."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = fork_lock()
        self._open: LruDict[Place, ClientMemory] = LruDict(_OPEN_MOST)

    def at(self, place: Place) -> ClientMemory:
        """Return the memory of a place. Raises HermesPgvectorError."""
        with self._lock:
            memory = self._open.use(place)
        if memory is None:
            memory = ClientMemory(self._home, place)
            with self._lock:
                self._open[place] = memory
        return memory
