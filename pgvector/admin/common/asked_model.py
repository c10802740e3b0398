"""A language model that an operator names: requests with timeout and retries, and their cost counted in tokens."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...domain.chunks import estimate_tokens
from ...domain.errors import EmbedderError, EmbedderUnavailable, WrongUsage
from ...domain.format import plural
from ...embed.chat import ChatAnswer, ChatClient
from ...host.session_context import environment

_TIMEOUT_S = 180.0
_TRIES = 3
_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 60.0
_pause = threading.Event()


@dataclass
class TokenCount:
    """The cost of requests so far. `estimated`: the endpoint did not report some counts, so they are estimates."""

    requests: int = 0
    asked: int = 0
    answered: int = 0
    estimated: bool = False

    def add(self, question: str, answer: ChatAnswer) -> None:
        """Count one request."""
        self.requests += 1
        self.estimated |= answer.asked_tokens is None or answer.answer_tokens is None
        self.asked += estimate_tokens(question) if answer.asked_tokens is None else answer.asked_tokens
        self.answered += estimate_tokens(answer.text) if answer.answer_tokens is None else answer.answer_tokens

    def __str__(self) -> str:
        """Return the cost as text for people."""
        how = "estimated" if self.estimated else "as the endpoint counts"
        requests = plural(self.requests, "request")
        return f"{self.asked:,} tokens asked and {self.answered:,} answered in {requests} ({how})"


@dataclass
class AskedModel:
    """A chat endpoint to ask; if it is busy or unavailable, it is tried a few times."""

    client: ChatClient
    cost: TokenCount = field(default_factory=TokenCount)

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.client.model

    def answer(self, instruction: str, text: str, *, max_tokens: int) -> str:
        """Return the model's answer to `text` under an instruction.

        Raises EmbedderUnavailable if the endpoint does not answer, EmbedderError for an answer that is no text or was
        cut off.
        """
        told = self._patiently(instruction, text, max_tokens)
        self.cost.add(instruction + text, told)
        if told.flaw:
            raise EmbedderError(told.flaw)
        return told.text

    def _patiently(self, instruction: str, text: str, max_tokens: int) -> ChatAnswer:
        ask = partial(self.client.answer, instruction, text, max_tokens=max_tokens, timeout_s=_TIMEOUT_S)
        for number in range(1, _TRIES):
            try:
                return ask()
            except EmbedderUnavailable as exc:
                _pause.wait(min(exc.retry_after_s or _PAUSE_S * 2**number, _LONGEST_PAUSE_S))
        return ask()


@contextmanager
def model_at(args: argparse.Namespace, home: Path, *, prefix: str) -> Iterator[AskedModel]:
    """Yield the model that --PREFIXurl, --PREFIXmodel and --PREFIXkey-env name. Raises WrongUsage.

    The key comes from a variable of the environment or of the home's .env; no setting holds it.
    """
    given = {name: getattr(args, f"{prefix}{name}".replace("-", "_")) or "" for name in ("url", "model", "key-env")}
    variable = given["key-env"]
    key = environment(home).get(variable, "") if variable else ""
    if variable and not key:
        raise WrongUsage(f"--{prefix}key-env: the environment has no {variable}, nor has the home's .env")
    if not given["model"].strip():
        raise WrongUsage(f"name the endpoint's model: --{prefix}model NAME")
    with closing(ChatClient(url=given["url"], model=given["model"], option=f"--{prefix}url", api_key=key)) as client:
        yield AskedModel(client)
