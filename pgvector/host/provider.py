"""The memory provider: every hook of the host, each a few lines over the process-wide runtime."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..capture.sanitize import session_name
from ..config.settings import Settings
from ..domain.commandline import lacking, typed
from ..domain.errors import ConfigurationError, HermesPgvectorError, InvalidArgument, StoreUnavailable
from ..domain.fork_safety import at_import, fork_lock
from ..domain.operations import Operation, ReconcileFile
from .backup import hold_place
from .guard import guarded, warn_once
from .hook_operations import BuiltInMemory, Turn, delegation, storable, taken_back, taken_back_before
from .outside_sessions import OutsideSessions
from .profile_theme import note_themes
from .recall_status import RecallStatus
from .recall_tools import Args, Result, answer, as_json
from .replayed import note_message, note_transcript
from .retold import taken_back_by, telling
from .session_context import Policy, SessionContext, chat_of, environment, hermes_home, load_settings
from .sought import sought_before_turn
from .tool_registry import CHANGES, prompt_block, schemas, switched_on, unknown_arguments, with_note
from .tool_scopes import ChatSearcher, ToolScope

if TYPE_CHECKING:
    from ..recall.searcher import Searcher
    from ..runtime.process import Runtime

try:
    from agent.memory_provider import MemoryProvider
except ImportError:  # outside the host: the command line and tests
    MemoryProvider = object  # type: ignore[assignment,misc]

logger = logging.getLogger(__name__)


class PgvectorMemoryProvider(OutsideSessions, MemoryProvider):
    """Memory on Postgres and pgvector for one session of the host. Instances are thin; no hook ever raises."""

    # A host that compresses only what a provider has stored in full requires 2. We store only what was said.
    pre_compress_checkpoint_api_version = 1
    FINDS_TURNS = "recall_conversation searches what was said"
    _load_settings = staticmethod(load_settings)  # the provider of a trial overrides some of them

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Take `config` in place of the section plugins.pgvector of the home's config.yaml."""
        super().__init__(config)
        self._home = Path()
        self._settings = Settings()
        self._policy = Policy.of(self._settings)
        self._secrets: dict[str, str] = {}
        self._runtime: Runtime | None = None
        self._context: SessionContext | None = None
        self._session_lock = fork_lock()
        self._session_id = ""
        self._parent_session_id = ""
        self._starts_empty = True
        self._counted = ""  # the session whose transcript was counted
        self._lines_told = 0  # by the last prefetch

    @property
    def name(self) -> str:
        """Return the provider's name in `memory.provider`."""
        return "pgvector"

    @property
    def runtime(self) -> Runtime | None:
        """Return the process-wide runtime; None before `initialize` and after `shutdown`."""
        return self._runtime

    # -- life ----------------------------------------------------------------------------------------------------

    @guarded(None)
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Record the session's context, start the process-wide runtime in the background; no network on this thread."""
        if not self._take_note(session_id, kwargs):
            return
        self._runtime, context = self._acquire(), cast(SessionContext, self._context)
        self._runtime.counts["themes_unknown"] += len(context.place.unknown)
        note_themes(self._home, context, self._policy.rules)
        self._follow_undo(session_id, told=False, chat=chat_of(kwargs))
        if not self._settings.dsn:
            hold_place(self._home)
        if self._settings.bulk_sync_on_init and self._may_write(self._runtime, context):
            self._reconcile(self._runtime, context)

    @guarded(None)
    def initialize_for_inspection(self, session_id: str, **kwargs: Any) -> None:
        """Record the session's context for its prompt block and tools; nothing is started or read in."""
        self._take_note(session_id, kwargs)

    def _take_note(self, session_id: str, kwargs: Mapping[str, Any]) -> bool:
        """Record the session's context; return False when memory is off, which is logged."""
        if sentence := lacking():
            warn_once(f"memory is off: {sentence}")
            return False
        home = hermes_home(kwargs.get("hermes_home"))
        environ = environment(home)
        try:
            loaded = self._load_settings(self._config, home, environ)
        except ConfigurationError as exc:
            warn_once(f"memory is off: {exc}")
            return False
        for warning in loaded.warnings:
            warn_once(warning)
        self._settings, self._home = loaded.settings, home
        self._policy = Policy.of(loaded.settings)
        self._context = SessionContext.from_host(kwargs, self._policy.rules)
        self._session_id = self._session_name(session_id)
        self._parent_session_id = self._session_name(kwargs.get("parent_session_id"))
        keys = loaded.settings.embed_api_key_env, loaded.settings.rerank_api_key_env
        self._secrets = {name: environ.get(name, "") for name in keys}
        return True

    def _acquire(self) -> Runtime:
        with at_import:
            if switched_on(self._settings.tools):  # while they are there: an upgrade may replace the package beneath us
                from . import write_tools  # noqa: F401
            from ..runtime.process import acquire

        return acquire(self._settings, self._home, self._secrets, self)

    def _ready(self) -> tuple[Runtime, SessionContext] | None:
        """Return the runtime and the session's context; None before `initialize` and after `shutdown`."""
        if self._runtime is None or self._context is None:
            return None
        if self._runtime.pid != os.getpid() or self._runtime.closed:  # a forked child has its own
            self._runtime = self._acquire()
        return self._runtime, self._context

    def _ready_to_write(self) -> tuple[Runtime, SessionContext] | None:
        """Return the same as `_ready`; None also if this kind of run does not write."""
        ready = self._ready()
        return ready if ready is not None and self._may_write(*ready) else None

    def _reconcile(self, runtime: Runtime, context: SessionContext) -> None:
        """Queue the contents of the host's memory files; a file that is refused is read again by the next session."""
        for op in BuiltInMemory(runtime, context, self._policy.keep).files():
            if not self._submit(runtime, op):
                runtime.mirror.read_again()

    @guarded(None)
    def shutdown(self, **kwargs: Any) -> None:
        """Write what was accepted to Postgres within `shutdown_timeout_s`; the rest stays in the spool."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None and runtime.pid == os.getpid():  # a forked child leaves its parent's alone
            runtime.leave(self, self._settings.shutdown_timeout_s)

    # -- a turn --------------------------------------------------------------------------------------------------

    @guarded("")
    def system_prompt_block(self, **kwargs: Any) -> str:
        """Return the note on the tools and the hot block: the same text all through a session, for the prompt cache."""
        settings, ready, hot = self._known_settings(), self._ready(), ""
        if ready is not None and settings.hot_tokens and not self._policy.silences(ready[1].place, ready[0].counts):
            hot = ready[0].hot.of_session(ready[1].place, self._session_id)
        return prompt_block(settings.tools, hot)

    @guarded(None)
    def on_turn_start(self, turn_number: int = 0, message: str = "", **kwargs: Any) -> None:
        """Record the message and, once a session, how many turns of it the host replays: it counts the transcript's."""
        ready = self._ready()
        with self._session_lock:
            counted, self._counted = self._counted, self._session_id
        if ready is not None and turn_number > 0:
            turns = turn_number - 1 if counted != self._session_id else None
            session, known = (ready[1].theme.name, self._session_id), ready[0].transcripts
            note_message(known, ready[1], session, turns, message, self._home, self._session_name)

    @guarded("")
    def prefetch(self, query: str, *, session_id: str = "", **kwargs: Any) -> str:
        """Return the memories for this message, or nothing, within `prefetch_deadline_s`."""
        self._lines_told = 0
        ready, settings = self._ready(), self._settings
        if ready is None:
            return ""
        runtime, context = ready
        text, why_not = sought_before_turn(query, settings, self._policy, context.place, runtime.counts)
        if why_not:
            return ""
        with at_import:
            from ..recall.prefetch import MessagePlace, prefetch_block

        place = MessagePlace(context.theme.name, self._session_name(session_id))
        with self._session_lock:
            if place.session_id in ("", self._session_id):
                noted = self._session_id, self._parent_session_id
                place = MessagePlace(context.theme.name, *noted, starts=self._starts_empty)
        try:
            searcher = cast("Searcher", ChatSearcher(runtime.searcher, context.place))
            block = prefetch_block(searcher, runtime.transcripts, text, place, settings)
        except HermesPgvectorError:
            runtime.counts["prefetch_failures"] += 1  # the store has logged the reason once
            return ""
        runtime.counts.update(prefetches=1, prefetches_found=bool(block))
        self._lines_told = block.count("\n")  # those after the heading
        return block

    @guarded(None)
    def recall_status(self, **kwargs: Any) -> RecallStatus | None:
        """Return how much the last `prefetch` put before the message; None if nothing, or if reported already."""
        told, self._lines_told = self._lines_told, 0
        return RecallStatus(self.name, told) if told else None

    @guarded(None)
    def queue_prefetch(self, query: str, *, session_id: str = "", **kwargs: Any) -> None:
        """Do nothing: the next turn's question is not known yet, and recall answers the current one."""

    @guarded(None)
    def sync_turn(
        self, user_content: Any, assistant_content: Any, *, session_id: str = "", messages: Any = None, **kwargs: Any
    ) -> None:
        """Accept a finished turn. When this returns, what is worth keeping of it is on disk."""
        ready = self._ready_to_write() if self._settings.sync_turns else None
        if ready is None:
            return
        runtime, context = ready
        session = self._session_name(session_id) or self._session_id or "unknown"
        place = (context.theme.name, session)
        context = context.of_author(kwargs.get("turn_author"), self._policy.rules)
        provenance = context.provenance(session, self._parent_session_id if session == self._session_id else "")
        turn = Turn(place, provenance, self._policy.keep, self._settings.turn_min_chars)
        note_transcript(runtime.transcripts, place, messages, user_content, assistant_content, turn.keep.max_chars)
        told = telling(messages, user_content, assistant_content, context, self._policy.keep.max_chars)
        if undone := taken_back_by(runtime.said, place, told, context, self._home):
            self._submit(runtime, undone)
        op = turn.operation(user_content, assistant_content, runtime.counts, runtime.said.generation(place))
        if op is None:
            runtime.said.add(place, time.time(), None, told)
        elif self._submit(runtime, op):
            runtime.said.add(place, op.at, op.op_id, told)

    @guarded(None)
    def on_delegation(self, task: Any, result: Any, *, child_session_id: str = "", **kwargs: Any) -> None:
        """Accept a sub-agent's task and result: a turn of role `tool` of its parent, and if so set, a memory."""
        ready = self._ready_to_write() if self._settings.sync_turns or self._settings.delegation_memory else None
        if ready is None:
            return
        runtime, context = ready
        keep, counts = self._policy.keep, runtime.counts
        asked, found = storable(task, keep, counts), storable(result, keep, counts)
        if not asked and not found:
            return
        session, child = self._session_id or "unknown", self._session_name(child_session_id)
        provenance = context.provenance(session, self._parent_session_id)
        turn, memory = delegation(context.place, session, child, asked, found, provenance)
        if self._settings.sync_turns:
            self._submit(runtime, turn)
        if self._settings.delegation_memory and memory is not None:
            self._submit(runtime, memory)

    # -- the built-in memory -------------------------------------------------------------------------------------

    @guarded(None)
    def on_memory_write(
        self, action: str, target: str, content: Any, metadata: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Mirror a write of the built-in memory. When this returns it is on disk."""
        ready = self._ready_to_write()
        if ready is None:
            return
        runtime, context = ready
        provenance = context.provenance(self._session_id, self._parent_session_id)
        memory = BuiltInMemory(runtime, context, self._policy.keep)
        for op in memory.written(action, target, content, metadata, provenance):
            self._submit(runtime, op)

    # -- sessions ------------------------------------------------------------------------------------------------

    @guarded(None)
    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """Follow the host to another session; the next turn is stored there, with a link to the session before."""
        new, parent = self._session_name(new_session_id), self._session_name(parent_session_id)
        with self._session_lock:
            old = parent or self._session_id
            if new and new != self._session_id:
                self._session_id, self._parent_session_id = new, old
                self._starts_empty = kwargs.get("reason") not in ("branch", "compression", "resume")
                self._counted = new if kwargs.get("reason") == "compression" else self._counted  # which counts on
        ready = self._ready()
        if ready is None or not new:
            return
        self._follow_undo(new_session_id, told=rewound)
        transcripts, theme = ready[0].transcripts, ready[1].theme.name
        transcripts.switch((theme, old), (theme, new), reason=kwargs.get("reason"), rewound=rewound)

    def _follow_undo(self, session_id: str, *, told: bool, chat: str | None = None) -> None:
        """Remove from memory what the user undid; when this returns, the removal is on disk."""
        ready = self._ready()
        if ready is None or ready[1].agent_context not in self._policy.write_contexts:
            return
        session = (ready[1].theme.name, self._session_name(session_id))
        said, home, name = ready[0].said, self._home, self._session_name
        ops = taken_back(said, session, home, session_id, name, told=told)
        for op in [*ops, *taken_back_before(said, session, home, chat, name)]:
            self._submit(ready[0], op)

    @guarded(None)
    def on_session_end(self, messages: Any = None, **kwargs: Any) -> None:
        """Do nothing: every turn came through `sync_turn`, and this also fires at each compression."""

    @guarded("")
    def on_pre_compress(self, messages: Any = None, **kwargs: Any) -> str:
        """Return nothing to add: the turns about to be compressed are stored and can be recalled."""
        return ""

    # -- tools ---------------------------------------------------------------------------------------------------

    @guarded(list)
    def get_tool_schemas(self, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the tools, the same before and after `initialize`; after it they offer only this session's scopes."""
        settings = self._known_settings()
        chat = self._context is not None and self._context.place.chat
        offer = Policy.of(settings).reach.offer(chat=chat)
        return schemas(settings.tools, offer, structure=settings.structure)

    def handle_tool_call(self, tool_name: str, args: Any = None, **kwargs: Any) -> str:
        """Return the JSON text of a tool's answer, within `recall_deadline_s`."""
        failed = typed("the memory tool failed; run hermes-pgvector doctor")
        return self._handle(tool_name, args if isinstance(args, Mapping) else {}) or as_json({"error": failed})

    @guarded("")
    def _handle(self, tool_name: str, args: Args) -> str:
        ready, settings = self._ready(), self._settings
        try:
            if ready is None:
                raise StoreUnavailable("memory is not ready in this session; run hermes-pgvector doctor")
            ignored = unknown_arguments(tool_name, args, settings.tools, structure=settings.structure)
            if ignored and tool_name in CHANGES:
                raise InvalidArgument(f"{ignored}; nothing was changed")
            does = self._keep if tool_name in switched_on(settings.tools) else self._recall
            return as_json(with_note(does(tool_name, args, *ready), ignored))
        except HermesPgvectorError as exc:
            return as_json({"error": str(exc)})

    def _recall(self, tool_name: str, args: Args, runtime: Runtime, context: SessionContext) -> Result:
        self._policy.check_recall(context.place, runtime.counts)
        ends = time.monotonic() + self._settings.recall_deadline_s
        here = ToolScope(runtime, context.place, self._session_id, self._settings, self._policy, ends)
        return answer(tool_name, args, here, turns=self.FINDS_TURNS)

    def _keep(self, tool_name: str, args: Args, runtime: Runtime, context: SessionContext) -> Result:
        from .write_tools import WriteContext, answer  # needs the driver, without which we still load

        source = context.provenance(self._session_id, self._parent_session_id)
        may_write, submit = partial(self._may_write, runtime, context), partial(self._submit, runtime)
        ends = time.monotonic() + self._settings.recall_deadline_s
        call = WriteContext(runtime, context, self._policy, source, may_write, submit, ends)
        return answer(tool_name, args, call)

    def _known_settings(self) -> Settings:
        """Return the settings; before a session begins, when the host asks for the same tools, those in the file."""
        if self._context is not None:
            return self._settings
        try:
            return load_settings(self._config, hermes_home()).settings
        except ConfigurationError:  # `initialize` logs it
            return Settings()

    # -- helpers -------------------------------------------------------------------------------------------------

    def _may_write(self, runtime: Runtime, context: SessionContext) -> bool:
        if context.agent_context in self._policy.write_contexts:
            return True
        runtime.counts[f"skipped_context_{context.agent_context}"] += 1
        return False

    def _session_name(self, given: object) -> str:
        return session_name(given, self._settings.identity_key)

    @staticmethod
    def _submit(runtime: Runtime, op: Operation) -> bool:
        """Queue an operation; return False if it was refused, which is logged."""
        try:
            runtime.writer.submit(op)
            return True
        except HermesPgvectorError as exc:
            runtime.counts["refused"] += 1
            if count := runtime.refusals.add():
                fate = "read in by a later session" if isinstance(op, ReconcileFile) else "lost"
                said = "hermes-pgvector: a write was refused and is %s (%s, theme %s; %d so far): %s"
                logger.error(said, fate, op.kind, op.theme, count, exc)
            return False
