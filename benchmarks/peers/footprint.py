"""What 1,000 provider instances that nobody shuts down leave behind, as the host's API server makes one a request."""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator

import psycopg
from products import POSTGRES, TURNS, Product
from stage import Database, Kept, Stage, in_turn
from tables import Table
from worker import Worker

INSTANCES = 1000
WHAT: dict[str, tuple[str, ...]] = {
    "instances made in a minute": (),
    "ms for the slowest instance": (),
    "threads more": (),
    "connections at most": (POSTGRES,),
    "connections left": (POSTGRES,),
    "open files more": (),
    "MB more": (),
    "turns found of those made, %": (TURNS,),
}
_CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'hermes'"
MAX_S = 60.0  # an instance may wait half a minute for a connection that there is not


@contextlib.contextmanager
def _most_connections(place: Kept) -> Iterator[list[int]]:
    """A list of one number, which grows to the most connections that were seen while the block ran."""
    most, over = [0], threading.Event()
    if not isinstance(place, Database):
        yield most
        return

    def watch() -> None:
        with psycopg.connect(place.admin, autocommit=True) as conn:
            while not over.wait(0.2):
                row = conn.execute(_CONNECTIONS.encode()).fetchone()
                most[0] = max(most[0], row[0] if row else 0)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def one_round(stage: Stage, product: Product) -> dict[str, float]:
    """Make INSTANCES of them, a turn each, let go of each, and look."""
    place, home = stage.place(product), stage.home()
    config = product.config(place.dsn, stage.endpoint.base)
    with Worker(product.python, product.provider, home) as worker:
        worker.ask("open", config=config, home=str(home), themes=["alpha"], keep=False, turn=10**6)
        before = worker.ask("state")
        themes = [f"alpha-{chr(97 + n % 26)}" for n in range(INSTANCES)]
        request = {"config": config, "home": str(home), "themes": themes, "keep": False, "turn": 1, "max_s": MAX_S}
        with _most_connections(place) as most:
            answer = worker.ask("open", timeout_s=10 * MAX_S, **request)
        time.sleep(1.0)  # what ends by itself may do so
        after = worker.ask("state")
        found = {}
        if isinstance(place, Database):
            found["connections at most"] = most[0]
            (found["connections left"],) = place.ask(_CONNECTIONS)
        if not product.without(TURNS):
            rows, _ = place.wait_for(2 * INSTANCES, embedded=0, still_s=5, at_most_s=60)
            found["turns found of those made, %"] = 100 * rows / (2 * len(answer["us"]) + 2)
    return found | {
        "instances made in a minute": len(answer["us"]),
        "ms for the slowest instance": max(answer["us"]) / 1000,
        "threads more": after["threads"] - before["threads"],
        "MB more": after["rss_mb"] - before["rss_mb"],
        "open files more": after["files"] - before["files"],
    }


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """What is left behind."""
    measured: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(args.rounds):
        for product in in_turn(stage.products, turn):
            for what, value in one_round(stage, product).items():
                measured[what][product.name].append(value)
    notes = [note for product in stage.products for note in product.notes]
    table = Table("peers-footprint", f"{INSTANCES:,} provider instances, none shut down", notes=notes)
    for what, needed in WHAT.items():
        missing = {each.name: word for each in stage.products if (word := each.without(*needed))}
        table.compare({"what": what}, measured[what] | missing, "")
    return [table]
