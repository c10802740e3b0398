from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.embed.endpoint import loads

_VECTOR = [0.125, -1e-05, 3, 0.5] * 200
_PADDING = "x" * 40_000  # what is small is read at once


@pytest.mark.parametrize(
    "reply",
    [
        {"embeddings": [_VECTOR] * 9, "model": "m"},
        {"data": [{"index": index, "embedding": _VECTOR, "object": "embedding"} for index in range(9)]},
        [_VECTOR, [], [[1], [2]], {"a": [_VECTOR, [_VECTOR]]}, _PADDING],
        {"error": f"cannot embed {_VECTOR}", "x": _PADDING},
        {"error": "[1, 2, [3, ", "x": _PADDING, "y": [_VECTOR]},
        {"embeddings": [[True, None, *_VECTOR], ["a", *_VECTOR], [{"b": 1}, *_VECTOR]], "x": _PADDING},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_a_large_reply_reads_as_json_does(reply: Any, indent: int | None) -> None:
    body = json.dumps(reply, indent=indent).encode()
    assert len(body) > 32_768

    assert loads(body) == reply


@given(
    st.recursive(
        st.floats(allow_nan=False) | st.integers() | st.text() | st.just([0.25] * 40),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=20,
    )
)
@settings(max_examples=150, deadline=None)
def test_any_json_reads_as_json_does(value: Any) -> None:
    assert loads(json.dumps([value, _PADDING]).encode()) == [value, _PADDING]


@pytest.mark.parametrize("piece", [b"[1", b"[1,", b"[", b"[1]", b"1,", b'["', b"[1,2 {"])
def test_garbage_is_refused_in_time_that_grows_with_its_length(piece: bytes) -> None:
    began = time.thread_time()

    with pytest.raises((ValueError, RecursionError)):
        loads(piece * (1_000_000 // len(piece)))

    assert time.thread_time() - began < 20
