"""An embedding endpoint that fails in the way a test asks for, over real sockets."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import ssl
import threading
from collections.abc import Iterable
from typing import Any, Literal

import numpy

from .embedding_server import PATHS, Api, EmbedHandler, embed_reply
from .scripted_endpoint import ScriptedEndpoint

Mode = Literal[
    "ok",
    "down",  # the port is closed
    "http_500",
    "rate_limited",  # 429 with `retry_after`
    "hanging",  # takes the request, never answers
    "hanging_body",  # sends the headers and half of the body, then nothing
    "trickle",  # one byte of the body every 20 ms
    "trickle_headers",  # one byte of the headers every 20 ms
    "reset",  # ends the connection without an answer
    "cut_body",  # ends the connection in the middle of the body
    "wrong_dims",  # one dimension more than `dims`
    "nan",
    "infinity",
    "zeros",
    "null_numbers",
    "truncated_json",  # a complete HTTP reply with half of the JSON
    "wrong_count",  # one vector less than texts
    "not_json",
    "empty_reply",
    "json_list",
    "unknown_model",
    "unauthorized",  # echoes the Authorization header
    "too_long",  # refuses any text of more than `max_chars` characters
]
# What the server does with a parameter that not every server has.
Manners = Literal["obeys", "ignores", "refuses"]
_INSTRUCTION = re.compile(r"^(search_document|search_query|passage|query): ")
_TRICKLE_S = 0.02


@functools.lru_cache(maxsize=4096)
def _word_numbers(word: str, dims: int) -> numpy.ndarray:
    digest = hashlib.shake_256(word.encode("utf-8", "replace")).digest(dims)
    return numpy.frombuffer(digest, numpy.uint8) - 127.5


def hash_vector(text: str, dims: int) -> list[float]:
    """The unit vector this server gives a text: the sum of its words' hashes, so that shared words mean similarity."""
    words = re.findall(r"\w+", _INSTRUCTION.sub("", text).casefold()) or [text]
    total = numpy.zeros(dims)
    for word in words:
        total += _word_numbers(word, dims)
    return _unit(total.tolist())


def _unit(values: list[float]) -> list[float]:
    norm = math.hypot(*values)
    return [value / norm for value in values]


class ScriptedEmbedder(ScriptedEndpoint[Mode]):
    """An endpoint in both protocols (or those of `apis`) whose behaviour `mode` switches at any time.

    Counts in `requests`, and keeps in `bodies` and `headers`, what was posted to a path that it has.
    """

    def __init__(
        self,
        *,
        dims: int = 768,
        mode: Mode = "ok",
        latency_ms: float = 0.0,
        retry_after: str = "7",
        max_chars: int = 1000,
        max_texts: int = 2048,
        apis: Iterable[Api] = ("ollama", "openai"),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.dims = dims
        self.latency_ms = latency_ms
        self.retry_after = retry_after
        self.max_chars = max_chars
        self.max_texts = max_texts
        self.apis = frozenset(apis)
        self.base64: Manners = "obeys"
        self.dimensions: Manners = "obeys"
        self.native_dims = dims  # without `dimensions`, or where they are ignored
        self.too_long_reply: tuple[int, str] | None = None  # another server's status and words in the mode too_long
        self.refuses_by_limit = False  # of a text with `refused_word` it says "try again in `retry_after` seconds"
        self.refused_word = ""  # a text with it gets a batch refused, as a model refuses some that it cannot embed
        self.backwards = False  # reads texts from their end, as another model under the same name would read otherwise
        self.misses = 0
        self.connections = 0
        super().__init__(mode, tls)

    @property
    def requests(self) -> int:
        """How many requests reached a path that the server has."""
        return len(self.bodies)

    @property
    def texts(self) -> list[str]:
        """All texts that were posted, in order."""
        return [text for body in self.bodies for text in body["input"]]

    def _handler(self) -> type[EmbedHandler]:
        script = self

        class Handler(EmbedHandler):
            def setup(self) -> None:
                super().setup()
                script.connections += 1

            def do_POST(self) -> None:
                body = self.read_body()
                api = PATHS.get(self.path.partition("?")[0])
                if api is None or api not in script.apis:
                    script.misses += 1
                    self.send_bytes(404, b"404 page not found", {"Content-Type": "text/plain"})
                    return
                mode, released = script._now()
                script.bodies.append(body)
                script.headers.append(dict(self.headers))
                script.arrived.set()
                if script.latency_ms:
                    released.wait(script.latency_ms / 1000)
                _Scene(script, self, api, body, released).play(mode)

        return Handler


class _Scene:
    """One request and its answer."""

    def __init__(
        self, script: ScriptedEmbedder, handler: EmbedHandler, api: Api, body: dict[str, Any], released: threading.Event
    ) -> None:
        self.script = script
        self.handler = handler
        self.api = api
        self.body = body
        self.texts: list[str] = body["input"]
        self.model: str = body["model"]
        self.released = released

    def play(self, mode: Mode) -> None:
        plain: dict[str, tuple[int, bytes]] = {
            "http_500": (500, b'{"error": "the model runner has crashed"}'),
            "not_json": (200, b"<html>Welcome to the gateway</html>"),
            "empty_reply": (200, b""),
            "json_list": (200, b"[1, 2]"),
            "unknown_model": (404, b'{"error": "model \\"nonesuch\\" not found, try pulling it first"}'),
        }
        if mode == "truncated_json":
            whole = self._reply()
            self.handler.send_bytes(200, whole[: len(whole) // 2])
        elif mode in plain:
            self.handler.send_bytes(*plain[mode])
        elif mode == "rate_limited":
            self.handler.send_json(429, {"error": "slow down"}, {"Retry-After": self.script.retry_after})
        elif mode == "unauthorized":
            said = f"incorrect key: {self.handler.headers.get('Authorization')}"
            self.handler.send_json(401, {"error": {"message": said}})
        elif mode == "hanging":
            self.released.wait()
            self.handler.close_connection = True
        elif mode in ("hanging_body", "cut_body", "trickle", "trickle_headers", "reset"):
            self._send_badly(mode)
        elif self.script.base64 == "refuses" and "encoding_format" in self.body:
            said = "encoding_format 'base64' is not supported, use 'float'"
            self.handler.send_json(400, {"error": {"message": said}})
        elif self.script.dimensions == "refuses" and "dimensions" in self.body:
            said = "Model does not support matryoshka representation, changing output dimensions leads to poor results."
            self.handler.send_json(400, {"error": {"message": said}})
        elif mode == "too_long" and max(map(len, self.texts)) > self.script.max_chars:
            self._refuse_length()
        elif len(self.texts) > self.script.max_texts:
            said = f"batch size {len(self.texts)} > maximum allowed batch size {self.script.max_texts}"
            self.handler.send_json(422, {"error": said, "error_type": "Validation"})
        elif self.script.refused_word and self.script.refused_word in " ".join(self.texts):
            self._refuse_word()
        else:
            self.handler.send_bytes(200, self._reply(mode))

    def _reply(self, mode: Mode = "ok") -> bytes:
        dims = self.script.native_dims + (mode == "wrong_dims")
        vectors: list[list[Any]] = [
            list(hash_vector(text[::-1] if self.script.backwards else text, dims)) for text in self.texts
        ]
        if self.script.dimensions == "obeys" and "dimensions" in self.body:
            vectors = [_unit(vector[: self.body["dimensions"]]) for vector in vectors]
        spoilt = {"nan": math.nan, "infinity": math.inf, "null_numbers": None}
        if mode in spoilt:
            vectors[-1][dims // 2] = spoilt[mode]
        if mode == "zeros":
            vectors[-1] = [0.0] * dims
        if mode == "wrong_count":
            vectors.pop()
        encoding = self.body.get("encoding_format", "float") if self.script.base64 == "obeys" else "float"
        if mode == "null_numbers":  # bytes cannot say null
            encoding = "float"
        return json.dumps(embed_reply(self.api, self.model, vectors, encoding=encoding)).encode()

    def _refuse_word(self) -> None:
        if self.script.refuses_by_limit:
            wait = {"Retry-After": self.script.retry_after}
            self.handler.send_json(429, {"error": "request too large for the tokens of a minute"}, wait)
            return
        self.handler.send_json(500, {"error": "failed to encode response: json: unsupported value: NaN"})

    def _refuse_length(self) -> None:
        if self.script.too_long_reply is not None:
            status, said = self.script.too_long_reply
            self.handler.send_bytes(status, said.encode())
            return
        if self.api == "ollama":
            self.handler.send_json(400, {"error": "the input length exceeds the context length"})
            return
        said = f"This model's maximum context length is {self.script.max_chars} tokens, however you requested more."
        self.handler.send_json(400, {"error": {"message": said, "code": "context_length_exceeded"}})

    def _send_badly(self, mode: Mode) -> None:
        out = self.handler.wfile
        self.handler.close_connection = True
        body = self._reply()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        if mode == "reset":
            return
        if mode in ("hanging_body", "cut_body"):
            out.write(head + body[: len(body) // 2])
            if mode == "hanging_body":
                self.released.wait()
            return
        if mode == "trickle":
            out.write(head)
        for byte in body if mode == "trickle" else head + body:
            out.write(bytes([byte]))
            if self.released.wait(_TRICKLE_S):
                return
