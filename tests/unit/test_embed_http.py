from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermes_memory_pgvector.domain.errors import (
    ConfigurationError,
    EmbedderError,
    EmbedderUnavailable,
    InputTooLong,
)
from hermes_memory_pgvector.embed.embedder import Vector
from hermes_memory_pgvector.embed.http_embedder import MAX_DOCUMENT_CHARS, MAX_QUERY_CHARS, HttpEmbedder
from tests.support.certificate import make_certificate
from tests.support.embedding_server import Api
from tests.support.limits import LATE_S
from tests.support.scripted_embedder import Manners, Mode, ScriptedEmbedder, hash_vector

DIMS = 16
# What a loaded machine may add to a deadline.

Make = Callable[..., HttpEmbedder]


@pytest.fixture
def server() -> Iterator[ScriptedEmbedder]:
    with ScriptedEmbedder(dims=DIMS) as running:
        yield running


@pytest.fixture
def make(server: ScriptedEmbedder) -> Iterator[Make]:
    made: list[HttpEmbedder] = []

    def make_one(path: str = "", **settings: object) -> HttpEmbedder:
        arguments = {"url": server.url + path, "model": "all-minilm", "dims": DIMS} | settings
        made.append(HttpEmbedder(**arguments))  # type: ignore[arg-type]
        return made[-1]

    yield make_one
    for embedder in made:
        embedder.close()


@pytest.mark.parametrize("path", ["", "/api/embed", "/v1", "/v1/embeddings"])
def test_documents_and_questions_become_unit_vectors_in_order(make: Make, path: str) -> None:
    texts = ["one cat", "two dogs", "", "\0", "naïve \ud800 猫"]

    vectors = make(path).embed_documents(texts, timeout_s=10)

    sent = ["one cat", "two dogs", "-", "-", "naïve ? 猫"]
    assert vectors == [pytest.approx(hash_vector(text, DIMS)) for text in sent]
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0] * 5)
    assert make(path).embed_query("two dogs", timeout_s=10) == pytest.approx(hash_vector("two dogs", DIMS))


def test_nothing_to_embed_asks_nobody(server: ScriptedEmbedder, make: Make) -> None:
    assert make().embed_documents([], timeout_s=10) == []
    assert server.connections == 0


def test_batches_are_bounded_by_count_and_by_size(server: ScriptedEmbedder, make: Make) -> None:
    embedder = make()

    assert len(embedder.embed_documents([f"text {n}" for n in range(130)], timeout_s=10)) == 130
    assert [len(body["input"]) for body in server.bodies] == [64, 64, 2]

    server.bodies.clear()
    embedder.embed_documents(["word " * 1_200] * 10, timeout_s=30)
    assert [len(body["input"]) for body in server.bodies] == [4, 4, 2]

    server.bodies.clear()
    embedder.embed_documents(["猫" * 2_000] * 10, timeout_s=30)
    assert [len(body["input"]) for body in server.bodies] == [4, 4, 2]

    server.bodies.clear()
    make(max_batch_texts=3, max_batch_tokens=100).embed_documents(["w"] * 4 + ["word " * 99, "w"], timeout_s=30)
    assert [len(body["input"]) for body in server.bodies] == [3, 1, 1, 1]


def test_the_length_of_texts_is_bounded(server: ScriptedEmbedder, make: Make) -> None:
    embedder = make()
    embedder.embed_query("q" * 100_000, timeout_s=10)
    embedder.embed_documents(["d" * 100_000], timeout_s=10)

    assert [len(text) for text in server.texts] == [MAX_QUERY_CHARS, MAX_DOCUMENT_CHARS]


def test_connections_are_reused(server: ScriptedEmbedder, make: Make) -> None:
    embedder = make()
    for number in range(5):
        embedder.embed_query(f"question {number}", timeout_s=10)

    assert server.connections == 1


def test_threads_share_the_embedder(server: ScriptedEmbedder, make: Make) -> None:
    server.latency_ms = 5
    embedder = make()
    with ThreadPoolExecutor(12) as threads:
        texts = [f"question {number}" for number in range(60)]
        vectors = list(threads.map(lambda text: embedder.embed_query(text, timeout_s=30), texts))

    assert all(vector == pytest.approx(hash_vector(t, DIMS)) for t, vector in zip(texts, vectors, strict=True))
    assert server.connections <= 8


@pytest.mark.parametrize(("apis", "requests"), [(["ollama"], 2), (["openai"], 2)])
def test_the_protocol_is_detected_once(server: ScriptedEmbedder, make: Make, apis: list[Api], requests: int) -> None:
    server.apis = frozenset(apis)
    embedder = make()
    assert server.connections == 0, "making an embedder must not connect"

    embedder.embed_query("first", timeout_s=10)
    embedder.embed_query("second", timeout_s=10)

    assert server.requests == requests
    assert server.misses == (1 if apis == ["openai"] else 0)
    assert embedder.endpoint == server.url + ("/api/embed" if apis == ["ollama"] else "/v1/embeddings")


def test_detection_waits_for_an_endpoint_that_answers(server: ScriptedEmbedder, make: Make) -> None:
    server.apis = frozenset(["openai"])
    embedder = make()
    server.mode = "http_500"
    with pytest.raises(EmbedderUnavailable):
        embedder.embed_query("first", timeout_s=10)
    server.mode = "ok"

    assert len(embedder.embed_query("second", timeout_s=10)) == DIMS


def test_an_address_without_either_protocol_is_reported(server: ScriptedEmbedder, make: Make) -> None:
    server.apis = frozenset()
    with pytest.raises(EmbedderError, match=r"no embedding endpoint: .*/api/embed .*404.*/v1/embeddings .*404"):
        make().embed_query("hello", timeout_s=10)
    with pytest.raises(EmbedderError, match=r"/v1/embeddings answered HTTP 404: 404 page not found; check embed_url"):
        make("/v1").embed_query("hello", timeout_s=10)


FAULTS: list[tuple[Mode, type[EmbedderError], str]] = [
    ("http_500", EmbedderUnavailable, "answered HTTP 500: the model runner has crashed"),
    ("rate_limited", EmbedderUnavailable, "answered HTTP 429: slow down"),
    ("reset", EmbedderUnavailable, "Server disconnected without sending a response"),
    ("cut_body", EmbedderUnavailable, "peer closed connection without sending complete message body"),
    ("hanging", EmbedderUnavailable, "no complete answer within 0.3 s"),
    ("hanging_body", EmbedderUnavailable, "no complete answer within 0.3 s"),
    ("trickle", EmbedderUnavailable, "no complete answer within 0.3 s"),
    ("trickle_headers", EmbedderUnavailable, "no complete answer within 0.3 s"),
    ("wrong_dims", EmbedderError, "vector 1: expected 16 dimensions, got 17"),
    ("nan", EmbedderError, "vector 2: expected finite numbers, got NaN or infinity"),
    ("infinity", EmbedderError, "vector 2: expected finite numbers, got NaN or infinity"),
    ("zeros", EmbedderError, "vector 2: expected a direction, got a vector of zeros"),
    ("null_numbers", EmbedderError, "vector 2: expected 16 numbers, got something that is not one"),
    ("truncated_json", EmbedderError, "sent broken or cut-off JSON"),
    ("wrong_count", EmbedderError, "expected one vector for each text, 2, got 1"),
    ("not_json", EmbedderError, "expected JSON, got '<html>Welcome to the gateway</html>'"),
    ("empty_reply", EmbedderError, "expected JSON, got 'an empty reply'"),
    ("json_list", EmbedderError, "expected a JSON object, got '[1, 2]'"),
    ("unknown_model", EmbedderError, "not found, try pulling it first; check embed_model"),
    ("unauthorized", EmbedderError, "answered HTTP 401: incorrect key: None; check the API key"),
]


@pytest.mark.parametrize("path", ["/api/embed", "/v1"])
@pytest.mark.parametrize(("mode", "kind", "message"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_named_and_the_next_call_works(
    server: ScriptedEmbedder, make: Make, path: str, mode: Mode, kind: type[EmbedderError], message: str
) -> None:
    embedder = make(path, timeout_s=0.3 if "within 0.3 s" in message else 30)
    server.mode = mode
    began = time.monotonic()

    with pytest.raises(EmbedderError) as caught:
        embedder.embed_documents(["one cat", "two dogs"], timeout_s=30)

    assert time.monotonic() - began < 0.3 + LATE_S
    assert isinstance(caught.value, kind) and isinstance(caught.value, EmbedderUnavailable) is (
        kind is EmbedderUnavailable
    )
    assert message in str(caught.value)
    assert embedder.endpoint in str(caught.value)
    assert embedder.stats()["embed_errors"] == 1
    server.mode = "ok"
    embedder_in_good_time = make(path)
    assert len(embedder_in_good_time.embed_documents(["one cat", "two dogs"], timeout_s=30)) == 2


def test_one_embedder_recovers_by_itself(server: ScriptedEmbedder, make: Make) -> None:
    embedder = make()
    embedder.embed_query("before", timeout_s=10)
    for mode in ("down", "hanging", "truncated_json", "reset"):
        server.mode = mode
        with pytest.raises(EmbedderError):
            embedder.embed_query("during", timeout_s=0.3)
        server.mode = "ok"
        assert len(embedder.embed_query("after", timeout_s=10)) == DIMS


def test_a_closed_port_is_unavailable(server: ScriptedEmbedder, make: Make) -> None:
    server.mode = "down"

    with pytest.raises(EmbedderUnavailable, match=r"/api/embed: .*Connection refused"):
        make().embed_query("hello", timeout_s=10)


def test_a_name_that_does_not_resolve_is_unavailable(make: Make) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"cannot resolve nowhere\.invalid"):
        make(url="http://nowhere.invalid:11434").embed_query("hello", timeout_s=10)


@pytest.mark.parametrize(("header", "expected"), [("7", 7.0), ("soon", None), ("", None)])
def test_the_wish_of_a_busy_endpoint_is_handed_on(
    server: ScriptedEmbedder, make: Make, header: str, expected: float | None
) -> None:
    server.mode, server.retry_after = "rate_limited", header

    with pytest.raises(EmbedderUnavailable) as caught:
        make().embed_query("hello", timeout_s=10)

    assert caught.value.retry_after_s == expected


@pytest.mark.parametrize("mode", ["hanging", "hanging_body", "trickle", "trickle_headers"])
def test_the_deadline_of_a_call_holds_over_all_its_batches(server: ScriptedEmbedder, make: Make, mode: Mode) -> None:
    embedder = make(timeout_s=60)
    server.mode = mode
    began = time.monotonic()

    with pytest.raises(EmbedderUnavailable, match=r"no complete answer within 1\.2 s"):
        embedder.embed_documents(["text"] * 300, timeout_s=1.2)

    assert 1.0 < time.monotonic() - began < 1.2 + LATE_S
    assert server.requests == 1


def test_a_slow_endpoint_is_cut_off_between_batches(server: ScriptedEmbedder, make: Make) -> None:
    server.latency_ms = 450

    with pytest.raises(EmbedderUnavailable, match=r"no complete answer within 1\.2 s"):
        make().embed_documents(["text"] * 64 * 20, timeout_s=1.2)

    assert 1 <= server.requests <= 3


def test_no_time_left_asks_nobody(server: ScriptedEmbedder, make: Make) -> None:
    with pytest.raises(EmbedderUnavailable, match="no complete answer within 0 s"):
        make().embed_query("hello", timeout_s=0)
    assert server.connections == 0


@pytest.mark.parametrize("path", ["/api/embed", "/v1"])
def test_a_text_over_the_models_context_is_embedded_by_its_head(
    server: ScriptedEmbedder, make: Make, path: str
) -> None:
    server.mode, server.max_chars = "too_long", 300
    long_text = "start " + "filler " * 1_000
    texts = ["one cat", long_text, "two dogs", "three birds"]

    vectors = make(path).embed_documents(texts, timeout_s=30)

    accepted = [text for body in server.bodies for text in body["input"] if len(text) <= 300]
    head = next(text for text in accepted if text.startswith("start"))
    assert long_text.startswith(head) and len(head) > 150
    expected = [hash_vector(text, DIMS) for text in ("one cat", head, "two dogs", "three birds")]
    assert vectors == [pytest.approx(each) for each in expected]


def test_a_long_question_is_shortened_too(server: ScriptedEmbedder, make: Make) -> None:
    server.mode, server.max_chars = "too_long", 300

    assert len(make().embed_query("what " * 2_000, timeout_s=30)) == DIMS


def test_an_endpoint_that_finds_everything_too_long_is_given_up(server: ScriptedEmbedder, make: Make) -> None:
    server.mode, server.max_chars = "too_long", -1

    with pytest.raises(InputTooLong, match="the input length exceeds the context length"):
        make().embed_documents(["word " * 5_000], timeout_s=30)

    assert server.requests == 9


def test_a_limit_on_the_number_of_texts_is_learned(server: ScriptedEmbedder, make: Make) -> None:
    server.max_texts = 32
    embedder = make()

    assert len(embedder.embed_documents([f"text {n}" for n in range(128)], timeout_s=30)) == 128

    assert [len(body["input"]) for body in server.bodies] == [64, 32, 32, 32, 32]


def test_keys_and_passwords_are_sent_but_never_told(server: ScriptedEmbedder, make: Make) -> None:
    server.mode = "unauthorized"
    with_key = make("/v1", api_key=" sk-very-secret\n")
    with_password = make(url=server.url.replace("://", "://me:pass%20word@") + "/v1")

    with pytest.raises(EmbedderError, match=r"incorrect key: Bearer \*\*\*; check the API key") as caught:
        with_key.embed_query("hello", timeout_s=10)
    assert server.headers[-1]["Authorization"] == "Bearer sk-very-secret"
    assert "secret" not in str(caught.value) + repr(caught.value)

    with pytest.raises(EmbedderError) as caught:
        with_password.embed_query("hello", timeout_s=10)
    assert server.headers[-1]["Authorization"] == "Basic bWU6cGFzcyB3b3Jk"
    assert "word" not in str(caught.value) + with_password.endpoint


def test_an_azure_address_gets_its_own_header(server: ScriptedEmbedder, make: Make) -> None:
    make("/v1/embeddings?api-version=2024-02-01", api_key="azure-key").embed_query("hello", timeout_s=10)

    assert server.headers[-1]["api-key"] == "azure-key"
    assert "Authorization" not in server.headers[-1]


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines"])
def test_a_key_that_no_header_can_hold_is_refused_unnamed(make: Make, key: str) -> None:
    with pytest.raises(ConfigurationError, match="API key holds characters") as caught:
        make(api_key=key)
    assert key not in str(caught.value)


def test_what_was_done_is_counted(server: ScriptedEmbedder, make: Make) -> None:
    server.latency_ms = 20
    embedder = make()
    embedder.embed_documents(["text"] * 70, timeout_s=30)
    server.mode = "http_500"
    with pytest.raises(EmbedderUnavailable):
        embedder.embed_query("hello", timeout_s=10)

    stats = embedder.stats()

    assert {name: stats[name] for name in ("embed_requests", "embed_texts", "embed_errors")} == {
        "embed_requests": 3,
        "embed_texts": 70,
        "embed_errors": 1,
    }
    assert stats["embed_ms"] >= 50


def test_closing_ends_a_call_that_hangs(server: ScriptedEmbedder, make: Make) -> None:
    embedder = make(timeout_s=60)
    server.mode = "hanging"
    failed: list[EmbedderError] = []

    def ask() -> None:
        try:
            embedder.embed_query("hello", timeout_s=60)
        except EmbedderError as exc:
            failed.append(exc)

    thread = threading.Thread(target=ask)
    thread.start()
    assert server.arrived.wait(60)
    embedder.close()
    thread.join(30)

    assert not thread.is_alive()
    assert [type(error) for error in failed] == [EmbedderUnavailable]


def test_closing_twice_is_fine_and_later_calls_are_told(make: Make) -> None:
    embedder = make()
    embedder.embed_query("hello", timeout_s=10)
    embedder.close()
    embedder.close()

    with pytest.raises(EmbedderUnavailable, match="the embedder was closed"):
        embedder.embed_query("hello", timeout_s=10)


def test_a_reply_without_end_is_cut_off(server: ScriptedEmbedder, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_memory_pgvector.embed.http_client.MAX_REPLY_BYTES", 1_000)

    with pytest.raises(EmbedderError, match="expected less than 1000 bytes, got more"):
        make().embed_documents(["text"] * 20, timeout_s=10)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, '{"error": "the input length exceeds the context length"}'),
        (500, '{"error": {"message": "input (992 tokens) is too large to process. increase the physical batch size"}}'),
        (413, '{"error": "Input validation error: `inputs` must have less than 512 tokens. Given: 900"}'),
        (400, '{"error": {"message": "Invalid \'input[0]\': maximum input length is 8192 tokens."}}'),
    ],
)
def test_every_servers_words_for_too_long_are_understood(
    server: ScriptedEmbedder, make: Make, status: int, said: str
) -> None:
    server.mode, server.max_chars, server.too_long_reply = "too_long", 300, (status, said)

    vectors = make("/v1").embed_documents(["one cat", "filler " * 1_000, "two dogs"], timeout_s=30)

    assert [vectors[0], vectors[2]] == [pytest.approx(hash_vector(text, DIMS)) for text in ("one cat", "two dogs")]
    assert len(vectors[1]) == DIMS


def test_a_long_text_that_is_refused_in_unknown_words_is_embedded_by_its_head(
    server: ScriptedEmbedder, make: Make
) -> None:
    server.mode, server.max_chars, server.too_long_reply = "too_long", 1_000, (400, '{"error": "Nein."}')
    embedder = make("/v1")

    assert len(embedder.embed_documents(["filler " * 1_000], timeout_s=30)[0]) == DIMS
    with pytest.raises(EmbedderError, match=r"HTTP 400: Nein\."):
        embedder.embed_documents(["filler " * 200], timeout_s=30)


@pytest.mark.parametrize(("manners", "requests"), [("obeys", 2), ("ignores", 2), ("refuses", 3)])
def test_base64_is_asked_for_where_it_is_offered(
    server: ScriptedEmbedder, make: Make, manners: Manners, requests: int
) -> None:
    server.base64 = manners
    embedder = make("/v1")

    for text in ("one cat", "two dogs"):
        assert embedder.embed_query(text, timeout_s=10) == pytest.approx(hash_vector(text, DIMS), abs=1e-6)

    assert server.requests == requests
    assert ("encoding_format" in server.bodies[-1]) is (manners != "refuses")


@pytest.mark.parametrize("path", ["/api/embed", "/v1"])
@pytest.mark.parametrize(
    ("manners", "requests", "asked"), [("obeys", 3, True), ("ignores", 3, True), ("refuses", 3, False)]
)
def test_a_matryoshka_model_gives_vectors_of_the_databases_size(
    server: ScriptedEmbedder, make: Make, path: str, manners: Manners, requests: int, asked: bool
) -> None:
    server.native_dims, server.dimensions = 64, manners
    embedder = make(path, model="text-embedding-3-small")

    for text in ("one cat", "two dogs"):
        assert embedder.embed_query(text, timeout_s=10) == pytest.approx(hash_vector(text, DIMS), abs=1e-6)

    assert ("dimensions" in server.bodies[-1]) is asked
    assert server.requests <= requests + 1


def test_other_models_vectors_are_not_cut_unless_the_setting_says_so(server: ScriptedEmbedder, make: Make) -> None:
    server.native_dims = 64
    with pytest.raises(EmbedderError, match="expected 16 dimensions, got 64"):
        make(model="all-minilm").embed_query("hello", timeout_s=10)
    with pytest.raises(EmbedderError, match="expected 16 dimensions, got 64"):
        make(model="text-embedding-3-small", dimensions="never").embed_query("hello", timeout_s=10)
    assert not any("dimensions" in body for body in server.bodies)

    assert len(make(model="all-minilm", dimensions="always").embed_query("hello", timeout_s=10)) == DIMS


def test_a_request_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedEmbedder(dims=DIMS) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        embedder = HttpEmbedder(url="http://embeddings.invalid:11434", model="all-minilm", dims=DIMS)
        # The scripted server knows no absolute addresses, which only a proxy is sent.
        with pytest.raises(EmbedderError, match="no embedding endpoint"):
            embedder.embed_query("hello", timeout_s=10)
        embedder.close()

        assert proxy.misses == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HTTP_PROXY", "gopher://127.0.0.1:1", "the proxy that the environment names cannot be used"),
        ("SSL_CERT_FILE", "/nonexistent/ca.pem", "the certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read"),
    ],
)
def test_an_environment_that_cannot_be_used_is_told(
    make: Make, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(EmbedderError, match=message):
        make(url="https://127.0.0.1:1").embed_query("hello", timeout_s=10)


@pytest.mark.parametrize("password", ["Xq7pass#1", "Xq7/pass", "Xq7pass?1"])
def test_need_22_a_proxy_that_cannot_be_used_is_told_without_its_password(
    make: Make, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://user:{password}@proxy:8080")

    with pytest.raises(EmbedderError, match="the proxy that the environment names cannot be used") as told:
        make(url="http://embeddings.invalid:11434").embed_query("hello", timeout_s=10)

    assert "Xq7" not in str(told.value)


def test_without_tls_no_certificates_are_read(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent/ca.pem")

    assert len(make().embed_query("hello", timeout_s=10)) == DIMS


def test_a_certificate_file_that_is_not_there_is_told(make: Make) -> None:
    with pytest.raises(EmbedderError, match=r"certificates of embed_ca_file /nonexistent/ca\.pem cannot be read"):
        make(ca_file="/nonexistent/ca.pem").embed_query("hello", timeout_s=10)


def test_a_private_certificate_is_trusted_by_setting_or_by_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, tls = make_certificate(tmp_path)

    def ask(ca_file: str) -> Vector:
        embedder = HttpEmbedder(url=server.url, model="all-minilm", dims=DIMS, ca_file=ca_file)
        try:
            return embedder.embed_query("one cat", timeout_s=10)
        finally:
            embedder.close()

    with ScriptedEmbedder(dims=DIMS, tls=tls) as server:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
        with pytest.raises(EmbedderUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            ask("")
        assert ask(str(trusted)) == pytest.approx(hash_vector("one cat", DIMS))
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert ask("") == pytest.approx(hash_vector("one cat", DIMS))


def test_a_deadline_holds_over_tls_too(tmp_path: Path) -> None:
    trusted, tls = make_certificate(tmp_path)
    with ScriptedEmbedder(dims=DIMS, tls=tls, mode="trickle_headers") as server:
        embedder = HttpEmbedder(url=server.url, model="all-minilm", dims=DIMS, ca_file=str(trusted))
        began = time.monotonic()
        with pytest.raises(EmbedderUnavailable, match=r"no complete answer within 1\.2 s"):
            embedder.embed_query("hello", timeout_s=1.2)
        embedder.close()

    assert time.monotonic() - began < 1.2 + LATE_S
