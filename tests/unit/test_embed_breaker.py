from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.errors import EmbedderError, EmbedderUnavailable, InputTooLong
from hermes_memory_pgvector.embed.breaker import CircuitBreaker
from hermes_memory_pgvector.embed.cache import CachedEmbedder
from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from tests.support.scripted_embedder import Mode, ScriptedEmbedder

DIMS = 8


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock, *, times: int = 1) -> CircuitBreaker:
    """A breaker that has just been opened, and then has had `times - 1` failed probes."""
    breaker = CircuitBreaker(failures=3, cooldown_s=5.0, max_cooldown_s=60.0, clock=clock)
    for _ in range(3):
        assert breaker.allow()
        breaker.failure()
    for _ in range(times - 1):
        clock.now += breaker.remaining_s()
        assert breaker.allow()
        breaker.failure()
    return breaker


def test_it_opens_at_the_third_failure_in_a_row() -> None:
    breaker = CircuitBreaker(failures=3, clock=Clock())

    told = [breaker.failure(), breaker.failure(), breaker.success(), breaker.failure(), breaker.failure()]
    assert told == [False] * 5
    assert (breaker.state, breaker.allow()) == ("closed", True)

    assert breaker.failure() is True
    assert (breaker.state, breaker.allow()) == ("open", False)


def test_a_probe_that_works_closes_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += breaker.remaining_s()

    assert [breaker.allow() for _ in range(3)] == [True, False, False]
    assert breaker.state == "half-open"
    assert breaker.success() is True
    assert (breaker.state, breaker.allow()) == ("closed", True)
    assert (breaker.failure(), breaker.state) == (False, "closed"), "it must count from zero again"


def test_each_failed_probe_doubles_the_pause_up_to_the_bound() -> None:
    full = [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    for times, full_s in enumerate(full, 1):
        pauses = [opened(Clock(), times=times).remaining_s() for _ in range(40)]
        assert all(0.75 * full_s <= pause <= full_s for pause in pauses)
        assert len(set(pauses)) > 1, "processes must not probe in step"


def test_pauses_stay_bounded_after_years() -> None:
    assert opened(Clock(), times=3_000).remaining_s() <= 60.0


@pytest.mark.parametrize("wish_s", [1.0, 30.0, 500.0])
def test_the_endpoints_wish_is_honoured_at_once(wish_s: float) -> None:
    breaker = CircuitBreaker(failures=3, cooldown_s=5.0, clock=Clock())

    assert breaker.failure(retry_after_s=wish_s) is True

    assert max(wish_s, 3.75) <= breaker.remaining_s() <= max(wish_s, 5.0)


def test_stragglers_neither_close_nor_reopen_it() -> None:
    breaker = opened(Clock())
    left_s = breaker.remaining_s()

    assert breaker.success() is False
    assert breaker.failure() is False
    assert (breaker.state, breaker.remaining_s()) == ("open", left_s)
    breaker.failure(retry_after_s=90)
    assert breaker.remaining_s() == 90


def test_a_probe_that_never_reports_is_replaced() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += breaker.remaining_s()
    assert breaker.allow()

    clock.now += 59
    assert not breaker.allow()
    clock.now += 1
    assert breaker.allow()


def test_of_many_threads_one_probes() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += breaker.remaining_s()
    barrier = threading.Barrier(16)

    def ask(_: int) -> bool:
        barrier.wait(30)
        return breaker.allow()

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(ask, range(16))) == 1


@given(st.lists(st.one_of(st.sampled_from(["call ok", "call fails"]), st.floats(0.1, 40.0)), max_size=80))
def test_it_never_calls_while_open_and_always_tries_again(events: list[str | float]) -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures=3, cooldown_s=5.0, max_cooldown_s=60.0, clock=clock)
    failures_in_row, opened_at = 0, None
    for event in events:
        if isinstance(event, float):
            clock.now += event
            continue
        if not breaker.allow():
            assert opened_at is not None and clock.now - opened_at < 60.0
            continue
        assert opened_at is None or clock.now - opened_at >= 5.0 * 0.75
        if event == "call ok":
            breaker.success()
            failures_in_row, opened_at = 0, None
        else:
            breaker.failure()
            failures_in_row += 1
            opened_at = clock.now if failures_in_row >= 3 else None
        assert breaker.state == ("closed" if opened_at is None else "open")


class Guarded:
    """A guarded embedder of a scripted endpoint, on a clock of its own."""

    def __init__(self, server: ScriptedEmbedder) -> None:
        self.server = server
        self.clock = Clock()
        self.breaker = CircuitBreaker(failures=3, clock=self.clock)
        inner = HttpEmbedder(url=server.url, model="all-minilm", dims=DIMS, api="ollama")
        self.embedder = CachedEmbedder(inner, name=inner.endpoint, breaker=self.breaker)

    def fails(self, mode: Mode, times: int = 1) -> EmbedderError:
        self.server.mode = mode
        for _ in range(times):
            with pytest.raises(EmbedderError) as caught:
                self.embedder.embed_query("hello", timeout_s=10)
        return caught.value

    def works(self) -> None:
        self.server.mode = "ok"
        assert len(self.embedder.embed_query("hello", timeout_s=10)) == DIMS

    def wait_out(self) -> None:
        self.clock.now += self.breaker.remaining_s()


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with ScriptedEmbedder(dims=DIMS) as server:
        under_test = Guarded(server)
        yield under_test
        under_test.embedder.close()


def test_an_open_breaker_costs_no_request_and_names_the_cause(guarded: Guarded) -> None:
    guarded.fails("http_500", times=3)

    refusal = guarded.fails("http_500")

    assert guarded.server.requests == 3
    assert type(refusal) is EmbedderUnavailable
    assert f"{guarded.server.url}/api/embed is left alone for" in str(refusal)
    assert "the model runner has crashed" in str(refusal)
    assert refusal.retry_after_s == guarded.breaker.remaining_s()
    with pytest.raises(EmbedderUnavailable):
        guarded.embedder.embed_documents(["hello"], timeout_s=10)
    stats = guarded.embedder.stats()
    assert (stats["embed_breaker_openings"], stats["embed_breaker_refusals"], stats["embed_requests"]) == (1, 2, 3)


def test_it_recovers_unattended(guarded: Guarded) -> None:
    guarded.fails("down", times=3)
    guarded.wait_out()
    guarded.fails("down")
    guarded.wait_out()
    guarded.works()
    guarded.works()

    assert guarded.breaker.state == "closed"


def test_opening_and_closing_are_logged_once_each(guarded: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="hermes_memory_pgvector")

    guarded.fails("http_500", times=5)
    for _ in range(3):
        guarded.wait_out()
        guarded.fails("http_500", times=2)
    guarded.wait_out()
    guarded.works()
    guarded.works()

    ours = [record for record in caplog.records if record.name.startswith("hermes_memory_pgvector")]
    assert [record.levelno for record in ours] == [logging.WARNING, logging.INFO]
    assert f"{guarded.server.url}/api/embed is left alone for" in ours[0].getMessage()
    assert "the model runner has crashed" in ours[0].getMessage()
    assert ours[1].getMessage() == f"{guarded.server.url}/api/embed answers again"


def test_unusable_answers_open_it_as_missing_ones_do(guarded: Guarded) -> None:
    guarded.fails("wrong_dims", times=3)

    assert guarded.breaker.state == "open"


def test_the_wish_of_a_busy_endpoint_opens_it_at_once(guarded: Guarded) -> None:
    guarded.server.retry_after = "40"
    guarded.fails("rate_limited")

    assert guarded.breaker.remaining_s() == 40


def test_texts_that_are_too_long_do_not_open_it(guarded: Guarded) -> None:
    guarded.server.max_chars = 0
    error = guarded.fails("too_long", times=5)

    assert type(error) is InputTooLong
    assert guarded.breaker.state == "closed"


def test_while_a_probe_is_under_way_others_are_told_so(guarded: Guarded) -> None:
    guarded.fails("http_500", times=3)
    guarded.wait_out()
    assert guarded.breaker.allow()

    refusal = guarded.fails("http_500")

    assert "is being tried by another call after failing" in str(refusal)
    assert isinstance(refusal, EmbedderUnavailable)
    assert refusal.retry_after_s is None
