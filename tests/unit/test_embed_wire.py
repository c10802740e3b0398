from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.errors import (
    ConfigurationError,
    EmbedderError,
    EmbedderUnavailable,
    InputTooLong,
)
from hermes_memory_pgvector.embed.embedding_api import (
    BodyRefused,
    RequestOptions,
    TooManyDimensions,
    TooManyTexts,
    embedding_refusal,
    endpoints_for,
    request_body,
    vectors_in,
)
from hermes_memory_pgvector.embed.endpoint import (
    MAX_RETRY_AFTER_S,
    Endpoint,
    NoSuchEndpoint,
    Reply,
    redacted,
    retry_after_s,
)

HOST = "http://gpu:11434"
OLLAMA = Endpoint("ollama", f"{HOST}/api/embed")
OPENAI = Endpoint("openai", f"{HOST}/v1/embeddings")


@pytest.mark.parametrize(
    ("url", "api", "expected"),
    [
        (HOST, "auto", [OLLAMA, OPENAI]),
        (f" {HOST}/ ", "auto", [OLLAMA, OPENAI]),
        (
            f"{HOST}/proxy",
            "auto",
            [("ollama", "/proxy/api/embed"), ("openai", "/proxy/v1/embeddings"), ("openai", "/proxy/embeddings")],
        ),
        (f"{HOST}/v1/x/", "openai", [("openai", "/v1/x/v1/embeddings"), ("openai", "/v1/x/embeddings")]),
        (f"{HOST}/api/embed", "auto", [OLLAMA]),
        (f"{HOST}/api/embed/", "auto", [OLLAMA]),
        (f"{HOST}/api", "auto", [OLLAMA]),
        (f"{HOST}/api/embeddings", "auto", [OLLAMA]),
        (f"{HOST}/v1/embeddings", "auto", [OPENAI]),
        (f"{HOST}/v1", "auto", [OPENAI]),
        (f"{HOST}/v1/", "auto", [OPENAI]),
        (f"{HOST}/openai/v3", "auto", [("openai", "/openai/v3/embeddings")]),
        (
            f"{HOST}/openai/deployments/x?api-version=1",
            "auto",
            [("openai", "/openai/deployments/x/embeddings?api-version=1")],
        ),
        (
            f"{HOST}/openai/deployments/x/embeddings?api-version=1",
            "auto",
            [("openai", "/openai/deployments/x/embeddings?api-version=1")],
        ),
        (HOST, "ollama", [OLLAMA]),
        (
            "https://x.openai.azure.com/",
            "auto",
            [Endpoint("openai", "https://x.openai.azure.com/openai/v1/embeddings")],
        ),
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
    assert ("/ ? # and @ as %2F %3F %23 and %40" in str(caught.value)) is ("@" in url)


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
        # As servers and providers say it.
        (400, '{"error": "the input length exceeds the context length"}', InputTooLong),
        (
            500,
            '{"error":{"code":500,"message":"input (992 tokens) is too large to process. increase the physical batch'
            ' size (current batch size: 512)","type":"server_error"}}',
            InputTooLong,
        ),
        (500, '{"error":{"message":"input is larger than the max context size. skipping"}}', InputTooLong),
        (
            400,
            '{"error":{"code":400,"message":"request (900 tokens) exceeds the available context size (512 tokens), try'
            ' increasing it","type":"exceed_context_size_error"}}',
            InputTooLong,
        ),
        (500, "input prompt is too big compared to KV size, please increase KV size", InputTooLong),
        (
            400,
            '{"object":"error","message":"This model\'s maximum context length is 512 tokens. However, you requested'
            ' 1451 tokens in the input for embedding generation. Please reduce the length of the input."}',
            InputTooLong,
        ),
        (400, '{"error":{"message":"Invalid \'input[0]\': maximum input length is 8192 tokens."}}', InputTooLong),
        (400, '{"error":{"message":"Requested 300123 tokens, max 300000 tokens per request"}}', InputTooLong),
        (413, '{"error":"Input validation error: `inputs` must have less than 512 tokens. Given: 900"}', InputTooLong),
        (400, '{"detail":"Single text cannot exceed 8194 tokens. 8199 tokens given."}', InputTooLong),
        (400, '{"error":"Input length 900 exceeds maximum allowed token size 512"}', InputTooLong),
        (422, '{"error":"batch size 64 > maximum allowed batch size 32","error_type":"Validation"}', TooManyTexts),
        (413, '{"code":20042,"message":"input batch size 136 > maximum allowed batch size 64"}', TooManyTexts),
        (
            400,
            '{"error":{"message":"batch size is invalid, it should not be larger than 10.: input.contents"}}',
            TooManyTexts,
        ),
        (400, '{"error":{"message":"Too many inputs. The max number of inputs is 16."}}', TooManyTexts),
        (
            400,
            '{"error":{"message":"BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch"}}',
            TooManyTexts,
        ),
        (
            400,
            '{"error":{"message":"Invalid \'input\': array too long. Expected an array with maximum length 2048"}}',
            TooManyTexts,
        ),
        (400, '[{"error": {"message": "unknown field"}}]', BodyRefused),
        (501, '{"error": {"message": "base64 is not supported"}}', BodyRefused),
        (504, "the upstream request took too long", EmbedderUnavailable),
        (500, '{"error": "out of memory"}', EmbedderUnavailable),
        (503, "", EmbedderUnavailable),
        (408, "", EmbedderUnavailable),
        (429, '{"error": "too many tokens a minute"}', EmbedderUnavailable),
        (404, "404 page not found", NoSuchEndpoint),
        (405, '{"detail": "Method Not Allowed"}', NoSuchEndpoint),
        (404, '{"error": "model \\"x\\" not found, try pulling it first"}', EmbedderError),
        (404, '{"message": "The model `x` does not exist."}', EmbedderError),
        (400, '{"error": "bad encoding"}', BodyRefused),
        (401, "", EmbedderError),
        (302, "", EmbedderError),
    ],
)
def test_what_a_status_means(status: int, said: str, kind: type[EmbedderError]) -> None:
    error = embedding_refusal(OLLAMA, Reply(status, body=said.encode()))

    assert type(error) is kind
    assert f"{HOST}/api/embed answered HTTP {status}" in str(error)


def test_a_refusal_quotes_the_endpoint_within_bounds() -> None:
    def told(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> str:
        return str(embedding_refusal(OPENAI, Reply(status, headers or {}, body)))

    assert "bad encoding" in told(400, b'{"error": {"message": "bad encoding"}}')
    assert "no healthy  upstream".replace("  ", " ") in told(503, b"no healthy\n upstream")
    assert len(told(400, b"x" * 100_000)) < 300
    location = {"location": "https://me:secret@elsewhere/v1?key=secret"}
    assert "a redirect to 'https://elsewhere/v1'" in told(308, b"", location)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"data": {}}', "expected a list 'data' in the reply, got the keys data"),
        ("{}", "expected a list 'data' in the reply, got the keys (none)"),
        ('{"error": {"message": "no model loaded"}}', "expected a list 'data' in the reply, got no model loaded"),
        ('{"data": [{"index": 0}]}', "expected 'index' and 'embedding' in each item of 'data'"),
        ('{"data": [{"index": 1, "embedding": [1, 0]}, {"embedding": [1, 0]}]}', "expected each index from 0 to 1"),
        ('{"data": [7]}', "expected 'index' and 'embedding' in each item of 'data'"),
        ('{"data": [{"index": 1, "embedding": [1, 0]}]}', "expected each index from 0 to 0 once in 'data'"),
        ('{"data": [{"index": 0, "embedding": "AAAA"}]}', "expected 2 numbers or their bytes in base64, got 'AAAA'"),
        ('{"data": [{"index": 0, "embedding": "é"}]}', "expected 2 numbers or their bytes in base64, got 'é'"),
        ('{"data": [{"index": 0, "embedding": "AACAPw=="}]}', "vector 1: expected 2 dimensions, got 1"),
        ('{"data": [{"index": 0, "embedding": {"a": 1}}]}', "vector 1: expected a list of 2 numbers, got dict"),
        ('{"data": [{"index": 1e400, "embedding": [1, 0]}]}', "expected 'index' and 'embedding' in each item of"),
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


@pytest.mark.parametrize("second", ['"index": 1, ', ""])
def test_a_vector_that_does_not_say_its_index_has_its_place(second: str) -> None:
    # Gemini leaves out an index of 0, some gateways leave out all.
    body = f'{{"data": [{{"embedding": [0.6, 0.8]}}, {{{second}"embedding": [0, 1]}}]}}'

    assert vectors_in(OPENAI, body.encode(), count=2, dims=2) == [[0.6, 0.8], [0, 1]]


def test_an_unknown_path_answered_with_200_counts_as_unknown() -> None:
    with pytest.raises(NoSuchEndpoint, match="Unexpected endpoint or method"):
        vectors_in(OLLAMA, b'{"error": "Unexpected endpoint or method. (POST /api/embed)"}', count=1, dims=2)


def test_base64_and_numbers_are_the_same_vector() -> None:
    numbers = b'{"data": [{"index": 0, "embedding": [0.6, 0.8]}]}'
    bytes_ = json.dumps({"data": [{"index": 0, "embedding": base64.b64encode(struct.pack("<2f", 0.6, 0.8)).decode()}]})

    (one,) = vectors_in(OPENAI, numbers, count=1, dims=2)
    (other,) = vectors_in(OPENAI, bytes_.encode(), count=1, dims=2)

    assert one == [0.6, 0.8]
    assert other == pytest.approx(one, rel=1e-6)


def test_longer_vectors_are_cut_only_where_that_is_allowed() -> None:
    body = json.dumps({"embeddings": [[3.0, 4.0, 12.0] + 61 * [1]]}).encode()
    with pytest.raises(TooManyDimensions, match="expected 2 dimensions, got 64"):
        vectors_in(OLLAMA, body, count=1, dims=2)

    assert vectors_in(OLLAMA, body, count=1, dims=2, cut=True) == [pytest.approx([0.6, 0.8])]

    with pytest.raises(EmbedderError, match="expected 2 dimensions, got 3"):
        vectors_in(OLLAMA, b'{"embeddings": [[3.0, 4.0, 12.0]]}', count=1, dims=2, cut=True)


def test_the_body_holds_what_the_protocol_knows() -> None:
    options = RequestOptions(base64=True, dimensions=True)

    assert request_body(OLLAMA, "m", ["a"], dims=2, options=options) == {
        "model": "m",
        "input": ["a"],
        "dimensions": 2,
    }
    assert request_body(OPENAI, "m", ["ä"], dims=2, options=options) == {
        "model": "m",
        "input": ["ä"],
        "dimensions": 2,
        "encoding_format": "base64",
    }
    assert request_body(OPENAI, "m", ["a"], dims=2, options=RequestOptions()) == {
        "model": "m",
        "input": ["a"],
    }


# Near enough to a reply that the deeper checks are reached as well.
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
_NUMBERS = st.lists(_SCALARS | st.floats(-1, 1), max_size=4) | st.lists(st.floats(-1, 1), min_size=2, max_size=2)
_VECTORS = _NUMBERS | st.binary(max_size=12).map(lambda raw: base64.b64encode(raw).decode()) | _SCALARS
_ROWS = st.lists(
    _VECTORS | st.fixed_dictionaries({}, optional={"index": _SCALARS | st.integers(0, 2), "embedding": _VECTORS}),
    max_size=3,
)
_REPLIES = st.dictionaries(st.sampled_from(["data", "embeddings", "error", "x"]), _ROWS | _SCALARS | _VECTORS)
_BODIES = st.binary(max_size=200) | _REPLIES.map(lambda reply: json.dumps(reply).encode())


@given(endpoint=st.sampled_from([OLLAMA, OPENAI]), body=_BODIES, count=st.integers(0, 3), cut=st.booleans())
@settings(max_examples=400, deadline=None)
def test_any_reply_is_unit_vectors_or_an_embedder_error(endpoint: Endpoint, body: bytes, count: int, cut: bool) -> None:
    try:
        vectors = vectors_in(endpoint, body, count=count, dims=2, cut=cut)
    except EmbedderError as exc:
        assert str(exc).startswith(endpoint.url)
    else:
        assert len(vectors) == count
        assert all(len(vector) == 2 and math.hypot(*vector) == pytest.approx(1.0) for vector in vectors)


@given(
    status=st.integers(100, 999),
    headers=st.dictionaries(st.sampled_from(["retry-after", "location"]), st.text(max_size=30)),
    body=_BODIES,
)
@settings(max_examples=300, deadline=None)
def test_any_refusal_is_an_embedder_error(status: int, headers: dict[str, str], body: bytes) -> None:
    error = embedding_refusal(OPENAI, Reply(status, headers, body))

    assert isinstance(error, EmbedderError)
    assert len(str(error)) < 400
    if isinstance(error, EmbedderUnavailable) and error.retry_after_s is not None:
        assert 0 <= error.retry_after_s <= MAX_RETRY_AFTER_S
