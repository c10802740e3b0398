"""Operations as the spool's files hold them: what this version writes and what earlier ones wrote."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from hermes_memory_pgvector.domain.operations import (
    AddMemory,
    Envelope,
    MalformedWrite,
    Message,
    Operation,
    ReconcileFile,
    RememberMemory,
    RemoveMemory,
    ReplaceMemory,
    StoreTurn,
    UndoTurns,
    decode,
    encode,
)

OP_ID = uuid.UUID(int=7)
EVERY: Envelope = {"theme": "marketing", "at": 1.5, "op_id": OP_ID, "seq": 3}
ENTRY: dict[str, Any] = {"target": "memory", "metadata": {"source": "memory_tool"}, "origin": "here", "noted_at": 2.5}
SPAN_ID = uuid.UUID(int=9)
OPERATIONS: list[Operation] = [
    StoreTurn(
        **EVERY, session_id="s", messages=(Message("user", "Hello"), Message("tool", "é")), metadata={"a": {"b": [1]}}
    ),
    UndoTurns(**EVERY, session_id="s", spans=((1.0, 2.0), (3.0, 4.5)), op_ids=(SPAN_ID,)),
    RememberMemory(**EVERY, target="user", content="x", metadata={"k": 1}, given={"k": 1}, owner="delegation"),
    AddMemory(**EVERY, **ENTRY, content="x"),
    ReplaceMemory(**EVERY, **ENTRY, content="y", old_text="x"),
    RemoveMemory(**EVERY, **ENTRY, old_text="x"),
    ReconcileFile(
        **EVERY,
        **ENTRY,
        contents=("x", "y"),
        file_time=9.5,
        damaged=True,
        formerly="there",
        formerly_until=8.5,
        had=("00ff",),
    ),
]


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.kind)
def test_an_operation_comes_back_from_disk_as_it_was(op: Operation) -> None:
    assert decode(op.kind, json.loads(encode(op)), EVERY) == op


EARLIER: list[tuple[str, str, Operation]] = [
    (
        "turn",
        '{"session_id": "s", "messages": [{"role": "user", "content": "Hello"}], "metadata": {}}',
        StoreTurn(**EVERY, session_id="s", messages=(Message("user", "Hello"),)),
    ),
    (
        "undo",
        f'{{"session_id": "s", "spans": [[1, 2.5]], "op_ids": ["{SPAN_ID}"]}}',
        UndoTurns(**EVERY, session_id="s", spans=((1.0, 2.5),), op_ids=(SPAN_ID,)),
    ),
    (
        "remember",
        '{"target": "user", "content": "x", "metadata": {}, "given": {}}',
        RememberMemory(**EVERY, target="user", content="x"),
    ),
    (
        "add",
        '{"target": "memory", "content": "x", "old_text": "", "origin": "here", "metadata": {}}',
        AddMemory(**EVERY, target="memory", origin="here", noted_at=1.5, content="x"),
    ),
    (
        "remove",
        '{"target": "memory", "content": "", "old_text": "x", "noted_at": 2, "origin": "here"}',
        RemoveMemory(**EVERY, target="memory", origin="here", noted_at=2.0, old_text="x"),
    ),
    (
        "reconcile",
        '{"target": "memory", "contents": ["x"], "file_time": 9, "origin": "here", "metadata": {}}',
        ReconcileFile(**EVERY, target="memory", origin="here", noted_at=1.5, contents=("x",), file_time=9.0),
    ),
]


@pytest.mark.parametrize(("kind", "payload", "op"), EARLIER, ids=[each[0] for each in EARLIER])
def test_what_an_earlier_version_wrote_is_read(kind: str, payload: str, op: Operation) -> None:
    assert decode(kind, json.loads(payload), EVERY) == op


@pytest.mark.parametrize(
    ("kind", "payload", "flaw"),
    [
        ("sing", {}, "this kind is unknown"),
        ("turn", {"session_id": "s", "metadata": {}}, "no messages"),
        ("turn", {"session_id": "s", "metadata": {}, "messages": ["Hello"]}, "no role"),
        ("turn", {"session_id": 4, "metadata": {}, "messages": []}, "session_id is not a text"),
        ("undo", {"session_id": "s", "spans": [[1]], "op_ids": []}, "unpack"),
        ("add", {"target": "memory", "content": "x", "origin": None}, "origin is not a text"),
        ("reconcile", {**ENTRY, "contents": [3], "file_time": 1}, "not a text"),
        ("reconcile", {**ENTRY, "contents": [], "file_time": 1.7e18}, "file_time is no time"),
    ],
)
def test_what_is_no_operation_is_kept_as_it_is_with_what_is_wrong(
    kind: str, payload: dict[str, Any], flaw: str
) -> None:
    op = decode(kind, payload, EVERY)
    assert isinstance(op, MalformedWrite) and flaw in op.flaw
    assert (op.kind, op.op_id, json.loads(encode(op))) == (kind, OP_ID, payload)
