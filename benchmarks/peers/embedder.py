"""An embedding endpoint in a process of its own that can be slow, hang, fail, or give vectors of another length.

    python -P embedder.py PORT POOL [VECTORS.npz ...]

The protocols of Ollama and OpenAI, and `POST /mood` with `{"mode": MODE, "latency_s": N, "mixed": BOOL}`, which answers
how many texts it did not know; MODE is `ok`, `hang`, `error` or `short`. A path that begins with a number asks for
vectors of so many dimensions. Each VECTORS.npz holds `texts` and `vectors` of the texts that it knows, in one length;
any other text gets one of POOL, a file with a vector a line, which cost the endpoint next to nothing, or where they are
to be `mixed` one that lies between two of them, and so one of its own. Of a shorter length than the pool's it is the
beginning.
"""

from __future__ import annotations

import base64
import json
import math
import os
import struct
import sys
import time
import zlib
from array import array
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG_S = 3600.0

mood: dict[str, Any] = {"mode": "ok", "latency_s": 0.0, "mixed": False, "unknown": 0}
_pool: list[str] = []
_known: dict[tuple[str, int], tuple[str, str]] = {}


def learn(path: str) -> None:
    """Know the texts of a file, ready in both forms: no product waits longer for the one it asks for."""
    import numpy

    with numpy.load(path, allow_pickle=True) as file:
        width = file["vectors"].shape[1]
        for text, vector in zip(file["texts"].tolist(), file["vectors"].astype(float).round(8).tolist(), strict=True):
            # Where nobody says a length, as at a path without a number, it is 0.
            _known[text, width] = _known[text, 0] = json.dumps(vector), packed(vector)


def packed(values: list[float]) -> str:
    """The JSON of a vector in base64."""
    return json.dumps(base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode())


@cache
def _pooled(number: int, width: int) -> tuple[str, str]:
    values = _unit(list(_values(number)), width)
    return json.dumps(values), packed(values)


@cache
def _values(number: int) -> array[float]:
    return array("d", json.loads(_pool[number]))


def _unit(values: list[float], width: int) -> list[float]:
    """The beginning of a vector, of unit length again; all of it as it is where no width is asked for."""
    if width in (0, len(values)):
        return values
    length = math.hypot(*values[:width])
    return [round(value / length, 6) for value in values[:width]]


def mixed(number: int) -> list[float]:
    """A vector near to one of the pool, and a little to another one, which the number of a text says."""
    near, far = divmod(number, len(_pool))
    pairs = zip(_values(near % len(_pool)), _values(far), strict=True)
    return [round(0.8 * one + 0.6 * other, 6) for one, other in pairs]


def vector_of(text: str, width: int, in_base64: bool, short: bool) -> str:
    """The JSON of a text's vector: its own, else the one of the pool that the text says."""
    number = zlib.crc32(text.encode("utf-8", "replace"))
    place = number % len(_pool)
    if short:
        values = json.loads(_pool[place])[:100]
        return packed(values) if in_base64 else json.dumps(values)
    if (text, width) in _known:
        return _known[text, width][in_base64]
    mood["unknown"] += 1
    if mood["mixed"]:
        values = _unit(mixed(number), width)
        return packed(values) if in_base64 else json.dumps(values)
    return _pooled(place, width)[in_base64]


class Handler(BaseHTTPRequestHandler):
    """Answers any batch, as the mood is."""

    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: without this the second waits for the client's acknowledgement of the first.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/mood":
            mood.update(request)
            self._answer(200, json.dumps({"unknown": mood["unknown"]}))
            return
        if mood["mode"] == "hang":
            time.sleep(HANG_S)
        time.sleep(mood["latency_s"])
        if mood["mode"] == "error":
            self._answer(500, '{"error": "out of memory"}')
            return
        given = request["input"]
        in_base64 = request.get("encoding_format") == "base64"
        short = mood["mode"] == "short"
        first = self.path.split("/")[1]
        width = int(first) if first.isdigit() else 0
        made = [vector_of(text, width, in_base64, short) for text in ([given] if isinstance(given, str) else given)]
        if self.path.endswith("/v1/embeddings"):
            rows = ",".join(f'{{"index":{index},"embedding":{each}}}' for index, each in enumerate(made))
            self._answer(200, f'{{"data":[{rows}]}}')
        else:
            self._answer(200, f'{{"embeddings":[{",".join(made)}]}}')

    def _answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Takes as many connections as come, and ends with the process."""

    daemon_threads = True
    request_queue_size = 128
    parent = os.getppid()

    def service_actions(self) -> None:
        """End when who started it is gone, however that went."""
        if os.getppid() != self.parent:
            raise SystemExit(0)


if __name__ == "__main__":
    with open(sys.argv[2], encoding="ascii") as pool:
        _pool.extend(pool.read().splitlines())
    for named in sys.argv[3:]:
        learn(named)
    server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
