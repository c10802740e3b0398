from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from hermes_memory_pgvector.domain.errors import EmbedderUnavailable
from hermes_memory_pgvector.embed.cache import CachedEmbedder
from hermes_memory_pgvector.embed.embedder import Vector
from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from tests.support.scripted_embedder import ScriptedEmbedder, hash_vector
from tests.support.waiting import until

DIMS = 8


@pytest.fixture
def server() -> Iterator[ScriptedEmbedder]:
    with ScriptedEmbedder(dims=DIMS) as running:
        yield running


@pytest.fixture
def embedder(server: ScriptedEmbedder) -> Iterator[CachedEmbedder]:
    inner = HttpEmbedder(url=server.url, model="all-minilm", dims=DIMS, api="ollama")
    cached = CachedEmbedder(inner, name=inner.endpoint, max_queries=3)
    yield cached
    cached.close()


def test_a_question_is_embedded_once(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    first = embedder.embed_query("which pet?", timeout_s=10)
    first.clear()
    again = embedder.embed_query("which pet?", timeout_s=10)

    assert again == pytest.approx(hash_vector("which pet?", DIMS)), "a caller's changes must not reach the cache"
    assert server.requests == 1


def test_a_known_question_needs_no_endpoint(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    embedder.embed_query("which pet?", timeout_s=10)
    server.mode = "down"

    assert len(embedder.embed_query("which pet?", timeout_s=10)) == DIMS


def test_what_is_known_is_told_without_a_call(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    assert embedder.known_query("which pet?") is None
    embedder.embed_query("which pet?", timeout_s=10)
    embedder.known_query("which pet?").clear()  # type: ignore[union-attr]

    assert embedder.known_query("which pet?") == pytest.approx(hash_vector("which pet?", DIMS))
    assert server.requests == 1
    assert embedder.stats()["embed_cache_hits"] == 2


def test_the_questions_asked_last_are_kept(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    for question in ("a", "b", "c", "a", "d", "a", "c", "d", "b"):
        embedder.embed_query(question, timeout_s=10)

    assert server.texts == ["a", "b", "c", "d", "b"]
    stats = embedder.stats()
    assert (stats["embed_cache_hits"], stats["embed_cache_misses"]) == (4, 5)


def test_documents_pass_through(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    embedder.embed_documents(["a", "a"], timeout_s=10)
    embedder.embed_documents(["a"], timeout_s=10)

    assert server.texts == ["a", "a", "a"]


def test_errors_are_not_kept(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    server.mode = "http_500"
    with pytest.raises(EmbedderUnavailable):
        embedder.embed_query("which pet?", timeout_s=10)
    server.mode = "ok"

    assert len(embedder.embed_query("which pet?", timeout_s=10)) == DIMS


def test_odd_questions_are_cached_too(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    for question in ("\ud800", "x" * 200_000, ""):
        assert embedder.embed_query(question, timeout_s=10) == embedder.embed_query(question, timeout_s=10)

    assert server.requests == 3


def ask_together(
    threads: ThreadPoolExecutor, server: ScriptedEmbedder, embedder: CachedEmbedder, timeout_s: float
) -> list[Future[Vector]]:
    """One thread asks the endpoint, which hangs; seven more ask the same meanwhile."""
    server.mode = "hanging"
    asked = [threads.submit(embedder.embed_query, "which pet?", timeout_s=60)]
    assert server.arrived.wait(30)
    asked += [threads.submit(embedder.embed_query, "which pet?", timeout_s=timeout_s) for _ in range(7)]
    until(lambda: embedder.stats()["embed_cache_hits"] == 7, 30)
    return asked


def test_threads_with_the_same_question_share_a_request(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    server.latency_ms = 300
    barrier = threading.Barrier(8)

    def ask(_: int) -> Vector:
        barrier.wait(30)
        return embedder.embed_query("which pet?", timeout_s=30)

    with ThreadPoolExecutor(8) as threads:
        vectors = list(threads.map(ask, range(8)))

    assert vectors == [vectors[0]] * 8
    assert server.requests == 1


def test_they_share_its_failure_as_well(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    with ThreadPoolExecutor(8) as threads:
        asked = ask_together(threads, server, embedder, timeout_s=60)
        server.mode = "ok"
        errors = [future.exception(30) for future in asked]

    assert {type(error) for error in errors} == {EmbedderUnavailable}
    assert len({str(error) for error in errors}) == 1
    assert len({id(error) for error in errors}) == 8, "a shared exception object mixes tracebacks"
    assert server.requests == 1


def test_each_waits_no_longer_than_it_may(server: ScriptedEmbedder, embedder: CachedEmbedder) -> None:
    with ThreadPoolExecutor(8) as threads:
        asked = ask_together(threads, server, embedder, timeout_s=0.2)
        with pytest.raises(EmbedderUnavailable, match=r"asked by another thread, had no answer in 0\.2 s"):
            asked[-1].result(30)
        server.mode = "down"
