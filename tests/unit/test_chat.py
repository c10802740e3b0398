"""The chat endpoint that an operator names."""

from __future__ import annotations

from contextlib import closing

import pytest

from hermes_memory_pgvector.domain.errors import EmbedderError
from hermes_memory_pgvector.embed.chat import ChatClient
from tests.support.embedding_server import EmbedHandler, LoopbackServer

SERVED = "/v1/openai/chat/completions"
ANSWER = {"choices": [{"message": {"content": "They agreed on blue."}}]}


class Served(EmbedHandler):
    """Answers at one path, as a gateway does that puts the version before the protocol."""

    def do_POST(self) -> None:
        asked = self.read_body()
        found = self.path == SERVED
        if found and asked["model"] != "any":
            self.send_json(404, {"error": {"message": "models/other is not found for this version"}})
        else:
            self.send_json(200 if found else 404, ANSWER if found else {"error": "not found"})


@pytest.mark.parametrize("path", ["/v1/openai", "/v1/openai/", SERVED])
def test_a_base_url_is_taken_as_its_provider_names_it(path: str) -> None:
    with closing(LoopbackServer(Served)) as server:
        url = f"http://127.0.0.1:{server.port}{path}"
        with closing(ChatClient(url=url, model="any", option="--summary-url")) as client:
            assert client.answer("Summarize.", "blue", max_tokens=9, timeout_s=10).text == "They agreed on blue."


@pytest.mark.parametrize(
    ("path", "model", "told"),
    [
        ("/elsewhere", "any", r"--summary-url names no chat endpoint: .*/elsewhere/v1/chat"),
        ("/v1/openai", "other", r"/v1/openai/chat/completions answered .*; check --summary-model$"),
    ],
    ids=["address", "model"],
)
def test_what_the_endpoint_does_not_have_is_told_with_its_option(path: str, model: str, told: str) -> None:
    with closing(LoopbackServer(Served)) as server:
        url = f"http://127.0.0.1:{server.port}{path}"
        refused = pytest.raises(EmbedderError, match=told)
        with closing(ChatClient(url=url, model=model, option="--summary-url")) as client, refused:
            client.answer("Summarize.", "blue", max_tokens=9, timeout_s=10)
