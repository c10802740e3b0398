"""An endpoint in Ollama's protocol that needs no model: ready-made vectors after a set latency.

python endpoint.py DIMS LATENCY_MS [unit] [many] [sentences]      prints its URL and serves until it is terminated

`unit` gives the vectors unit length and the digits of 32-bit floats, as models' servers do; `many` gives KINDS * DIMS
different ones instead of KINDS, for indexes that make equal ones into one. `sentences` gives unit vectors that lie to
each other as those of sentences do, and each of the first POOL texts one of its own; it needs numpy.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SEED = 20260101
KINDS = 64  # different vectors, so that an HNSW index has something to do
POOL = 4096

dims, latency_s = int(sys.argv[1]), float(sys.argv[2]) / 1000
generator = random.Random(SEED)
numbers = [[round(generator.gauss(0, 1), 4) for _ in range(dims)] for _ in range(KINDS)]
if "unit" in sys.argv[3:]:
    lengths = [math.hypot(*each) for each in numbers]
    numbers = [[float(f"{x / length:.9g}") for x in each] for each, length in zip(numbers, lengths, strict=True)]
vectors = [json.dumps(each) for each in numbers]
digits = [[json.dumps(x) for x in each] for each in numbers] if "many" in sys.argv[3:] else []
pool: list[str] = []
given: dict[str, int] = {}
if "sentences" in sys.argv[3:]:
    import numpy as np

    sys.path.append(str(Path(__file__).with_name("scale")))
    from population import Mixture

    dice = np.random.default_rng(SEED)
    made = Mixture(dims).sample(dice.integers(0, 200, POOL), dice)
    pool = [json.dumps(each) for each in made.astype(float).round(8).tolist()]


def own(text: str) -> str:
    """The vector of the pool that nobody had before this text."""
    return pool[given.setdefault(text, len(given)) % POOL]


def turned(text: str) -> str:
    """One of the vectors, its numbers turned by as many places as the text says."""
    place, kind = divmod(hash(text), KINDS)
    place %= dims
    return f"[{','.join(digits[kind][place:] + digits[kind][:place])}]"


class Handler(BaseHTTPRequestHandler):
    """Answers any batch."""

    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: without this the second waits for the client's acknowledgement of the first.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(latency_s)
        chosen = [
            own(text) if pool else turned(text) if digits else vectors[hash(text) % KINDS] for text in request["input"]
        ]
        body = f'{{"embeddings":[{",".join(chosen)}]}}'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}/api/embed", flush=True)
server.serve_forever()
