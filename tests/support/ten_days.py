"""Ten days of talk with an assistant, and what is asked afterwards; see tests/data/ten_days.txt."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_PATH = Path(__file__).resolve().parents[1] / "data" / "ten_days.txt"
_TICKETS = 6  # a day, each the same question with another number


class Exchange(NamedTuple):
    """What the operator said, and what was answered; of a question the words that answer it."""

    said: str
    answer: str


class Talk(NamedTuple):
    """The days, a session each, and the messages after them."""

    days: list[list[Exchange]]
    questions: list[Exchange]
    general: list[str]


def ticket(number: int) -> Exchange:
    """A ticket of the support, of which only the number is new."""
    return Exchange(
        f"Ticket #{4100 + number}: a customer wants the money back for an order. Is a refund possible?",
        f"I have put ticket {4100 + number} on the list of the refunds.",
    )


def ten_days() -> Talk:
    """Read the talk."""
    talk = Talk([], [], [])
    heading = ""
    for line in _PATH.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            heading = line[2:]
            if heading == "day":
                talk.days.append([])
        elif line and not line.startswith("#"):
            said, _, answer = line.partition(" | ")
            exchange = Exchange(said, answer.replace("\\n", "\n"))
            if heading == "day":
                talk.days[-1].append(exchange)
            elif heading == "questions":
                talk.questions.append(exchange)
            else:
                talk.general.append(said)
    for number, day in enumerate(talk.days):
        # From the fourth day on, when the policy was told.
        day += [ticket(number * _TICKETS + each) for each in range(_TICKETS)] if number > 3 else []
    return talk
