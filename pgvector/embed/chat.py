"""Completions from an OpenAI-compatible chat endpoint. Only commands of an operator ask one, never an agent's turn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..domain.errors import EmbedderError, EmbedderUnavailable
from .endpoint import Endpoint, json_in, misses_model, parse_url, paths_below, refusal, refusal_message, with_path
from .http_client import Deadline, HttpClient

_CALL = "/chat/completions"


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a model said, and the tokens that the endpoint counted, None if it did not; `flaw`: why it is unusable."""

    text: str
    asked_tokens: int | None
    answer_tokens: int | None
    flaw: str = ""


class ChatClient:
    """Asks one endpoint, `url` with or without `/v1/chat/completions`. Safe to call from several threads.

    `option` is the option that named the URL. Raises ConfigurationError for a URL or an API key that cannot be used.
    """

    def __init__(self, *, url: str, model: str, option: str, api_key: str = "") -> None:
        self.model = model
        self._client = HttpClient(url, _endpoints(url, option), purpose="chat", api_key=api_key)

    def answer(self, instruction: str, text: str, *, max_tokens: int, timeout_s: float) -> ChatAnswer:
        """Return the model's answer to `text` under an instruction.

        Raises EmbedderUnavailable when there is no answer within `timeout_s`, EmbedderError when it is refused.
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

    def _exchange(self, endpoint: Endpoint, body: object, deadline: Deadline) -> ChatAnswer:
        try:
            reply = self._client.send(endpoint, body, deadline)
        except EmbedderUnavailable as exc:
            raise EmbedderUnavailable(f"{exc}; start the endpoint, or correct {endpoint.setting}") from exc
        if misses_model(reply):
            raise EmbedderError(f"{refusal_message(endpoint, reply)}; check {endpoint.setting.replace('url', 'model')}")
        if not reply.ok:
            raise refusal(endpoint, reply)
        told = json_in(endpoint, reply.body)
        try:
            choice = told["choices"][0]
            content = choice["message"]["content"]
            cut = choice.get("finish_reason") == "length"
        except (LookupError, TypeError, AttributeError):
            content, cut = None, False
        usage = _usage(told)
        if not isinstance(content, str) or not content.strip():
            return ChatAnswer("", *usage, f"{endpoint.label}: expected the text of an answer, got none")
        flaw = f"{endpoint.label}: the answer was cut off after {len(content):,} characters" if cut else ""
        return ChatAnswer(content, *usage, flaw)


def _usage(told: Any) -> tuple[int | None, int | None]:
    """Return the tokens of question and answer as the endpoint counted them."""
    usage = told.get("usage") if isinstance(told, dict) else None
    counts = [usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")]
    asked, answered = (each if type(each) is int and 0 <= each < 2**31 else None for each in counts)
    return asked, answered


def _endpoints(url: str, option: str) -> list[Endpoint]:
    """Return the endpoint to post to if the URL decides, else both possible ones, in the order in which to try them."""
    parts = parse_url(url, option)
    path = parts.path.rstrip("/")
    if path.endswith(_CALL):
        paths: tuple[str, ...] = (path,)
    elif re.search(r"/v\d+$", path):
        paths = (f"{path}{_CALL}",)
    else:
        paths = paths_below(path, _CALL)
    return [Endpoint("openai", with_path(parts, each), option) for each in paths]
