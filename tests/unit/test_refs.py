"""How an operator names a row."""

from __future__ import annotations

import time

import pytest

from hermes_memory_pgvector.admin.common.refs import Ref, parse_refs
from hermes_memory_pgvector.domain.errors import InvalidArgument


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["m12"], "m12"),
        (["12"], "m12"),
        (["T345"], "t345"),
        (["memory", "12", "turn", "7"], "m12 t7"),
        (["memories:1", "turns/2"], "m1 t2"),
        (["m1,m2, t3"], "m1 m2 t3"),
        (["m1", "1", "memory 1"], "m1"),
        ([], ""),
    ],
)
def test_a_row_is_named_by_its_number(words: list[str], meant: str) -> None:
    assert " ".join(map(str, parse_refs(words))) == meant


@pytest.mark.parametrize(
    "word", ["", " ", ",", "x1", "m", "12a", "m12m13", "m-", "memory", "9" * 19, "٣", "-1", "m-1", "m - 1"]
)
def test_what_names_no_row_is_refused(word: str) -> None:
    with pytest.raises(InvalidArgument, match="m123"):
        parse_refs([word])


def test_each_row_of_many_takes_as_long_to_read() -> None:
    """As many as fit into a request of the page, which are read before they are counted."""
    began = time.process_time()
    assert len(parse_refs([f"m{number}" for number in range(200_000)])) == 200_000
    assert time.process_time() - began < 3


def test_what_is_printed_is_read() -> None:
    for ref in (Ref("memories", 1), Ref("turns", 2**62)):
        assert parse_refs([str(ref)]) == [ref]
