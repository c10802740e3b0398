"""The rerank endpoint's protocols and faults."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable
from hermes_memory_pgvector.embed.factory import reranker_for
from hermes_memory_pgvector.embed.reranker import MAX_TEXT_CHARS, Reranker
from tests.support.certificate import make_certificate
from tests.support.limits import LATE_S
from tests.support.scripted_reranker import FAULTS, Api, Mode, ScriptedReranker
from tests.support.turns import seconds

QUESTION = "who greases the harbour crane"
TEXTS = ["Violet invoices", "Ingrid greases the harbour crane", "the crane"]
TIMEOUT_S = 20.0


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/rerank", "/v1/rerank"])
@pytest.mark.parametrize("api", ["cohere", "tei"])
def test_the_protocol_is_found_out(api: Api, suffix: str) -> None:
    paths = ("/rerank",) if api == "tei" else ("/rerank", "/v1/rerank")
    if api == "tei" and "v1" in suffix:
        paths = ("/v1/rerank",)
    with ScriptedReranker(apis=[api], paths=paths) as server:
        reranker = Reranker(url=server.url + suffix, model="cross")
        assert reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S) == (0.0, 4.0, 2.0)
        refused = server.refused
        reranker.scores(QUESTION, TEXTS[::-1], timeout_s=TIMEOUT_S)
        assert (server.refused, len(server.bodies)) == (refused, 2), "found out once"
        reranker.close()


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("cohere", {"model": "cross", "query": QUESTION, "documents": TEXTS, "top_n": 3}),
        ("tei", {"query": QUESTION, "texts": TEXTS, "truncate": True}),
    ],
)
def test_a_protocol_that_is_set_is_used_at_once(api: str, body: dict[str, Any]) -> None:
    with ScriptedReranker() as server:
        reranker = Reranker(url=f"{server.url}/rerank", model="cross", api=api, api_key="key-123456")
        assert reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S) == (0.0, 4.0, 2.0)
        assert server.bodies == [body] and server.refused == 0
        assert server.headers[0]["Authorization"] == "Bearer key-123456"
        reranker.close()


def test_without_a_model_none_is_named() -> None:
    with ScriptedReranker() as server:
        reranker = Reranker(url=server.url)
        reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)
        assert "model" not in server.bodies[0] and "Authorization" not in server.headers[0]
        reranker.close()


def test_what_was_scored_is_remembered_and_failures_are_not() -> None:
    with ScriptedReranker(mode="http_500") as server:
        reranker = Reranker(url=server.url)
        with pytest.raises(EmbedderError):
            reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)
        server.mode = "ok"
        first = reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)
        asked = len(server.bodies)
        assert reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S) == first
        assert len(server.bodies) == asked
        reranker.scores(QUESTION + "?", TEXTS, timeout_s=TIMEOUT_S)
        reranker.scores(QUESTION, TEXTS[:2], timeout_s=TIMEOUT_S)
        assert len(server.bodies) == asked + 2
        assert reranker.scores(QUESTION, [], timeout_s=TIMEOUT_S) == ()
        assert reranker.stats()["rerank_cache_hits"] == 1
        reranker.close()


def test_any_text_can_be_sent() -> None:
    with ScriptedReranker(score=lambda question, text: float(len(text))) as server:
        reranker = Reranker(url=server.url)
        texts = ["", "  \n", "\0", "\ud800", "仓库" * 4000, "مرحبا", '"\\', "🎉" * 10]
        assert len(reranker.scores("\0\ud800", texts, timeout_s=TIMEOUT_S)) == len(texts)
        assert max(map(len, server.bodies[0]["documents"])) <= MAX_TEXT_CHARS
        assert all(text.strip() for text in server.bodies[0]["documents"])
        reranker.close()


@pytest.mark.parametrize("mode", FAULTS)
@pytest.mark.parametrize("api", ["auto", "tei"])
def test_an_answer_that_is_none_is_an_error_in_words(mode: Mode, api: str) -> None:
    with ScriptedReranker(mode=mode) as server:
        reranker = Reranker(url=server.url, api=api, api_key="key-123456")
        timeout_s = 0.2 if mode == "hanging" else TIMEOUT_S
        with pytest.raises(EmbedderError) as caught:
            reranker.scores(QUESTION, TEXTS, timeout_s=timeout_s)
        assert server.url in str(caught.value) and len(str(caught.value).split()) > 4
        assert "key-123456" not in str(caught.value)
        assert reranker.stats()["rerank_errors"] == 1
        server.mode = "ok"
        if mode != "rate_limited":  # that one asked to be left alone
            assert reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S) == (0.0, 4.0, 2.0)
        reranker.close()


def test_after_failures_in_a_row_the_endpoint_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedReranker(mode="http_500") as server:
        reranker = Reranker(url=server.url)
        for _ in range(3):
            with pytest.raises(EmbedderUnavailable):
                reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)
        asked = len(server.bodies)
        for _ in range(20):
            with pytest.raises(EmbedderUnavailable, match="is paused"):
                reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)
        assert len(server.bodies) == asked
        assert reranker.state() == "open"
        warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1 and "keep the order that words and meaning gave them" in warnings[0]
        assert reranker.stats()["rerank_breaker_openings"] == 1
        reranker.close()


def test_the_timeout_holds() -> None:
    with ScriptedReranker(mode="hanging") as server:
        reranker = Reranker(url=server.url)

        def ask() -> None:
            with pytest.raises(EmbedderUnavailable):
                reranker.scores(QUESTION, TEXTS, timeout_s=0.3)

        assert seconds(ask) < 0.3 + LATE_S
        reranker.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "localhost:8080"}, "rerank_url .* is not an http"),
        ({"url": "http://user:hunter2@"}, "rerank_url"),
        ({"url": "http://127.0.0.1", "api": "jina"}, "rerank_api 'jina' is not known"),
        ({"url": "http://127.0.0.1", "api_key": "schlüssel"}, "rerank endpoint's API key"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(arguments: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        Reranker(**arguments)  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


def test_a_private_certificate_is_trusted_where_the_setting_names_it(tmp_path: Path) -> None:
    trusted, tls = make_certificate(tmp_path)
    with ScriptedReranker(tls=tls) as server:
        stranger = Reranker(url=server.url)
        with pytest.raises(EmbedderUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)
        stranger.close()
        settings = Settings(rerank_url=server.url, embed_ca_file=str(trusted))
        reranker = reranker_for(settings, "")
        assert len(reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)) == len(TEXTS)
        reranker.close()


def test_a_server_without_such_an_endpoint_is_named_with_the_settings_to_check() -> None:
    with ScriptedReranker(paths=[]) as server:
        reranker = Reranker(url=server.url)
        with pytest.raises(EmbedderError, match=r"rerank_url names no rerank endpoint: .*404.*check rerank_url"):
            reranker.scores(QUESTION, TEXTS, timeout_s=TIMEOUT_S)
        reranker.close()
