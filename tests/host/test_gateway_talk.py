"""Ten days of ordinary talk through the real gateway: what stands before a turn is worth its tokens."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.local_models import link_model
from tests.support.model_files import MODEL_NAME
from tests.support.model_server import PLAIN_ANSWER, ChatRequest, ModelServer, Reply
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.ten_days import Exchange, ten_days
from tests.support.waiting import until

KEY = "office"
POLICY = "within thirty days"
TALK = ten_days()
ANSWERS = {exchange.said: exchange.answer for day in TALK.days for exchange in day}
QUOTED = re.compile(r'"([^"]*)"')


class Told(NamedTuple):
    """A message, and the lines that stood before it."""

    message: str
    lines: list[str]

    @property
    def quotes(self) -> list[list[str]]:
        return [QUOTED.findall(line) for line in self.lines]


@pytest.fixture
def settings(dsn: str) -> dict[str, Any]:
    return {"dsn": dsn, "dims": 384, "embed_url": f"local:{MODEL_NAME}", "prefetch_deadline_s": 8.0}


def answered(request: ChatRequest) -> Reply:
    """What the assistant of the talk says."""
    return Reply(ANSWERS.get(request.user_words, PLAIN_ANSWER))


def ask(gateway: Gateway, model: ModelServer, message: str, session: str) -> Told:
    before = len(model.requests)
    answer = gateway.post_chat(message, key=KEY, session=session)
    assert answer.status == 200, gateway.log()
    request = [each for each in model.requests[before:] if each.tool_names and each.user_words == message][-1]
    return Told(message, [line for line in request.memory_context.splitlines() if line.startswith("- [")])


def of_the_same(quote: str, exchanges: list[Exchange]) -> int | None:
    """Which exchange a quote is of, by the beginning of its words."""
    plain = [tuple(" ".join(half.replace('"', "'").split()) for half in exchange) for exchange in exchanges]
    return next((place for place, halves in enumerate(plain) if any(half == quote for half in halves)), None)


def test_need_37_ten_days_of_talk(active_home: HermesHome, model: ModelServer, database: Database) -> None:
    link_model(active_home.path)
    model.script = answered
    everything = [exchange for day in TALK.days for exchange in day]
    with Gateway(active_home) as gateway:
        days = [
            [ask(gateway, model, exchange.said, f"day-{number}") for exchange in day]
            for number, day in enumerate(TALK.days)
        ]
        waiting = "SELECT count(*) FROM conversations WHERE embedding IS NULL"
        until(lambda: database.column(waiting) == [0], STORED_TIMEOUT_S, "every vector")
        general = [ask(gateway, model, each, f"general-{n}") for n, each in enumerate(TALK.general)]
        asked = [ask(gateway, model, each.said, f"asked-{n}") for n, each in enumerate(TALK.questions)]

    own = [
        line
        for day, told in zip(TALK.days, days, strict=True)
        for each in told
        for line, quotes in zip(each.lines, each.quotes, strict=True)
        if any(of_the_same(quote, day) is not None for quote in quotes)
    ]
    assert not own, "the session's own turns, which the host replays"

    twice = []
    for each in [told for day in days for told in day] + general + asked:
        of = [
            {place for quote in quotes if (place := of_the_same(quote, everything)) is not None}
            for quotes in each.quotes
        ]
        if sum(map(len, of)) > len(set().union(*of)):
            twice.append(each)
    assert not twice, "both halves of an exchange"

    with_lines = [each for each in general if each.lines]
    missed = [
        told
        for told, question in zip(asked, TALK.questions, strict=True)
        if question.answer not in " ".join(told.lines)
    ]
    tickets = [told for day in days for told in day if told.message.startswith("Ticket")]
    without_policy = [told for told in tickets if POLICY not in " ".join(told.lines)]
    print(f"general with a line: {with_lines}\nmissed: {missed}\ntickets without the policy: {without_policy}")
    assert len(with_lines) <= len(general) // 10
    assert len(missed) <= 2
    assert not without_policy
