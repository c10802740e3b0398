"""An endpoint with the protocol of Ollama's /api/embed that costs no model: ready-made vectors after a set latency.

python endpoint.py DIMS LATENCY_MS      prints its URL and serves until it is terminated
"""

from __future__ import annotations

import json
import random
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEED = 20260101
KINDS = 64  # different vectors, so that an HNSW index has something to do

dims, latency_s = int(sys.argv[1]), float(sys.argv[2]) / 1000
generator = random.Random(SEED)
vectors = [json.dumps([round(generator.gauss(0, 1), 4) for _ in range(dims)]) for _ in range(KINDS)]


class Handler(BaseHTTPRequestHandler):
    """Answers any batch."""

    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: without this the second waits for the client's acknowledgement of the first.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        time.sleep(latency_s)
        chosen = ",".join(vectors[hash(text) % KINDS] for text in texts)
        body = f'{{"embeddings":[{chosen}]}}'.encode()
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
