"""Hooks, recall and writes while the embedding endpoint is down or hangs, and after it is back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from tests.conftest import MakeProvider
from tests.support.limits import LATE_S, NOT_WAITED_S
from tests.support.scripted_embedder import Mode, ScriptedEmbedder
from tests.support.stored import Database
from tests.support.turns import ANSWER, ask, finds, question, seconds, turn, user_turns
from tests.support.waiting import until


def pending(database: Database) -> int:
    (count,) = database.column("SELECT count(*) FROM conversations WHERE embedding IS NULL")
    return int(count)


def test_need_01_a_hanging_endpoint_freezes_no_hook_and_recall_goes_on_by_words(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, database: Database
) -> None:
    limits = {"prefetch_deadline_s": 1.5, "recall_deadline_s": 1.5, "embed_timeout_s": 5.0}
    provider = make_provider({"embed_url": endpoint.url, **limits})
    provider.sync_turn(turn(1), ANSWER)
    assert provider.runtime is not None
    assert provider.runtime.writer.flush(60)
    assert ask(provider, question(1))["mode"] == "hybrid"

    endpoint.mode = "hanging"
    assert seconds(lambda: provider.sync_turn(turn(2), ANSWER)) < NOT_WAITED_S
    assert seconds(lambda: provider.on_memory_write("add", "memory", turn(3))) < NOT_WAITED_S
    assert seconds(lambda: provider.queue_prefetch(question(4))) < NOT_WAITED_S
    for attempt in range(2):
        provider.on_session_switch(f"session-of-attempt-{attempt}")  # a session is shown a thing once
        started = time.monotonic()
        assert turn(1) in provider.prefetch(f"{question(1)} {attempt}")
        assert time.monotonic() - started < 1.5 + LATE_S
        assert seconds(lambda: ask(provider, question(5))) < 1.5 + LATE_S
    assert ask(provider, question(1) + " The one at the northern pier.")["mode"] == "lexical"

    until(lambda: turn(2) in user_turns(database), 30, "the turn of the outage")
    endpoint.mode = "ok"
    # The breaker leaves a failing endpoint alone for seconds before it asks again.
    until(lambda: ask(provider, question(6)).get("mode") == "hybrid", 30, "recall by meaning")
    until(lambda: not pending(database), 30, "the embeddings of the outage")


@pytest.mark.parametrize("fault", ["down", "wrong_dims"])
def test_need_03_rows_written_without_an_endpoint_are_found_at_once_and_embedded_later(
    fault: Mode,
    make_provider: MakeProvider,
    endpoint: ScriptedEmbedder,
    database: Database,
    records: Callable[[int], list[str]],
) -> None:
    endpoint.mode = fault
    provider = make_provider({"embed_url": endpoint.url})
    for number in range(5):
        provider.sync_turn(turn(number), ANSWER)
        provider.on_memory_write("add", "memory", f"Fact {number}: {turn(number)}")
    assert provider.runtime is not None
    assert provider.runtime.writer.flush(60)

    assert user_turns(database) == [turn(number) for number in range(5)]
    assert pending(database) == 10
    assert finds(provider, "number0003", turn(3))
    assert finds(provider, "number0003", f"Fact 3: {turn(3)}", "recall_memory")
    assert turn(4) in provider.prefetch(question(4))

    endpoint.mode = "ok"
    until(lambda: not pending(database), 40, "the embeddings")
    until(lambda: ask(provider, turn(2))["mode"] == "hybrid", 20, "recall by meaning")
    assert ask(provider, turn(2))["results"][0]["content"] == turn(2)
    best = ask(provider, f"Fact 2: {turn(2)}", "recall_memory")["results"][0]
    assert (best["content"], round(best["similarity"], 2)) == (f"Fact 2: {turn(2)}", 1.0)
    assert user_turns(database) == [turn(number) for number in range(5)]
    assert len(records(logging.WARNING)) <= 1


def test_need_10_no_connection_is_held_while_the_endpoint_thinks(
    make_provider: MakeProvider, endpoint: ScriptedEmbedder, database: Database
) -> None:
    provider = make_provider({"embed_url": endpoint.url, "recall_deadline_s": 20.0})
    provider.sync_turn(turn(1), ANSWER)
    assert provider.runtime is not None
    assert provider.runtime.writer.flush(60)
    endpoint.mode = "hanging"
    endpoint.arrived.clear()
    for number in range(2, 30):
        provider.sync_turn(turn(number), ANSWER)
    assert endpoint.arrived.wait(60)

    # One that is held shows each time, as active or as idle in a transaction; one that is used for a moment does not.
    busy = (
        "SELECT pid || ' ' || state || ': ' || query FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'"
    )
    assert set[str]().union(database.column(busy)).intersection(*(database.column(busy) for _ in range(20))) == set()
    stats = provider.runtime.stats
    until(lambda: stats()["pool_pool_available"] == stats()["pool_pool_size"], what="every connection in its pool")
    assert len(user_turns(database)) == 1

    endpoint.mode = "ok"
    until(lambda: len(user_turns(database)) == 29, 30, "the turns")
