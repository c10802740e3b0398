"""The accepted writes, one class for each kind, and their form on disk.

Operation            when and in which theme; `kind` names the class on disk
  TurnOperation      StoreTurn, UndoTurns
  MemoryOperation    RememberMemory
    FileOperation    AddMemory, ReplaceMemory, RemoveMemory, ReconcileFile: from the host's memory files
  ForgetMemories     what the tool `forget` has removed, in case the server loses it
  MalformedWrite     an entry of a spool file that is none of these
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NotRequired, TypedDict

from .errors import InvalidArgument
from .facts import PLAIN, Structure, structure_of

Metadata = Mapping[str, object]
Span = tuple[float, float]  # what was accepted from the first to the second time, in seconds, by the clock of `at`


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One accepted write. `at` is the hook's time in seconds since the epoch, `seq` the number in its queue.

    `again`: it was acknowledged before, by a server that has lost it since.
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
    """One side's words in a turn; `role` is user, assistant, system or tool."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTurn(TurnOperation):
    """Store the messages of a turn."""

    messages: tuple[Message, ...]
    metadata: Metadata = field(default_factory=dict)

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return [message.content for message in self.messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoTurns(TurnOperation):
    """Delete the turns accepted within `spans`; `op_ids` are the ids of their operations, as far as known."""

    spans: tuple[Span, ...]
    op_ids: tuple[uuid.UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOperation(Operation):
    """A write to the durable memories; `target` is memory or user."""

    target: str
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberMemory(MemoryOperation):
    """Store a memory that `owner` keeps, whatever the host's files contain.

    `given` is the part of the metadata that the caller supplied. `who`, if set, is what the history records instead of
    the metadata. `structure` holds its attributes besides the text.
    """

    content: str
    structure: Structure = PLAIN
    given: Metadata = field(default_factory=dict)
    owner: str = "remember"
    who: Metadata = field(default_factory=dict)

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return [self.content]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetMemories(Operation):
    """Remove memories that were removed before: a no-op unless the server has lost that removal.

    `removals` are pairs of target and the text's SHA-256 in hex, `who` is for the history.
    """

    removals: tuple[tuple[str, str], ...]
    who: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOperation(MemoryOperation):
    """A write that comes from the memory files of the home `origin`.

    `noted_at` orders one home's reads and writes of these files, even if its clock is changed.
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
class RemoveMemory(FileOperation):
    """End the file's ownership of the entry that `old_text` identifies."""

    old_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceMemory(FileOperation):
    """Replace the text of the entry that `old_text` identifies."""

    content: str
    old_text: str

    def texts(self) -> Sequence[str]:
        """Return the texts that get a vector."""
        return [self.content]

    def without_text(self) -> RemoveMemory:
        """Return what is left of it without the new text: the old one goes."""
        left = {each.name: getattr(self, each.name) for each in fields(RemoveMemory)}
        return RemoveMemory(**left)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileFile(FileOperation):
    """Bring the memories in line with the contents of a file.

    `file_time` is 0 if the file is missing; `damaged`: it contains bytes that are not text. What the origin `formerly`
    noted until `formerly_until`, this home has noted under another name of its host or path. `had`: the first 16 hex
    digits of the digests of all that the file has held before, of which alone it can lack something; empty if unknown.
    What `copied_from` had read, the home has been copied with.
    """

    contents: tuple[str, ...]
    file_time: float
    damaged: bool = False
    formerly: str = ""
    formerly_until: float = 0.0
    had: tuple[str, ...] = ()
    copied_from: str = ""

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
        """Return the kind as given in the spool file."""
        return self.said_kind


# -- on disk: the kind, and a JSON object with the fields that are not common to all operations


class Envelope(TypedDict):
    """The fields common to all operations."""

    theme: str
    at: float
    op_id: NotRequired[uuid.UUID]
    seq: NotRequired[int]
    again: NotRequired[bool]


_FIRST_S, _END_S = -62_135_596_800.0, 253_402_300_800.0  # the years 1 to 9999
_Reader = Callable[[Any, str], Any]  # takes a field's value and name; raises ValueError


def _a(kind: type | tuple[type, ...], called: str) -> _Reader:
    def read(value: Any, name: str) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"its {name} is not {called}")
        return value

    return read


def _many(read: _Reader) -> _Reader:
    return lambda value, name: tuple(read(item, name) for item in _list(value, name))


def _pair(read: _Reader) -> _Reader:
    def both(value: Any, name: str) -> Any:
        first, second = value
        return read(first, name), read(second, name)

    return both


def seconds(value: Any, name: str) -> float:
    """Return a number of seconds since the epoch that Postgres can hold as a date. Raises ValueError."""
    found = float(_a((int, float), "a number")(value, name))
    if not _FIRST_S <= found < _END_S:
        raise ValueError(f"its {name} is no time")
    return found


def _message(value: Any, name: str) -> Message:
    return Message(**_values(Message, value if isinstance(value, Mapping) else {}))


_text, _list = _a(str, "a text"), _a(list, "a list")
_READERS: Mapping[str, _Reader] = {  # by the type of a field
    "str": _text,
    "float": seconds,
    "bool": lambda value, name: bool(value),
    "Metadata": _a(dict, "an object"),
    "Structure": lambda value, name: structure_of(_a(dict, "an object")(value, name)),
    "tuple[str, ...]": _many(_text),
    "tuple[uuid.UUID, ...]": _many(lambda value, name: uuid.UUID(value)),
    "tuple[Message, ...]": _many(_message),
    "tuple[Span, ...]": _many(_pair(seconds)),
    "tuple[tuple[str, str], ...]": _many(_pair(_text)),
}
_KINDS: Mapping[str, type[Operation]] = {
    "turn": StoreTurn,
    "undo": UndoTurns,
    "remember": RememberMemory,
    "forget": ForgetMemories,
    "add": AddMemory,
    "replace": ReplaceMemory,
    "remove": RemoveMemory,
    "reconcile": ReconcileFile,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_COMMON = {each.name for each in fields(Operation)}


def _fields_of(kind: type[Operation] | type[Message]) -> list[tuple[str, _Reader, bool]]:
    """Return each field's name, its reader, and whether it is required."""
    own = (each for each in fields(kind) if each.name not in _COMMON)
    return [(each.name, _READERS[str(each.type)], each.default is each.default_factory is MISSING) for each in own]


_FIELDS: Mapping[type, list[tuple[str, _Reader, bool]]] = {kind: _fields_of(kind) for kind in (*_NAMES, Message)}


def _values(kind: type, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a JSON object holds for the fields of a class. Raises ValueError."""
    if missing := [name for name, _, required in _FIELDS[kind] if required and name not in payload]:
        raise ValueError(f"it has no {missing[0]}")
    return {name: read(payload[name], name) for name, read, _ in _FIELDS[kind] if name in payload}


def _plain(value: object) -> object:
    """Return a value that JSON cannot represent, converted to one that it can."""
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Structure):
        return value.said()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"an operation cannot hold a {type(value).__name__}")


# dumps() would create an encoder for each operation. For plain ASCII both give the same, the second in half the time.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
_ASCII_ENCODER = json.JSONEncoder(separators=(",", ":"), default=_plain)


def encode(op: Operation) -> str:
    """Return the payload of an operation, as JSON."""
    if isinstance(op, MalformedWrite):
        return _ENCODER.encode(op.payload)
    body = {name: getattr(op, name) for name, _, _ in _FIELDS[type(op)]}
    if op.again:
        body["again"] = True
    # The texts are the long part; escaped characters in the rest decode to the same.
    return (_ASCII_ENCODER if all(map(str.isascii, op.texts())) else _ENCODER).encode(body)


def decode(kind: str, payload: Mapping[str, Any], every: Envelope) -> Operation:
    """Return the operation that a kind and a payload describe, or a MalformedWrite if they describe none."""
    try:
        if kind not in _KINDS:
            raise ValueError("this kind is unknown")
        named = _KINDS[kind]
        noted = {"noted_at": every["at"]} if issubclass(named, FileOperation) else {}  # earlier versions omit it
        common: dict[str, Any] = {**every, "again": bool(payload.get("again"))}
        return named(**common, **_values(named, {**noted, **payload}))
    except (ValueError, TypeError, AttributeError, OverflowError, InvalidArgument) as exc:
        return MalformedWrite(**every, said_kind=kind, payload=payload, flaw=f"not a write of the kind {kind!r}: {exc}")
