"""A rerank endpoint that scores, or fails, in the way a test asks for, over real sockets."""

from __future__ import annotations

import json
import math
import re
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any, Literal

from .embedding_server import EmbedHandler
from .scripted_endpoint import ScriptedEndpoint

Api = Literal["cohere", "tei"]
Mode = Literal[
    "ok",
    "down",  # the port is closed
    "hanging",  # takes the request, never answers
    "http_500",
    "rate_limited",  # 429 with Retry-After
    "unauthorized",  # echoes the Authorization header
    "cut_body",  # ends the connection in the middle of the body
    "truncated_json",  # a complete HTTP reply with half of the JSON
    "not_json",
    "empty_reply",
    "json_text",  # JSON, but nothing that has results
    "wrong_count",  # one result less than texts
    "bad_index",  # an index past the last text
    "negative_index",
    "text_index",
    "twice",  # one index twice, another one not at all
    "nan",
    "infinity",
    "null_score",
    "text_score",
    "no_score",
]
FAULTS: tuple[Mode, ...] = (
    "down", "hanging", "http_500", "rate_limited", "unauthorized", "cut_body", "truncated_json", "not_json",
    "empty_reply", "json_text", "wrong_count", "bad_index", "negative_index", "text_index", "twice", "nan", "infinity",
    "null_score", "text_score", "no_score",
)  # fmt: skip


def shared_words(question: str, text: str) -> float:
    """How many words of the question a text holds."""
    return float(len(set(re.findall(r"\w+", question.casefold())) & set(re.findall(r"\w+", text.casefold()))))


class ScriptedReranker(ScriptedEndpoint[Mode]):
    """An endpoint with the `paths` of the protocols `apis`; `score` and `mode` may be switched at any time.

    Keeps in `bodies` and `headers` what was posted to a path that it has, in the shape of a protocol that it speaks.
    """

    def __init__(
        self,
        *,
        apis: Iterable[Api] = ("cohere", "tei"),
        paths: Iterable[str] = ("/rerank", "/v1/rerank"),
        score: Callable[[str, str], float] = shared_words,
        mode: Mode = "ok",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.apis = frozenset(apis)
        self.paths = frozenset(paths)
        self.score = score
        self.refused = 0
        super().__init__(mode, tls)

    def _handler(self) -> type[EmbedHandler]:
        script = self

        class Handler(EmbedHandler):
            def do_POST(self) -> None:
                mode, released = script._now()
                body = self.read_body()
                api: Api = "tei" if "texts" in body else "cohere"
                if self.path.partition("?")[0] not in script.paths:
                    script.refused += 1
                    self.send_bytes(404, b"404 page not found", {"Content-Type": "text/plain"})
                elif api not in script.apis or (api == "cohere" and "documents" not in body):
                    script.refused += 1
                    self.send_json(422, {"error": "missing field", "error_type": "Validation"})
                else:
                    script.bodies.append(body)
                    script.headers.append(dict(self.headers))
                    script.arrived.set()
                    script._play(self, mode, released, api, body)

        return Handler

    def _play(
        self, handler: EmbedHandler, mode: Mode, released: threading.Event, api: Api, body: dict[str, Any]
    ) -> None:
        reply = self._reply(api, body, mode)
        plain: dict[str, tuple[int, bytes]] = {
            "http_500": (500, b'{"error": "the model runner has crashed"}'),
            "truncated_json": (200, reply[: len(reply) // 2]),
            "not_json": (200, b"<html>Welcome to the gateway</html>"),
            "empty_reply": (200, b""),
            "json_text": (200, b'"soon"'),
            "unauthorized": (401, json.dumps({"message": handler.headers.get("Authorization")}).encode()),
        }
        if mode in plain:
            handler.send_bytes(*plain[mode])
        elif mode == "rate_limited":
            handler.send_json(429, {"error": "slow down"}, {"Retry-After": "7"})
        elif mode == "hanging":
            released.wait()
            handler.close_connection = True
        elif mode == "cut_body":
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(reply)}\r\n\r\n".encode()
            handler.wfile.write(head + reply[: len(reply) // 2])
            handler.close_connection = True
        else:
            handler.send_bytes(200, reply)

    def _reply(self, api: Api, body: dict[str, Any], mode: Mode) -> bytes:
        texts: list[str] = body["texts" if api == "tei" else "documents"]
        name = "score" if api == "tei" else "relevance_score"
        rows: list[dict[str, Any]] = [
            {"index": index, name: self.score(body["query"], text)} for index, text in enumerate(texts)
        ]
        last = rows[-1]
        spoilt_scores: dict[str, Any] = {
            "nan": math.nan, "infinity": math.inf, "null_score": None, "text_score": "high",
        }  # fmt: skip
        spoilt_indexes: dict[str, Any] = {"bad_index": len(rows), "negative_index": -1, "text_index": "0", "twice": 0}
        if mode in spoilt_scores:
            last[name] = spoilt_scores[mode]
        if mode in spoilt_indexes:
            last["index"] = spoilt_indexes[mode]
        if mode == "no_score":
            del last[name]
        if mode == "wrong_count":
            rows.pop()
        rows.sort(key=lambda row: str(row.get(name)), reverse=True)  # both protocols answer the best first
        return json.dumps(rows if api == "tei" else {"id": "1", "results": rows}).encode()
