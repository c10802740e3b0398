"""What our client costs beside a bare httpx POST of the same batches to the same endpoint.

Each batch goes three ways, one after the other in changing order: `post`, a bare POST whose reply is read, not parsed;
`bare`, the same and the least that makes vectors of it; `ours`, which does that too, checks number, size and length of
the vectors, bounds the time of the whole call, and lets the agent's threads run every now and then. `ratio` is ours by
`bare`, `ratio_post` ours by `post`.
In the OpenAI protocol ours always asks for base64. `openai` is beside a client that asks for numbers, which one gets
without asking; `openai_base64` beside one that asks for base64 as well.
"""

from __future__ import annotations

import base64
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent))
from common import SEED, endpoint, parser, report

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.embed.factory import embedder_for

MODEL = "bench"


def vectors_of(reply: dict[str, Any]) -> list[list[float]]:
    """What a reply holds, unchecked."""
    rows = reply["embeddings"] if "embeddings" in reply else [row["embedding"] for row in reply["data"]]
    if isinstance(rows[0], str):
        return [array("f", base64.b64decode(row)).tolist() for row in rows]
    return rows


def measure(url: str, extra: dict[str, str], dims: int, texts: int, batches: int) -> dict[str, float]:
    """Mean milliseconds of each way, and the ratios."""
    ours = embedder_for(Settings(embed_url=url, embed_model=MODEL, dims=dims), "", home=Path.home())
    assert ours is not None
    bare = httpx.Client()

    def post(batch: list[str]) -> httpx.Response:
        return bare.post(url, json={"model": MODEL, "input": batch, **extra})

    ways: dict[str, Callable[[list[str]], object]] = {
        "post": post,
        "bare": lambda batch: vectors_of(post(batch).json()),
        "ours": lambda batch: ours.embed_documents(batch, timeout_s=30),
    }
    generator = random.Random(SEED)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(batches + 3):  # the first ones open connections
        words = [f"Ticket {generator.random()} waits for a review of its second draft." for _ in range(texts)]
        for name in generator.sample(list(ways), len(ways)):
            began = time.perf_counter()
            ways[name](words)
            if number >= 3:
                taken[name].append((time.perf_counter() - began) * 1000)
    bare.close()
    ours.close()
    mean = {name: statistics.mean(values) for name, values in taken.items()}
    return {
        **{f"{name}_ms": round(value, 2) for name, value in mean.items()},
        "ratio": round(mean["ours"] / mean["bare"], 3),
        "ratio_post": round(mean["ours"] / mean["post"], 3),
    }


def main() -> None:
    """Measure both protocols at each latency."""
    arguments_parser = parser(__doc__)
    arguments_parser.add_argument("--dims", type=int, default=768)
    arguments_parser.add_argument("--texts", type=int, default=32, help="texts of one batch")
    arguments_parser.add_argument("--batches", type=int, default=200)
    arguments_parser.add_argument("--latency-ms", type=float, nargs="+", default=[20.0, 0.0])
    arguments = arguments_parser.parse_args()
    rows: list[dict[str, Any]] = []
    for latency_ms in arguments.latency_ms:
        with endpoint(arguments.dims, latency_ms, "unit") as ollama:
            openai = ollama.replace("/api/embed", "/v1/embeddings")
            for name, url, extra in (
                ("ollama", ollama, {}),
                ("openai", openai, {}),
                ("openai_base64", openai, {"encoding_format": "base64"}),
            ):
                figures = measure(url, extra, arguments.dims, arguments.texts, arguments.batches)
                rows.append({"protocol": name, "endpoint_ms": latency_ms} | figures)
    parameters = {"dims": arguments.dims, "texts": arguments.texts, "batches": arguments.batches}
    report("embed/http", parameters, rows, arguments.json)


if __name__ == "__main__":
    main()
