"""Completions from an OpenAI-compatible chat endpoint. Only the command `compact` asks one, never an agent's turn."""

from __future__ import annotations

import re

from ..domain.errors import EmbedderError
from .endpoint import Endpoint, json_in, parse_url, refusal, with_path
from .http_client import Deadline, HttpClient


class ChatClient:
    """Asks one endpoint, `url` with or without `/v1/chat/completions`. Safe to call from several threads.

    Raises ConfigurationError for a URL or an API key that cannot be used.
    """

    def __init__(self, *, url: str, model: str, api_key: str = "") -> None:
        self.model = model
        self._client = HttpClient(url, [_endpoint(url)], purpose="summary", api_key=api_key)

    def answer(self, instruction: str, text: str, *, max_tokens: int, timeout_s: float) -> str:
        """Return what the model says to `text` under an instruction.

        Raises EmbedderUnavailable when there is no answer within `timeout_s`, EmbedderError when it is no text.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": instruction}, {"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": max_tokens,
            "stream": False,
        }
        deadline = Deadline.after(timeout_s)
        return self._client.ask(lambda endpoint: self._exchange(endpoint, body, deadline))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _exchange(self, endpoint: Endpoint, body: object, deadline: Deadline) -> str:
        reply = self._client.send(endpoint, body, deadline)
        if not reply.ok:
            raise refusal(endpoint, reply)
        try:
            choice = json_in(endpoint, reply.body)["choices"][0]
            content = choice["message"]["content"]
        except (LookupError, TypeError):
            content = choice = None
        if not isinstance(content, str) or not content.strip():
            raise EmbedderError(f"{endpoint.label}: expected the text of an answer, got none")
        if choice.get("finish_reason") == "length":
            raise EmbedderError(f"{endpoint.label}: the answer was cut off after {len(content):,} characters")
        return content


def _endpoint(url: str) -> Endpoint:
    parts = parse_url(url, "--summary-url")
    path = parts.path.rstrip("/")
    if not path.endswith("/chat/completions"):
        path += "/chat/completions" if re.search(r"/v\d+$", path) else "/v1/chat/completions"
    return Endpoint("openai", with_path(parts, path), "--summary-url")
