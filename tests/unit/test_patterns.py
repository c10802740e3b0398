"""A pattern that is compiled by its first use does all that a compiled one does."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hermes_memory_pgvector.domain.patterns import late_pattern

_DIGITS = r"(?P<first>\d)(?P<rest>\d*)"


def test_it_finds_what_the_compiled_one_finds() -> None:
    late, compiled = late_pattern(_DIGITS), re.compile(_DIGITS)
    for _ in range(2):
        assert late.findall("a12 b3") == compiled.findall("a12 b3")
        assert late.sub("-", "a12 b3") == compiled.sub("-", "a12 b3")
        assert [match.groupdict() for match in late.finditer("a12", 2)] == [{"first": "2", "rest": ""}]
        assert late.fullmatch("a1") is None
        assert (late.pattern, late.groups, dict(late.groupindex)) == (_DIGITS, 2, {"first": 1, "rest": 2})
    with pytest.raises(AttributeError):
        _ = late.finds  # type: ignore[attr-defined]


def test_its_flags_and_its_kind_of_text_are_those_given() -> None:
    assert late_pattern("ä.", re.IGNORECASE | re.DOTALL).fullmatch("Ä\n")
    assert late_pattern("ä.").fullmatch("Ä\n") is None
    assert late_pattern(rb"\d").search(b"a1")


def test_many_threads_may_use_it_first() -> None:
    for number in range(20):
        late = late_pattern(rf"{number}(\w+)")
        together = threading.Barrier(8)

        def ask(text: str, late: re.Pattern[str] = late, together: threading.Barrier = together) -> list[str]:
            together.wait()
            return late.findall(text)

        with ThreadPoolExecutor(8) as threads:
            assert set(map(tuple, threads.map(ask, [f"{number}abc"] * 8))) == {("abc",)}
