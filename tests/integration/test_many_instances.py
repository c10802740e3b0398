"""A gateway that makes a provider for each request and never shuts one down."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import landed, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder, hash_vector
from tests.support.stored import Database
from tests.support.turns import ANSWER, question, turn, user_turns
from tests.support.waiting import until

INSTANCES = 1000
WARM_UP = 300
POOL_MAX = 3

# Noise of the allocator and of Postgres' client over 700 instances; one that stayed with its buffers would be far more.
MEMORY_SLACK_BYTES = 16 * 1024 * 1024


def own_threads() -> Counter[str]:
    """How many threads of ours there are, by name."""
    return Counter(thread.name for thread in threading.enumerate() if "hermes-pgvector" in thread.name)


def serve(provider: PgvectorMemoryProvider, number: int) -> None:
    """What the host does with one request."""
    provider.get_tool_schemas()
    provider.system_prompt_block()
    provider.on_turn_start(1, turn(number))
    if number % 10 == 0:
        provider.prefetch(question(number), session_id="")
        provider.handle_tool_call("recall_memory", {"query": question(number)})
    provider.sync_turn(turn(number), ANSWER, session_id=f"session-{number}")
    provider.queue_prefetch(turn(number), session_id=f"session-{number}")


@pytest.fixture
def requests(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> Iterator[Any]:
    """Serves requests by number, each with an instance of its own; returns weak references to the instances."""
    config = {"pool_max_size": POOL_MAX, "embed_url": embedder.url, "write_queue_maxsize": 10_000}

    def one(number: int) -> weakref.ref[PgvectorMemoryProvider]:
        provider = make_provider(config, session_id=f"session-{number}", gateway_session_key=f"key-{number % 7}")
        serve(provider, number)
        return weakref.ref(provider)

    with ThreadPoolExecutor(4, thread_name_prefix="request") as host:
        yield lambda numbers: list(host.map(one, numbers))


def test_need_10_a_thousand_instances_share_one_writer_and_one_pool(
    requests: Any, make_provider: MakeProvider, dsn: str
) -> None:
    database = Database(dsn)
    process = psutil.Process()
    for number in range(INSTANCES):
        hash_vector(turn(number), DIMS)  # what the endpoint, in this process too, remembers of each word
    references = requests(range(WARM_UP))
    until(lambda: len(user_turns(database)) == WARM_UP, 60, "the first turns")
    gc.collect()
    early_bytes, early_threads = process.memory_info().rss, own_threads()
    assert early_threads["hermes-pgvector-writer"] == 1

    most_connections = 0
    for start in range(WARM_UP, INSTANCES, 100):
        references += requests(range(start, start + 100))
        most_connections = max(most_connections, database.client_connections())
    assert 1 <= most_connections <= POOL_MAX

    until(lambda: len(user_turns(database)) == INSTANCES, 60, "all turns")
    until(lambda: own_threads()["hermes-pgvector-embed"] == 0, 20, "the end of the threads of recalls")
    gc.collect()
    assert own_threads().total() <= early_threads.total()
    assert own_threads()["hermes-pgvector-writer"] == 1
    assert process.memory_info().rss <= early_bytes + MEMORY_SLACK_BYTES
    assert [number for number, reference in enumerate(references) if reference() is not None] == []
    assert sorted(user_turns(database)) == [turn(number) for number in range(INSTANCES)]


def test_need_10_an_abandoned_instance_is_collected_and_its_writes_arrive(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider()
    runtime = runtime_of(provider)
    provider.sync_turn(turn(1), ANSWER)
    reference = weakref.ref(provider)
    del provider
    gc.collect()
    assert reference() is None
    until(lambda: user_turns(Database(dsn)) == [turn(1)], 20, "the turn")
    assert runtime_of(make_provider()) is runtime


def test_need_10_a_stuck_endpoint_does_not_pile_up_threads(
    make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    config = {"embed_url": embedder.url, "embed_timeout_s": 2.0, "prefetch_deadline_s": 0.2}
    provider = make_provider(config)
    provider.sync_turn(turn(1), ANSWER)
    landed(provider)
    embedder.mode = "hanging"
    before = own_threads()["hermes-pgvector-embed"]
    with ThreadPoolExecutor(16) as host:
        list(host.map(lambda number: provider.prefetch(question(number)), range(48)))
    assert own_threads()["hermes-pgvector-embed"] - before <= 8
    embedder.mode = "ok"
    until(lambda: own_threads()["hermes-pgvector-embed"] == 0, 20, "the end of the stuck threads")


def test_need_10_settings_that_are_changed_again_and_again_leave_one_writer_and_one_pool(
    make_provider: MakeProvider, direct_dsn: str
) -> None:
    def request(number: int) -> None:
        """What a request does whose settings are others than those of the one before."""
        provider = make_provider({"dsn": direct_dsn, "prefetch_max_tokens": 100 + number, "pool_max_size": POOL_MAX})
        serve(provider, number)
        landed(provider)

    database = Database(direct_dsn)
    for number in (*range(12), 11):
        request(number)
        gc.collect()
    assert user_turns(database) == [turn(number) for number in range(12)]
    until(lambda: own_threads()["hermes-pgvector-writer"] == 1, 60, "the end of the writers of earlier settings")
    until(lambda: database.client_connections() <= POOL_MAX, 60, "the end of their connections")


def test_need_10_settings_that_change_end_nothing_that_is_in_use(make_provider: MakeProvider, dsn: str) -> None:
    early = make_provider({"prefetch_max_tokens": 101})
    landed(early)
    for number in (0, 1, 2, 2):
        late = make_provider({"prefetch_max_tokens": 200 + number})
        late.sync_turn(turn(number), ANSWER)
        landed(late)
    early.sync_turn(turn(3), ANSWER)
    landed(early)
    assert sorted(user_turns(Database(dsn))) == [turn(number) for number in range(4)]
    assert turn(3) in early.handle_tool_call("recall_conversation", {"query": question(3)})


def test_need_10_instances_that_come_and_go_leave_nothing(make_provider: MakeProvider, direct_dsn: str) -> None:
    for number in range(30):
        provider = make_provider({"dsn": direct_dsn})  # a pooler would keep connections open
        provider.sync_turn(turn(number), ANSWER)
        provider.shutdown()
    assert user_turns(Database(direct_dsn)) == [turn(number) for number in range(30)]
    until(lambda: own_threads().total() == 0, 20, "the end of our threads")
    until(lambda: Database(direct_dsn).client_connections() == 0, 20, "the end of our connections")
