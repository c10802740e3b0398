"""What of a pasted log, list or test run is searched for: what stands out, and what the user says of it."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.domain.pasted_lines import what_stands_out
from hermes_memory_pgvector.recall.questions import questions_in

LOG = [f"Nov 23 14:31:{n:02} edge-3 haproxy[{n * 71}]: Connect from 10.20.7.{n} to 10.20.0.15:443" for n in range(20)]
JSON = [f'{{"level":"info","ts":"2026-11-24T10:11:{n}Z","path":"/healthz","status":200}}' for n in range(10, 30)]
TESTS = [f"[{n:04}] PASS tests/orders/test_cart_{n}.py::test_total ({n * 7} ms)" for n in range(20)]
PODS = [f"orders-{n * 7919:x}   1/1     Running   {n % 3}          {n}d" for n in range(20)]
ERROR = "ERROR: canceling statement due to lock timeout (SQLSTATE 55P03)"
QUESTION = "Did we see this before?"
PASTES = [LOG, JSON, TESTS, PODS]


@pytest.mark.parametrize("paste", PASTES)
def test_the_line_with_the_error_and_the_question_stand_out(paste: list[str]) -> None:
    message = "\n".join([*paste[:9], ERROR, *paste[9:], "", QUESTION])
    assert what_stands_out(message).split() == [*ERROR.split(), *QUESTION.split()]
    assert LOG[0] not in " ".join(questions_in(message))


@pytest.mark.parametrize("paste", PASTES)
def test_nothing_stands_out_of_lines_that_are_alike(paste: list[str]) -> None:
    message = "\n".join(paste)
    assert what_stands_out(message) == ""
    assert questions_in(message) == (message,)  # a search for these lines finds them


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n" * 20,
        "\n".join(LOG[:3]),
        "Plan for the week:\n- review the change of Mira\n- move redis to the new port\n- write down what failed\n"
        "- call the customer about the refund\n- deploy payments on Thursday\n- clean up staging\nWhat comes first?",
        "def total(net, rate):\n    gross = net * (1 + rate)\n    if gross < 0:\n        raise ValueError(gross)\n\n"
        "    return gross.quantize(CENT)\n\nIs that right?",
    ],
)
def test_what_people_write_is_unchanged(text: str) -> None:
    assert what_stands_out(text) == text
