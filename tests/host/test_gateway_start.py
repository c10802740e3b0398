"""The first seconds of a real gateway, and the keys that its clients may send."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.support.gateway import Gateway, HttpAnswer
from tests.support.model_server import ModelServer
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.waiting import until

COLD_REQUESTS = 8

# A message per test, long enough to be stored as a turn.
STATEMENT = "The harbour office opens at half past seven on weekdays."


def test_need_21_eight_cold_first_requests_all_get_memory(
    gateway: Gateway, model: ModelServer, database: Database
) -> None:
    messages = [f"Statement number {index}: {STATEMENT}" for index in range(COLD_REQUESTS)]
    together = threading.Barrier(COLD_REQUESTS)

    def ask(message: str) -> HttpAnswer:
        together.wait(60)
        return gateway.post_chat(message, key="cold")

    with ThreadPoolExecutor(COLD_REQUESTS) as clients:
        answers = list(clients.map(ask, messages))

    assert [answer.status for answer in answers] == [200] * COLD_REQUESTS, gateway.log()
    for message in messages:
        (request,) = model.requests_saying(message)
        assert {"recall_memory", "recall_conversation"} <= request.tool_names, gateway.log()
    assert "no provider instance found" not in gateway.log()
    until(lambda: all(database.themes_of_turn(message) == ["cold"] for message in messages), STORED_TIMEOUT_S)


def test_a_wrong_token_and_a_key_over_the_hosts_limit_are_refused_by_the_host_and_a_key_at_the_limit_works(
    gateway: Gateway, model: ModelServer, database: Database
) -> None:
    assert gateway.post_chat(STATEMENT, key="marketing", token="not-the-key").status == 401
    assert gateway.post_chat(STATEMENT, key="k" * 257).status == 400
    assert not model.requests_saying(STATEMENT)
    accepted = gateway.post_chat(STATEMENT, key="k" * 256)

    assert accepted.status == 200, gateway.log()
    until(lambda: database.themes_of_turn(STATEMENT) == ["k" * 256], STORED_TIMEOUT_S)


def test_need_26_keys_that_are_not_utf8_work_and_their_turns_are_stored(gateway: Gateway, database: Database) -> None:
    themes = []
    for key in (b"shop\xff", b"\xfe\xff"):
        first, second = f"First under {key!r}: {STATEMENT}", f"Second under {key!r}: {STATEMENT}"
        for message in (first, second):
            assert gateway.post_chat(message, key=key).status == 200, gateway.log()
            database.wait_for_turn(message)
        assert database.themes_of_turn(first) == database.themes_of_turn(second)
        themes += database.themes_of_turn(first)

    assert len(set(themes)) == 2
    assert not {"", "default", "shop"} & set(themes), "they share a theme with somebody else's key"
    assert gateway.is_running
