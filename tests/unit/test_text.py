"""Cleaning of what the host hands over."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import hashlib
import json
import math
import time
import types
import unicodedata
import uuid
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.errors import InvalidArgument
from hermes_memory_pgvector.domain.facts import structure_of
from hermes_memory_pgvector.domain.text import clean, clean_json, digest, flatten, named_uuid, strip_injected
from hermes_memory_pgvector.domain.theme import normalise_theme
from tests.support.limits import NOT_WAITED_S

_any_text = st.text(st.characters() | st.characters(categories=["Cs"]))
_leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | _any_text | st.binary() | st.datetimes() | st.timedeltas()
    | st.decimals() | st.fractions() | st.complex_numbers() | st.uuids() | st.builds(object)
)  # fmt: skip
_keys = _any_text | st.integers() | st.floats() | st.none() | st.booleans() | st.tuples(st.integers()) | st.dates()
_objects = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4) | st.tuples(inner, inner),
    max_leaves=15,
)


class Colour(enum.Enum):
    RED = "red"


def _is_storable(text: str) -> bool:
    text.encode()
    return "\0" not in text


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("plain\r\ntext", "plain\r\ntext"),
        ("a\0b", "ab"),
        ("a\udcffb", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        ("end\ud83d", "end\ufffd"),
        ("\ud83dx", "\ufffdx"),
        (None, ""),
        (5, "5"),
        (b"caf\xc3\xa9\xff", "café\ufffd"),
    ],
)
def test_clean(raw: object, cleaned: str) -> None:
    assert clean(raw) == cleaned


@settings(deadline=None)
@given(_any_text)
def test_clean_is_idempotent_and_storable(text: str) -> None:
    once = clean(text)
    assert _is_storable(once)
    assert clean(once) == once


def test_clean_gives_a_plain_string() -> None:
    class Loud(str):
        __slots__ = ()

    assert type(clean(Loud("a"))) is str
    assert type(clean(Loud("é"))) is str


@pytest.mark.parametrize(
    ("content", "flat"),
    [
        (None, ""),
        ("text", "text"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        (
            [{"type": "input_text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:"}}],
            "look\n[image]",
        ),
        ([{"type": "input_file", "filename": "a.pdf"}], "[file: a.pdf]"),
        ([{"type": "input_audio", "input_audio": {}}], "[audio]"),
        ([{"type": "tool_result", "content": "rows of a table"}], "[tool result]"),
        ([{"type": "thinking", "thinking": "hm"}, "said"], "said"),
        ([{"type": "text", "text": None}], ""),
        ([{"type": "text", "text": {"value": "nested"}}], "nested"),
        ([{"type": "hologram"}], "[hologram]"),
        ([None, "", "a", 3, True, 1.5], "a\n3\nTrue\n1.5"),
        ({"role": "user", "content": [{"text": "hi"}]}, "hi"),
        ({"a": 1, "b": "x"}, "a: 1\nb: x"),
        ({"image_url": "x"}, "[image]"),
        (types.SimpleNamespace(text="attribute"), "attribute"),
        (object(), "[object]"),
        (b"bytes", "bytes"),
        pytest.param(10**5000, "[integer of 16610 bits]", id="huge"),
        ([], ""),
        ({}, ""),
    ],
)
def test_need_26_odd_content_is_flattened(content: object, flat: str) -> None:
    assert flatten(content) == flat


def test_need_26_content_that_contains_itself_ends() -> None:
    loop: list[object] = ["a"]
    loop += [loop, loop]
    assert flatten(loop) == "a\n[...]\n[...]"
    deep: object = "core"
    for _ in range(5000):
        deep = [deep]
    assert flatten(deep) == "[...]"


@settings(deadline=None)
@given(_objects)
def test_need_26_no_content_raises(content: object) -> None:
    assert _is_storable(clean(content))


def _storable_json(value: object) -> bool:
    if isinstance(value, str):
        return _is_storable(value)
    if isinstance(value, Mapping):
        return all(type(key) is str and _is_storable(key) and _storable_json(inner) for key, inner in value.items())
    return all(map(_storable_json, value)) if isinstance(value, list) else True


@settings(deadline=None)
@given(_objects)
def test_clean_json_gives_what_json_and_jsonb_take(obj: object) -> None:
    cleaned = clean_json(obj)
    assert _storable_json(cleaned)
    text = json.dumps(cleaned, allow_nan=False)
    assert "\\u0000" not in text.replace("\\\\", "")
    assert json.loads(text) == cleaned
    assert clean_json(cleaned) == cleaned


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ({1: "c", None: "b", "k\0": "v\0\udcff"}, {"1": "c", "null": "b", "k": "v\ufffd"}),
        ({False: 0, 2.5: 1, ("a", 1): 2}, {"false": 0, "2.5": 1, "['a', 1]": 2}),
        ([math.nan, math.inf, -math.inf, 1e308], [None, None, None, 1e308]),
        (datetime.datetime(2024, 5, 6, 7, 8, tzinfo=datetime.UTC), "2024-05-06T07:08:00+00:00"),
        (datetime.timedelta(minutes=1), 60.0),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, b"x"), [1, "x"]),
        (decimal.Decimal("1.10"), "1.10"),
        (decimal.Decimal("NaN"), None),
        (fractions.Fraction(1, 2), 0.5),
        (fractions.Fraction(10**400), None),
        pytest.param(2**5000, "[integer of 5001 bits]", id="huge"),
        (Colour.RED, "red"),
        (Path("/a"), "/a"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (object(), "[object]"),
    ],
)
def test_clean_json(raw: object, cleaned: object) -> None:
    assert clean_json(raw) == cleaned


def test_clean_json_ends_on_depth_and_cycles() -> None:
    loop: dict[str, object] = {"a": 1}
    loop["self"] = loop
    assert clean_json(loop) == {"a": 1, "self": "[...]"}
    deep: object = 1
    for _ in range(5000):
        deep = {"in": deep}
    assert json.dumps(clean_json(deep)).count("{") == 20
    shared = {"x": 1}
    assert clean_json([shared, shared]) == [shared, shared]


# Of two kinds that change places, also as what a character is taken apart into (U+0F73, U+FF9E).
MARKS = ("\u0323\u0301", "\u0f73\u0301", "\uff9e\u0301")


@pytest.mark.parametrize("marks", MARKS)
def test_marks_without_end_are_kept_and_normalised_in_time(marks: str) -> None:
    """To order them takes Python minutes for a run of this length, during which no other thread runs."""
    text = "a" + marks * 200_000 + "b"
    kept = clean(text)
    assert kept.replace("\u2060", "") == text
    assert clean(kept) == kept
    assert len(unicodedata.normalize("NFKC", kept)) > 200_000
    assert normalise_theme(text) != normalise_theme(text + "c")
    with pytest.raises(InvalidArgument, match="`subject`"):
        structure_of({"subject": text})


@pytest.mark.parametrize("text", ["Vie\u0323\u0302t", "a" + "\u0323\u0301" * 15, "\u0e01\u0e49" * 100, "\u0323" * 30])
def test_marks_of_writings_stay_as_they_are(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    "name", ["", "marketing\0session\0What is the harbour crane's number?", "\u00e9\U0001f600" * 500]
)
def test_named_uuid_is_that_of_the_standard_library(name: str) -> None:
    """Ids of turns are in spools and databases of earlier versions."""
    assert named_uuid(uuid.NAMESPACE_URL, name) == uuid.uuid5(uuid.NAMESPACE_URL, name)


def test_digest() -> None:
    assert digest("é") == hashlib.sha256("é".encode()).digest()
    assert len(digest("\udcff")) == 32


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  nothing here ", "  nothing here "),
        ("question\n\n<memory-context>\n[System note: x]\n- fact\n</memory-context>", "question"),
        ("a <memory-context>x</memory-context> b", "a  b"),
        ("a\n<Memory-Context >x", "a"),
        ("a\n<memory-context>x<memory-context>y</memory-context>z</memory-context>b", "a\nb"),
        ("<memory-context>x</memory-context>a<memory-context>y</memory-context>", "a"),
        ("a</memory-context>b", "ab"),
        ("What is <memory-context> for?\nMy port is 5432.", "What is  for?\nMy port is 5432."),
        ("The tag <memory-context> opens\n<memory-context>\n- fact\n</memory-context>it", "The tag  opens\nit"),
        ("Sure: <memory-context> \n- fact", "Sure:"),
        ("<memory-context>only</memory-context>", ""),
    ],
)
def test_need_12_injected_memory_is_removed(text: str, kept: str) -> None:
    assert strip_injected(text) == kept


@pytest.mark.parametrize("text", ["<" + " " * 500_000, "a <\n" + "\t\n" * 250_000 + "b", "< / " + " " * 500_000 + ">"])
def test_need_01_no_blanks_behind_a_sign_hold_a_turn_up(text: str) -> None:
    """It is looked for in every message and answer before the hook returns, and no other thread runs meanwhile."""
    started = time.thread_time()

    assert strip_injected(text) == text

    assert time.thread_time() - started < NOT_WAITED_S
