"""An Ollama as far as looking for its embedding models goes."""

from __future__ import annotations

from collections.abc import Mapping

from .embedding_server import EmbedHandler, LoopbackServer


class FakeOllama:
    """Lists `models` (name to length of its vectors; 0 does not embed) until close()."""

    def __init__(self, models: Mapping[str, int], *, family: str = "bert") -> None:
        class Handler(EmbedHandler):
            def do_GET(self) -> None:
                listed = [{"name": name, "details": {"family": family}} for name in models]
                self.send_json(200, {"models": listed})

            def do_POST(self) -> None:
                body = self.read_body()
                dims = models.get(body["model"], 0)
                if not dims:
                    self.send_json(400, {"error": "this model does not support embeddings"})
                else:
                    unit = [1.0] + [0.0] * (dims - 1)
                    self.send_json(200, {"model": body["model"], "embeddings": [unit for _ in body["input"]]})

        self._server = LoopbackServer(Handler)
        self.host = f"127.0.0.1:{self._server.port}"

    def close(self) -> None:
        """Stop answering."""
        self._server.close()
