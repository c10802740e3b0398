"""A real embedding model behind HTTP, in both protocols, on loopback.

Run `python tests/support/embedding_server.py --model-dir DIR [--port N]`, or use EmbeddingServer within a test.
The file stands alone so that it runs as a script; numpy and onnxruntime are imported only for the model.
"""

from __future__ import annotations

import argparse
import base64
import json
import signal
import socket
import ssl
import struct
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

Api = Literal["ollama", "openai"]
PATHS: dict[str, Api] = {"/api/embed": "ollama", "/v1/embeddings": "openai"}


class Model(Protocol):
    """What can be served."""

    def embed(self, text: str) -> list[float]:
        """The unit vector of one text."""


class OnnxModel:
    """A BERT-like sentence model: CLS pooling, unit length, texts cut at 512 tokens. Safe for several threads."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime
        import tokenizers

        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_length=512)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [each.name for each in self._session.get_inputs()]

    def embed(self, text: str) -> list[float]:
        """The unit vector of one text: one, since the int8 model's numbers depend on what else is in a batch."""
        import numpy

        encoding = self._tokenizer.encode(text)
        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        feed = {name: numpy.array([values[name]], dtype=numpy.int64) for name in self._inputs}
        vector = self._session.run(None, feed)[0][0][0]
        unit: list[float] = (vector / numpy.linalg.norm(vector)).astype(float).tolist()
        return unit


class LoopbackServer(ThreadingHTTPServer):
    """An HTTP server on 127.0.0.1 whose close() also ends the connections that clients keep open."""

    daemon_threads = False

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._connections: set[socket.socket] = set()
        self._connections_lock = threading.Lock()
        super().__init__(("127.0.0.1", port), handler)
        if tls is not None:
            # Each connection shakes hands on its own thread, not in accept().
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), name=f"loopback-{self.port}")
        self._thread.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._connections_lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._connections_lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that give up are what these servers are for; nothing is printed."""

    def close(self) -> None:
        """Stop listening, end all connections and wait for their threads."""
        self.shutdown()
        self._thread.join()
        with self._connections_lock:
            for connection in self._connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
        self.server_close()


class EmbedHandler(BaseHTTPRequestHandler):
    """The part of both protocols that does not depend on who embeds."""

    protocol_version = "HTTP/1.1"
    # Headers and body go out as two writes; without this the second waits for the first's acknowledgement.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output clean."""

    def read_body(self) -> dict[str, Any]:
        """The JSON of the request, with `input` as a list."""
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        if isinstance(body.get("input"), str):
            body["input"] = [body["input"]]
        return body

    def send_json(self, status: int, reply: object, headers: dict[str, str] | None = None) -> None:
        """Send a whole reply."""
        self.send_bytes(status, json.dumps(reply).encode(), headers)

    def send_bytes(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send a whole reply."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def embed_reply(api: Api, model: str, vectors: Sequence[Any], *, encoding: str = "float") -> dict[str, Any]:
    """A successful reply in the shape of the protocol; OpenAI's comes in reverse, as its `index` allows."""
    if api == "ollama":
        return {"model": model, "embeddings": list(vectors)}
    if encoding == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{len(each)}f", *each)).decode() for each in vectors]
    data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(vectors)]
    return {"object": "list", "model": model, "data": data[::-1], "usage": {"prompt_tokens": 0, "total_tokens": 0}}


class EmbeddingServer:
    """Serves a model on a port of its own until close(); `url` has no path, so that clients must detect."""

    def __init__(self, model: Model, *, port: int = 0) -> None:
        class Handler(EmbedHandler):
            def do_POST(self) -> None:
                body = self.read_body()
                api = PATHS.get(self.path.partition("?")[0])
                if api is None:
                    self.send_json(404, {"error": "not found"})
                else:
                    vectors = [model.embed(each) for each in body["input"]]
                    encoding = body.get("encoding_format", "float")
                    self.send_json(200, embed_reply(api, body["model"], vectors, encoding=encoding))

        self._server = LoopbackServer(Handler, port)
        self.url = f"http://127.0.0.1:{self._server.port}"

    def close(self) -> None:
        """Stop serving; waits for requests under way."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def main() -> None:
    """Serve until SIGTERM or Ctrl-C; the first line of output is the URL."""
    parser = argparse.ArgumentParser(description="Serve an ONNX embedding model on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--model-dir", type=Path, required=True, metavar="DIR")
    arguments = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with EmbeddingServer(OnnxModel(arguments.model_dir), port=arguments.port) as server:
        print(server.url, flush=True)
        stopped.wait()


if __name__ == "__main__":
    main()
