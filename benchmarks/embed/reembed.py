"""A change of the embedding model under an agent that goes on asking: rows/s by phase, and what recall pays for it.

python -P benchmarks/embed/reembed.py [--rows 20000] [--dims 768] [--onnx FOLDER]

Vectors come from an endpoint that costs next to nothing (benchmarks/endpoint.py), so that the rest shows; with --onnx
the real model of that folder, run here, is timed for 512 rows as well.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import endpoint, parser, postgres, provider, report, turn
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common import new_vectors as store
from hermes_memory_pgvector.admin.reembed.reembedding import Reembedding
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.embed.factory import embedder_for
from hermes_memory_pgvector.embed.onnx import OnnxEmbedder, dims_of

OLD_DIMS = 384
MILLION = 1_000_000


class Asker(threading.Thread):
    """An agent's recall, over and over; `during` collects what each took, in ms."""

    def __init__(self, agent: Any) -> None:
        super().__init__(daemon=True)
        self.agent = agent
        self.stop = threading.Event()
        self.took: list[tuple[float, float]] = []

    def run(self) -> None:
        number = 0
        while not self.stop.wait(0.1):
            number += 37
            began = time.perf_counter()
            self.agent.handle_tool_call("recall_conversation", {"query": f"who looks after ticket {number}?"})
            self.took.append((began, (time.perf_counter() - began) * 1000))

    def between(self, began: float, ended: float) -> list[float]:
        """What those took that began in this time."""
        return [ms for at, ms in self.took if began <= at < ended] or [float("nan")]


class Phases:
    """Adds up the time inside functions of the product."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.spans: dict[str, tuple[float, float]] = {}

    def around(self, owner: Any, name: str, phase: str) -> None:
        """Count the time in owner.name for `phase`."""
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                ended = time.perf_counter()
                self.spent[phase] = self.spent.get(phase, 0.0) + ended - began
                self.spans[phase] = (self.spans.get(phase, (began, 0.0))[0], ended)

        setattr(owner, name, timed)


@contextmanager
def filled(dsn: str, admin: str, url: str, rows: int) -> Iterator[Any]:
    """An agent on a database of so many turns with vectors."""
    config = {"dsn": dsn, "dims": OLD_DIMS, "embed_url": url, "embed_model": "older"}
    with provider(config) as agent:
        for number in range(rows // 2):
            agent.sync_turn(*turn(number), session_id=f"session-{number // 20}")
        agent.runtime.writer.flush(600)
        with store.admin_connection(admin) as conn:
            store.vacuum(conn)
        yield agent


def ms(values: list[float]) -> str:
    """Median and 95th percentile."""
    return f"{statistics.median(values):.0f} / {sorted(values)[int(len(values) * 0.95)]:.0f}"


def main() -> None:
    """Run, print a table."""
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--dims", type=int, default=768, help="of the new model")
    options.add_argument("--onnx", type=Path, metavar="FOLDER", help="time this model, too")
    args = options.parse_args()
    phases = Phases()
    with (
        postgres() as server,
        endpoint(OLD_DIMS, 5, "unit", "many") as old,
        endpoint(args.dims, 0, "unit", "many") as new,
    ):
        dsn = server.database(OLD_DIMS)
        admin = make_conninfo(dsn, user="postgres")
        with filled(dsn, admin, old, args.rows) as agent, store.admin_connection(admin) as conn:
            asker = Asker(agent)
            asker.start()
            time.sleep(10)
            settings = Settings(
                embed_url=new, embed_model="newer", embed_api="ollama", dims=args.dims, embed_timeout_s=120
            )
            embedder = embedder_for(settings, "", home=Path.home())
            assert embedder is not None
            phases.around(embedder, "embed_documents", "endpoint and client")
            phases.around(store, "fill_next", "writing the vectors")
            phases.around(store, "build_indexes", "building the indexes")
            phases.around(store, "switch", "the switch")
            phases.around(store, "vacuum", "vacuum afterwards")
            began = time.perf_counter()
            Reembedding(conn, embedder, chunk_tokens=400).run()
            ended = time.perf_counter()
            time.sleep(10)
            asker.stop.set()
            asker.join()
    rows = [
        {
            "phase": phase,
            "seconds": round(spent, 3),
            "rows/s": round(args.rows / spent) if spent > 0.5 else "",
        }
        for phase, spent in [*phases.spent.items(), ("in all", ended - began)]
    ]
    report("reembed", {"rows": args.rows, "from": OLD_DIMS, "to": args.dims}, rows, args.json)
    building = phases.spans["building the indexes"]
    before = asker.between(0, began)
    print("\nrecall of the agent, ms, median / p95 (it goes by words after the switch):")
    for name, took in (
        ("before", before),
        ("while rows are embedded", asker.between(began, building[0])),
        ("while indexes are built", asker.between(*building)),
        (
            "in the second of the switch",
            asker.between(phases.spans["the switch"][0] - 0.5, phases.spans["the switch"][1] + 0.5),
        ),
        ("after", asker.between(ended, float("inf"))),
    ):
        print(
            f"  {name}: {ms(took)}, {statistics.median(took) / statistics.median(before):.2f} x, worst {max(took):.0f}"
        )
    each = sum(phases.spent[name] for name in ("endpoint and client", "writing the vectors")) / args.rows
    build = phases.spent["building the indexes"] / args.rows
    print(
        f"\na million rows, by these: {each * MILLION / 60:.0f} min for client and writes, at least "
        f"{build * MILLION / 60:.0f} min for indexes "
        "(HNSW grows faster than the number of rows), and the model's own time"
    )
    if args.onnx:
        time_model(args.onnx)


def time_model(folder: Path) -> None:
    """How fast the model itself embeds the same texts."""
    model = OnnxEmbedder(folder=folder, dims=dims_of(folder), threads=1)
    texts = [text for number in range(256) for text in turn(number)]
    model.embed_documents(texts[:8], timeout_s=60)
    began = time.perf_counter()
    model.embed_documents(texts, timeout_s=600)
    rate = len(texts) / (time.perf_counter() - began)
    print(f"{folder.name}, one thread: {rate:.0f} rows/s, so {MILLION / rate / 3600:.1f} h for a million by one worker")


if __name__ == "__main__":
    main()
