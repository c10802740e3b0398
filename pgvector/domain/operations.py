"""The accepted writes, one class for each kind, and their form on disk.

Operation            when and in which theme; `kind` names the class on disk
  TurnOperation      StoreTurn, UndoTurns
  MemoryOperation    RememberMemory
  ForgetMemories     what the tool `forget` has removed, for a server that is set back
    FileOperation    AddMemory, ReplaceMemory, RemoveMemory, ReconcileFile: what the host's memory files say
  MalformedWrite     what a file of the spool holds and none of these is
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NotRequired, TypedDict, TypeVar

Metadata = Mapping[str, object]
Span = tuple[float, float]  # seconds since the epoch, by the clock of `at`
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One accepted write. `at` is the hook's clock, in seconds since the epoch; `seq` its number in its queue.

    `again`: it was acknowledged before, by a server that was set back since.
    """

    theme: str
    at: float
    op_id: uuid.UUID = field(default_factory=uuid.uuid4)
    seq: int = 0
    again: bool = False

    @property
    def kind(self) -> str:
        """Return the name of the operation's class on disk and in messages."""
        return _NAMES[type(self)]

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOperation(Operation):
    """A write to the turns of a session."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Message:
    """What one side said in a turn: `role` is user, assistant, system or tool."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTurn(TurnOperation):
    """Store what was said."""

    messages: tuple[Message, ...]
    metadata: Metadata = field(default_factory=dict)

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return [message.content for message in self.messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoTurns(TurnOperation):
    """Delete the turns accepted in `spans`; `op_ids` are those of them that are known."""

    spans: tuple[Span, ...]
    op_ids: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOperation(Operation):
    """A write to the durable memories; `target` is memory or user."""

    target: str
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberMemory(MemoryOperation):
    """Store a memory that `owner` keeps whatever the host's files hold.

    `given` is what of the metadata the caller said; `who`, where the metadata does not say it, is for the history.
    """

    content: str
    given: Metadata = field(default_factory=dict)
    owner: str = "remember"
    who: Metadata = field(default_factory=dict)

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return [self.content]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMemories(Operation):
    """Remove memories that were removed already: no-op, but where the server was set back to before that.

    `removals` are target and the text's SHA-256 in hex, `who` is for the history.
    """

    removals: tuple[tuple[str, str], ...]
    who: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOperation(MemoryOperation):
    """What the memory files of the home `origin` say.

    `noted_at` orders what one home read and wrote of them, whatever its clock does.
    """

    origin: str
    noted_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AddMemory(FileOperation):
    """Store an entry that the host wrote."""

    content: str

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return [self.content]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceMemory(FileOperation):
    """Give the entry that `old_text` means another text."""

    content: str
    old_text: str

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return [self.content]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveMemory(FileOperation):
    """Let the file go of the entry that `old_text` means."""

    old_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileFile(FileOperation):
    """Take over what a file holds.

    `file_time` is 0 where the file is missing; `damaged`: bytes that are no text stand in it.
    """

    contents: tuple[str, ...]
    file_time: float
    damaged: bool = False

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return self.contents


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedWrite(Operation):
    """A write of an unknown kind or shape, kept as it is until an operator looks at it; `flaw` says what is wrong."""

    said_kind: str
    payload: Mapping[str, object]
    flaw: str

    @property
    def kind(self) -> str:
        """Return the kind that the file gives."""
        return self.said_kind


# -- on disk: a kind, and a JSON object with the fields that are not those of every operation


class Envelope(TypedDict):
    """The fields of every operation."""

    theme: str
    at: float
    op_id: NotRequired[uuid.UUID]
    seq: NotRequired[int]
    again: NotRequired[bool]


class FileFields(Envelope):
    """The fields of every FileOperation."""

    target: str
    metadata: Metadata
    origin: str
    noted_at: float


class _Payload:
    """A JSON object whose fields are read by type. Raises ValueError for one that is missing or of another type."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def text(self, name: str, default: str | None = None) -> str:
        return self._get(name, str, "a text", default)

    def number(self, name: str, default: float | None = None) -> float:
        return float(self._get(name, (int, float), "a number", default))

    def flag(self, name: str) -> bool:
        return bool(self._body.get(name))

    def object(self, name: str, default: Metadata | None = None) -> Metadata:
        return self._get(name, dict, "an object", default)

    def many(self, name: str, read: Callable[[Any], _T]) -> tuple[_T, ...]:
        """Return every item of a list, as `read` gives it."""
        return tuple(read(item) for item in self._get(name, list, "a list"))

    def _get(self, name: str, kind: type[_T] | tuple[type[_T], ...], called: str, default: _T | None = None) -> _T:
        value = self._body.get(name, default)
        if not isinstance(value, kind):
            raise ValueError(f"its {name} is not {called}" if name in self._body else f"it has no {name}")
        return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("one of its contents is not a text")
    return value


def _message(value: object) -> Message:
    said = _Payload(value if isinstance(value, Mapping) else {})
    return Message(said.text("role"), said.text("content"))


def _span(value: Any) -> Span:
    since, until = value
    return float(since), float(until)


def _turn(every: Envelope, body: _Payload) -> StoreTurn:
    messages, metadata = body.many("messages", _message), body.object("metadata")
    return StoreTurn(**every, session_id=body.text("session_id"), messages=messages, metadata=metadata)


def _undo(every: Envelope, body: _Payload) -> UndoTurns:
    spans, op_ids = body.many("spans", _span), body.many("op_ids", uuid.UUID)
    return UndoTurns(**every, session_id=body.text("session_id"), spans=spans, op_ids=op_ids)


def _remember(every: Envelope, body: _Payload) -> RememberMemory:
    return RememberMemory(
        **every,
        target=body.text("target"),
        content=body.text("content"),
        metadata=body.object("metadata"),
        given=body.object("given"),
        owner=body.text("owner", "remember"),
        who=body.object("who", {}),
    )


def _removal(value: Any) -> tuple[str, str]:
    target, sha256 = value
    return _text(target), _text(sha256)


def _forget(every: Envelope, body: _Payload) -> ForgetMemories:
    return ForgetMemories(**every, removals=body.many("removals", _removal), who=body.object("who", {}))


def _of_file(every: Envelope, body: _Payload) -> FileFields:
    return {
        **every,
        "target": body.text("target"),
        "metadata": body.object("metadata", {}),
        "origin": body.text("origin"),
        "noted_at": body.number("noted_at", every["at"]),
    }


def _add(every: Envelope, body: _Payload) -> AddMemory:
    return AddMemory(**_of_file(every, body), content=body.text("content"))


def _replace(every: Envelope, body: _Payload) -> ReplaceMemory:
    return ReplaceMemory(**_of_file(every, body), content=body.text("content"), old_text=body.text("old_text"))


def _remove(every: Envelope, body: _Payload) -> RemoveMemory:
    return RemoveMemory(**_of_file(every, body), old_text=body.text("old_text"))


def _reconcile(every: Envelope, body: _Payload) -> ReconcileFile:
    contents, file_time = body.many("contents", _text), body.number("file_time")
    return ReconcileFile(**_of_file(every, body), contents=contents, file_time=file_time, damaged=body.flag("damaged"))


_NAMES: Mapping[type[Operation], str] = {
    StoreTurn: "turn",
    UndoTurns: "undo",
    RememberMemory: "remember",
    ForgetMemories: "forget",
    AddMemory: "add",
    ReplaceMemory: "replace",
    RemoveMemory: "remove",
    ReconcileFile: "reconcile",
}
_READ: Mapping[str, Callable[[Envelope, _Payload], Operation]] = {
    "turn": _turn,
    "undo": _undo,
    "remember": _remember,
    "forget": _forget,
    "add": _add,
    "replace": _replace,
    "remove": _remove,
    "reconcile": _reconcile,
}
_COMMON = {each.name for each in fields(Operation)}
_FIELDS = {kind: [each.name for each in fields(kind) if each.name not in _COMMON] for kind in _NAMES}


def _plain(value: object) -> object:
    """Return what JSON has no form of, in one that it has."""
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"an operation cannot hold a {type(value).__name__}")


# dumps() would make one for each operation. Of plain ASCII both write the same, the second one in half the time.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
_ASCII_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_plain)


def encode(op: Operation) -> str:
    """Return the payload of an operation, as JSON."""
    if isinstance(op, MalformedWrite):
        return _ENCODER.encode(op.payload)
    body = {name: getattr(op, name) for name in _FIELDS[type(op)]}
    if op.again:
        body["again"] = True
    # The texts are what is long; escapes in the rest of it mean the same.
    return (_ASCII_ENCODER if all(map(str.isascii, op.texts())) else _ENCODER).encode(body)


def decode(kind: str, payload: Mapping[str, Any], every: Envelope) -> Operation:
    """Return the operation of a kind and its payload; a MalformedWrite where that is none."""
    try:
        read = _READ.get(kind)
        if read is None:
            raise ValueError("this kind is unknown")
        return read({**every, "again": bool(payload.get("again"))}, _Payload(payload))
    except (ValueError, TypeError, AttributeError, OverflowError) as exc:
        return MalformedWrite(**every, said_kind=kind, payload=payload, flaw=f"not a write of the kind {kind!r}: {exc}")
