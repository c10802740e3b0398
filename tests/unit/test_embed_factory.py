from __future__ import annotations

from pathlib import Path

import pytest

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.embed.factory import embedder_for
from tests.support.scripted_embedder import ScriptedEmbedder

DIMS = 16


def test_no_address_means_no_embedder(tmp_path: Path) -> None:
    assert embedder_for(Settings(embed_url=" ", dims=DIMS), "", home=tmp_path) is None


def test_a_wrong_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not an http:// or https:// URL"):
        embedder_for(Settings(embed_url="localhost:11434", dims=DIMS), "", home=tmp_path)


def test_cache_breaker_and_client_work_together(tmp_path: Path) -> None:
    with ScriptedEmbedder(dims=DIMS) as server:
        embed_through(server, tmp_path)


def embed_through(server: ScriptedEmbedder, home: Path) -> None:
    embedder = embedder_for(Settings(embed_url=server.url, embed_model="m", dims=DIMS), "", home=home)
    assert embedder is not None
    assert server.connections == 0
    assert (embedder.model, embedder.dims) == ("m", DIMS)
    embedder.embed_query("hello", timeout_s=10)
    embedder.embed_query("hello", timeout_s=10)
    embedder.embed_documents(["hello"], timeout_s=10)
    stats = embedder.stats()
    embedder.close()

    del stats["embed_ms"], stats["embed_wait_ms"]
    assert stats == {
        "embed_requests": 2,
        "embed_texts": 2,
        "embed_errors": 0,
        "embed_breaker_openings": 0,
        "embed_breaker_refusals": 0,
        "embed_cache_hits": 1,
        "embed_cache_misses": 1,
    }


def test_the_settings_reach_the_endpoint(tmp_path: Path) -> None:
    with ScriptedEmbedder(dims=DIMS) as server:
        settings = Settings(
            embed_url=f"{server.url}/v1",
            embed_model="nomic-embed-text",
            dims=DIMS,
            embed_query_prefix="Find:",
            embed_document_prefix="",
            embed_batch_size=2,
            embed_dimensions="always",
        )
        embedder = embedder_for(settings, "key-of-the-environment", home=tmp_path)
        assert embedder is not None
        embedder.embed_documents(["one", "two", "three"], timeout_s=10)
        embedder.embed_query("four", timeout_s=10)
        embedder.close()

        assert [body["input"] for body in server.bodies] == [["one", "two"], ["three"], ["Find: four"]]
        assert {body["dimensions"] for body in server.bodies} == {DIMS}
        assert server.headers[-1]["Authorization"] == "Bearer key-of-the-environment"
