"""Summaries from an OpenAI-compatible chat endpoint. Only the command `compact` asks one, never an agent's turn."""

from __future__ import annotations

import json
import re
from urllib.parse import unquote, urlunsplit

from ..domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable
from .endpoint_url import parse_url
from .http_errors import excerpt
from .transport import Deadline, HttpTransport

_MIN_SECRET_CHARS = 4  # shorter secrets are no secrets, and blotting them out would make messages unreadable


class ChatClient:
    """Asks one endpoint, `url` with or without `/v1/chat/completions`. Safe to call from several threads.

    Raises ConfigurationError for a URL, a name of a model or an API key that cannot be used.
    """

    def __init__(self, *, url: str, model: str, api_key: str = "") -> None:
        parts = parse_url(url, "--summary-url")
        key = api_key.strip()
        if not model.strip():
            raise ConfigurationError("name the model that writes the summaries: --summary-model NAME")
        if not (key.isascii() and key.isprintable()):
            raise ConfigurationError("the summary endpoint's API key holds characters that no HTTP header can")
        path = parts.path.rstrip("/")
        if not path.endswith("/chat/completions"):
            path += "/chat/completions" if re.search(r"/v\d+$", path) else "/v1/chat/completions"
        self._url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, ""))
        self._label = re.split(r"[?#]", self._url, maxsplit=1)[0]
        self.model = model.strip()
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        self._secrets = [secret for secret in (key, password) if len(secret) >= _MIN_SECRET_CHARS]
        self._transport = HttpTransport(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            auth=(user, password) if user and not key else None,
        )

    def answer(self, instruction: str, text: str, *, max_tokens: int, timeout_s: float) -> str:
        """What the model says to `text` under an instruction.

        Raises EmbedderUnavailable when there is no answer within `timeout_s`, EmbedderError when it is no text.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": instruction}, {"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": max_tokens,
            "stream": False,
        }
        try:
            return self._ask(json.dumps(body).encode(), Deadline.after(timeout_s))
        except EmbedderError as exc:
            exc.args = tuple(self._without_secrets(str(arg)) for arg in exc.args)
            raise

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _ask(self, body: bytes, deadline: Deadline) -> str:
        reply = self._transport.post(self._url, body, label=self._label, deadline=deadline)
        if not 200 <= reply.status < 300:
            said = excerpt(reply.body[:2000].decode("utf-8", "replace"))
            message = f"{self._label} answered HTTP {reply.status}" + (f": {said}" if said else "")
            raise (EmbedderUnavailable if reply.status >= 500 or reply.status == 429 else EmbedderError)(message)
        try:
            choice = json.loads(reply.body)["choices"][0]
            content = choice["message"]["content"]
        except (ValueError, RecursionError, LookupError, TypeError):
            content = choice = None
        if not isinstance(content, str) or not content.strip():
            raise EmbedderError(f"{self._label}: expected the text of an answer, got none")
        if choice.get("finish_reason") == "length":
            raise EmbedderError(f"{self._label}: the answer was cut off after {len(content):,} characters")
        return content

    def _without_secrets(self, message: str) -> str:
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message
