from __future__ import annotations

import pytest

from hermes_memory_pgvector.domain.errors import (
    ConfigurationError,
    EmbedderError,
    EmbedderUnavailable,
    InputTooLong,
)
from hermes_memory_pgvector.embed.wire import (
    MAX_RETRY_AFTER_S,
    Endpoint,
    NoSuchEndpoint,
    endpoints_for,
    redacted,
    refusal,
    retry_after_s,
    vectors_in,
)

HOST = "http://gpu:11434"
OLLAMA = Endpoint("ollama", f"{HOST}/api/embed")
OPENAI = Endpoint("openai", f"{HOST}/v1/embeddings")


@pytest.mark.parametrize(
    ("url", "api", "expected"),
    [
        (HOST, "auto", [OLLAMA, OPENAI]),
        (f" {HOST}/ ", "auto", [OLLAMA, OPENAI]),
        (f"{HOST}/proxy", "auto", [("ollama", "/proxy/api/embed"), ("openai", "/proxy/v1/embeddings")]),
        (f"{HOST}/api/embed", "auto", [OLLAMA]),
        (f"{HOST}/api/embed/", "auto", [OLLAMA]),
        (f"{HOST}/api", "auto", [OLLAMA]),
        (f"{HOST}/api/embeddings", "auto", [OLLAMA]),
        (f"{HOST}/v1/embeddings", "auto", [OPENAI]),
        (f"{HOST}/v1", "auto", [OPENAI]),
        (f"{HOST}/v1/", "auto", [OPENAI]),
        (f"{HOST}/openai/v3", "auto", [("openai", "/openai/v3/embeddings")]),
        (
            f"{HOST}/openai/deployments/x/embeddings?api-version=1",
            "auto",
            [("openai", "/openai/deployments/x/embeddings?api-version=1")],
        ),
        (HOST, "ollama", [OLLAMA]),
        (f"{HOST}/v1", "ollama", [OLLAMA]),
        (HOST, "openai", [OPENAI]),
        (f"{HOST}/api/embed", "openai", [OPENAI]),
        (f"{HOST}/custom/embeddings", "openai", [("openai", "/custom/embeddings")]),
        ("http://me:secret@gpu:11434/v1", "auto", [OPENAI]),
    ],
)
def test_where_to_post(url: str, api: str, expected: list[Endpoint | tuple[str, str]]) -> None:
    wanted = [each if isinstance(each, Endpoint) else (each[0], HOST + each[1]) for each in expected]

    found = endpoints_for(url, api)

    assert [(each.api, each.url) for each in found] == [
        (each.api, each.url) if isinstance(each, Endpoint) else each for each in wanted
    ]


@pytest.mark.parametrize(
    "url",
    [
        "gpu:11434",
        "ftp://me:secret@gpu",
        "http://",
        "http://me:secret@gpu:port/",
        "http://me:sec/secret@gpu:11434",
        "http://me:sec?secret@gpu:x",
        "http://[me:secret@gpu",
    ],
)
def test_a_url_that_cannot_be_used_is_named_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an http:// or https:// URL with a host") as caught:
        endpoints_for(url, "auto")

    assert "sec" not in str(caught.value)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="embed_api 'grpc' is not known; use auto, ollama or openai"):
        endpoints_for(HOST, "grpc")


def test_labels_hold_no_secrets() -> None:
    assert redacted("https://me:secret@gpu:1/v1?key=secret#x") == "https://gpu:1/v1"
    assert Endpoint("openai", "https://gpu/v1/embeddings?key=secret").label == "https://gpu/v1/embeddings"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("86400", MAX_RETRY_AFTER_S),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("inf", MAX_RETRY_AFTER_S),
        ("nan", None),
        ("", None),
        ("soon", None),
    ],
)
def test_retry_after(value: str, expected: float | None) -> None:
    assert retry_after_s(value, now=60.0) == expected


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (400, '{"error": "the input length exceeds the context length"}', InputTooLong),
        (500, '{"error": "input length exceeds maximum context length"}', InputTooLong),
        (400, '{"error": {"message": "This model\'s maximum context length is 8192 tokens"}}', InputTooLong),
        (400, '{"error": {"message": "too many tokens in the request"}}', InputTooLong),
        (400, '{"detail": "Input too long"}', InputTooLong),
        (413, "", InputTooLong),
        (422, '{"error": "`inputs` must have less than 512 tokens. Given: 900"}', InputTooLong),
        (500, '{"error": {"message": "input is too large to process. increase the batch"}}', InputTooLong),
        (504, "the upstream request took too long", EmbedderUnavailable),
        (500, '{"error": "out of memory"}', EmbedderUnavailable),
        (503, "", EmbedderUnavailable),
        (408, "", EmbedderUnavailable),
        (429, '{"error": "too many tokens a minute"}', EmbedderUnavailable),
        (404, "404 page not found", NoSuchEndpoint),
        (405, '{"detail": "Method Not Allowed"}', NoSuchEndpoint),
        (404, '{"error": "model \\"x\\" not found, try pulling it first"}', EmbedderError),
        (404, '{"message": "The model `x` does not exist."}', EmbedderError),
        (400, '{"error": "bad encoding"}', EmbedderError),
        (401, "", EmbedderError),
        (302, "", EmbedderError),
    ],
)
def test_what_a_status_means(status: int, said: str, kind: type[EmbedderError]) -> None:
    error = refusal(OLLAMA, status, {}, said.encode())

    assert type(error) is kind
    assert f"{HOST}/api/embed answered HTTP {status}" in str(error)


def test_a_refusal_quotes_the_endpoint_within_bounds() -> None:
    assert "bad encoding" in str(refusal(OPENAI, 400, {}, b'{"error": {"message": "bad encoding"}}'))
    assert "no healthy  upstream".replace("  ", " ") in str(refusal(OPENAI, 503, {}, b"no healthy\n upstream"))
    assert len(str(refusal(OPENAI, 400, {}, b"x" * 100_000))) < 300
    location = {"location": "https://me:secret@elsewhere/v1?key=secret"}
    assert "a redirect to 'https://elsewhere/v1'" in str(refusal(OPENAI, 308, location, b""))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"data": {}}', "expected a list 'data' in the reply, got the keys data"),
        ("{}", "expected a list 'data' in the reply, got the keys (none)"),
        ('{"error": {"message": "no model loaded"}}', "expected a list 'data' in the reply, got no model loaded"),
        ('{"data": [{"embedding": [1, 0]}]}', "expected 'index' and 'embedding' in each item of 'data'"),
        ('{"data": [7]}', "expected 'index' and 'embedding' in each item of 'data'"),
        ('{"data": [{"index": 1, "embedding": [1, 0]}]}', "expected each index from 0 to 0 once in 'data'"),
        ('{"data": [{"index": 0, "embedding": "AAAA"}]}', "vector 1: expected a list of 2 numbers, got str"),
        ('{"data": [{"index": 0, "embedding": [1, "a"]}]}', "vector 1: expected 2 numbers, got something that is not"),
        ('{"data": [{"index": 0, "embedding": [1, 1%s]}]}' % ("0" * 400), "expected 2 numbers, got something that is"),
        ("[" * 100_000, "sent broken or cut-off JSON (100000 bytes)"),
        ('"data"', "expected a JSON object, got"),
        ("\x00\x01", "expected JSON, got"),
    ],
)
def test_a_reply_of_another_shape_is_described(body: str, message: str) -> None:
    with pytest.raises(EmbedderError) as caught:
        vectors_in(OPENAI, body.encode(), count=1, dims=2)

    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{HOST}/v1/embeddings")


def test_vectors_come_back_in_order_and_of_unit_length() -> None:
    body = b'{"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3e200, 4e200]}]}'

    first, second = vectors_in(OPENAI, body, count=2, dims=2)

    assert first == pytest.approx([0.6, 0.8])
    assert second == [0.0, 1.0]


def test_an_unknown_path_answered_with_200_counts_as_unknown() -> None:
    with pytest.raises(NoSuchEndpoint, match="Unexpected endpoint or method"):
        vectors_in(OLLAMA, b'{"error": "Unexpected endpoint or method. (POST /api/embed)"}', count=1, dims=2)
