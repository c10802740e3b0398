"""What the host's hooks report, as operations for the writer: turns, delegations, `/undo`, the built-in memory."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..capture.sanitize import Sanitizer
from ..capture.turn_filter import judge, own_words
from ..domain.operations import (
    AddMemory,
    FileOperation,
    Message,
    ReconcileFile,
    RememberMemory,
    RemoveMemory,
    ReplaceMemory,
    Span,
    StoreTurn,
    UndoTurns,
)
from ..domain.session_turns import Session, SessionTurns
from ..domain.text import ENDS_CHARS, clean, entries_in, flatten_within, named_uuid, strip_injected
from ..domain.theme import SessionThemes
from ..domain.types import TARGETS
from .guard import warn_once
from .session_context import SessionContext
from .undone import rewound, rewound_in_chat

if TYPE_CHECKING:
    from ..runtime.process import Runtime

_TURNS = uuid.UUID("6f6b3c1e-53c7-4c7e-9a4e-0c1f6f2a9a10")
_DELEGATIONS = uuid.UUID("0b5f7f0e-6b0a-4c38-9d53-3f1b9f4f6f57")
_UNDOS = uuid.UUID("1d0c2f7a-2f0e-4d55-8f0f-6a7d5c2b9e31")


def within_limit(content: object, max_chars: int, counts: Counter[str]) -> str:
    """Return a message's text, fit to be stored; of one longer than `max_chars` both ends (counted as `texts_cut`)."""
    kept, cut = flatten_within(content, max_chars)
    if cut:
        counts["texts_cut"] += 1
        warn_once(
            f"of a text of more than {max_chars:,} characters only the first and the last {ENDS_CHARS:,} are kept "
            "(setting turn_max_mb)"
        )
    return clean(kept)


def storable(content: object, keep: Sanitizer, counts: Counter[str]) -> str:
    """Return a message's text as it is stored: within the limit, and without secrets."""
    return keep.text(within_limit(content, keep.max_chars, counts).strip(), counts)


class Turn(NamedTuple):
    """Where a turn was said (theme and session), what is stored with it, and what of it is worth keeping."""

    place: tuple[str, str]
    provenance: Mapping[str, str]
    keep: Sanitizer
    min_chars: int

    def operation(self, user: Any, assistant: Any, counts: Counter[str], generation: str) -> StoreTurn | None:
        """Return the write of what both sides said; None, which is counted, if nothing of it is worth keeping.

        `generation` distinguishes what is said again after an undo from what the host reports twice.
        """
        asked = own_words(strip_injected(within_limit(user, self.keep.max_chars, counts)))
        answered = strip_injected(within_limit(assistant, self.keep.max_chars, counts))
        verdict = judge(asked, answered, self.min_chars)
        asked, answered = (self.keep.text(text, counts) for text in (asked, answered))
        sides = (("user", asked, verdict.store_user), ("assistant", answered, verdict.store_assistant))
        said = tuple(Message(role, content) for role, content, stored in sides if stored)
        if not said:
            counts[f"turns_skipped_{verdict.reason}"] += 1
            return None
        # The host may report a turn again, after a reconnect or a compression: its words and session identify it.
        names = (*self.place, asked, answered, generation)
        op_id = named_uuid(_TURNS, "\0".join(names).removesuffix("\0"))
        theme, session = self.place
        return StoreTurn(
            theme=theme, at=time.time(), op_id=op_id, session_id=session, messages=said, metadata=self.provenance
        )


def delegation(
    themes: SessionThemes, session: str, child: str, asked: str, found: str, provenance: Mapping[str, str]
) -> tuple[StoreTurn, RememberMemory | None]:
    """Return a finished delegation as a turn of role `tool` and as a durable memory, None if nothing was found.

    Both belong to the parent, in `session`; `child` is the sub-agent's session. The host may report it twice.
    """
    text, names = f"Delegated: {asked}\nResult: {found}", (session, child, asked, found)
    edge = {"parent": session} | ({"child": child} if child else {})
    metadata = {
        **provenance,
        "source": "delegation",
        **({"child_session_id": child} if child else {}),
        "delegation": edge,
    }

    def op_id(kind: str, theme: str) -> uuid.UUID:
        return named_uuid(_DELEGATIONS, "\0".join((kind, theme, *names)))

    now, here, durable = time.time(), themes.turns.name, themes.memories.name
    turn = StoreTurn(
        theme=here,
        at=now,
        op_id=op_id("turn", here),
        session_id=session,
        messages=(Message("tool", text),),
        metadata=metadata,
    )
    if not found:
        return turn, None
    memory = RememberMemory(
        theme=durable,
        at=now,
        op_id=op_id("remember", durable),
        target="memory",
        content=text,
        metadata=metadata,
        owner="delegation",
    )
    return turn, memory


def taken_back(
    said: SessionTurns, session: Session, home: Path, host_id: str, name: Callable[[str], str], *, told: bool
) -> list[UndoTurns]:
    """Return the operations that remove from memory what was undone since we last looked, one for each session.

    `host_id` is the host's name of the session, which `name` converts to ours. `told`: the host says that something was
    undone just now. If its database does not say what, it was the last turn.
    """
    now = max(time.time(), said.time_of_last(session))
    found = rewound(home, host_id, now)
    if found.times and (op_ids := said.take_back(session, found.times, found.spans)) is not None:
        what = "\0".join((*session, str(found.times)))
        ops = [undo_of(session, found.spans, op_ids, now, named_uuid(_UNDOS, what))]
        for older in ((session[0], name(each)) for each in found.before):
            op_ids = said.take_back_more(older, found.spans)
            ops.append(undo_of(older, found.spans, op_ids, now, named_uuid(_UNDOS, f"{what}\0{older[1]}")))
        return ops
    if told and (last := said.take_back_last(session, now)) is not None:
        return [undo_of(session, (last[0],), last[1], now, uuid.uuid4())]
    return []


def taken_back_before(
    said: SessionTurns, session: Session, home: Path, chat: str | None, name: Callable[[str], str]
) -> list[UndoTurns]:
    """Return the same for the last sessions of a chat other than `session`, with which it goes on; none for None.

    The process in which it was undone may still have those turns to write: its own operation names them.
    """
    theme, _ = session
    ops: list[UndoTurns] = []
    for host_id, times in ({} if chat is None else rewound_in_chat(home, chat)).items():
        before = (theme, name(host_id))
        if before != session and said.undos(before) < times:
            ops += taken_back(said, before, home, host_id, name, told=False)
    return [replace(op, op_id=named_uuid(_UNDOS, f"{op.op_id}\0{op.session_id}")) for op in ops]


def undo_of(
    session: Session, spans: Sequence[Span], op_ids: Sequence[uuid.UUID], now: float, op_id: uuid.UUID
) -> UndoTurns:
    """Return the operation that removes turns of a session from memory."""
    theme, session_id = session
    return UndoTurns(theme=theme, at=now, op_id=op_id, session_id=session_id, spans=tuple(spans), op_ids=tuple(op_ids))


class BuiltInMemory:
    """The host's built-in memory, from the view of one session."""

    def __init__(self, runtime: Runtime, context: SessionContext, keep: Sanitizer) -> None:
        self._runtime = runtime
        self._context = context
        self._keep = keep

    def files(self) -> Iterator[ReconcileFile]:
        """Yield the contents of its changed files. They belong to the profile, not to a session key's theme."""
        mirror = self._runtime.mirror
        counts = self._runtime.counts
        of_profile = {key: name for key, name in self._context.scope.items() if key == "profile"}
        for state in mirror.changed():
            formerly, until = state.former
            contents = dict.fromkeys(storable(each, self._keep, counts) for each in state.contents)
            had = mirror.had.of(state.target)
            mirror.had.note_read(state.target, contents)
            yield ReconcileFile(
                theme=self._context.place.files.name,
                at=time.time(),
                target=state.target,
                contents=tuple(contents),
                file_time=state.written_at,
                damaged=state.damaged,
                noted_at=state.read_at,
                origin=mirror.origin,
                formerly=formerly,
                formerly_until=until,
                had=had,
                copied_from=state.copied_from,
                metadata={"source": "file"} | of_profile,
            )

    def written(
        self, action: str, target: str, content: Any, metadata: Mapping[str, Any] | None, provenance: dict[str, str]
    ) -> list[FileOperation]:
        """Return the operations of a write by its tool; none, which is counted, if it is empty or of unknown kind."""
        counts = self._runtime.counts
        if action not in ("add", "replace", "remove") or target not in TARGETS:
            counts["memory_writes_unknown"] += 1
            return []
        given, replaced = _split(metadata)
        # As they will be read from the file: with another text, one entry would seem removed and another one added.
        texts, (old_text, *_) = self._entries(content), (*self._entries(replaced), "")
        if not (texts or action == "remove") or not (old_text or action == "add"):
            counts["memory_writes_empty"] += 1
            return []
        self._runtime.mirror.note_written(target, texts)
        known = provenance | self._keep.metadata(given, counts)
        if action == "remove":
            return [RemoveMemory(**self._fields(target, known), old_text=old_text)]
        ops: list[FileOperation] = []
        if action == "replace":
            ops.append(ReplaceMemory(**self._fields(target, known), content=texts.pop(0), old_text=old_text))
        return [*ops, *(AddMemory(**self._fields(target, known), content=text) for text in texts)]

    def _entries(self, content: object) -> list[str]:
        return list(entries_in(storable(content, self._keep, self._runtime.counts)))

    def _fields(self, target: str, metadata: dict[str, object]) -> dict[str, Any]:
        # Where it was said decides who may read it, so what `initialize` learned overrides whatever is given here.
        own = dict(self._context.scope) | {"source": "memory_tool"}
        return {
            "theme": self._context.place.memories.name,
            "at": time.time(),
            "target": target,
            "noted_at": self._runtime.mirror.now(),
            "origin": self._runtime.mirror.origin,
            "metadata": metadata | own,
        }


def _split(metadata: object) -> tuple[dict[str, object], object]:
    """Return the metadata that the host gave, and the former text that it names."""
    given = dict(metadata) if isinstance(metadata, Mapping) else {}
    old_text = given.pop("old_text", None)
    return given, given.pop("previous_content", None) or old_text or ""
