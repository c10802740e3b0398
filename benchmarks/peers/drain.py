"""How fast accepted turns reach Postgres, from the first hook to the last row with its embedding."""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

from products import TURNS as KEEPS_TURNS
from products import Product
from stage import Stage, in_turn
from tables import Table

# Turns of each writer: two rows each, and fewer than the 256 that the queues of two hold, so that none is dropped.
TURNS = {1: 120, 8: 100, 32: 60}
_FAR = 1_000_000


def rows_per_s(stage: Stage, product: Product, writers: int) -> float:
    """Rows a second of so many provider instances, each with a theme and a thread of its own."""
    database = stage.database(product)
    themes = [f"alpha-{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(writers)]
    with stage.worker(product, database, themes) as worker:
        worker.ask("turns", first=_FAR, count=1, writers=writers)
        database.wait_for(2 * writers, embedded=2 * writers, still_s=30, at_most_s=60)
        expected = 2 * writers * (TURNS[writers] + 1)
        began = time.time()
        worker.begin("turns", first=0, count=TURNS[writers], writers=writers)
        rows, embedded = database.wait_for(expected, embedded=expected, still_s=30, at_most_s=300)
        took_s = time.time() - began
        worker.answer()
        if min(rows, embedded) < expected:
            raise RuntimeError(f"{product.name}: {rows} rows, {embedded} embedded, {expected} expected")
        return 2 * writers * TURNS[writers] / took_s


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """Rows a second by endpoint and writers."""
    notes = [note for product in stage.products for note in product.notes]
    table = Table("peers-drain", "Drain: rows a second", notes=notes)
    missing = {each.name: word for each in stage.products if (word := each.without(KEEPS_TURNS))}
    for latency_ms in (0, 20):
        stage.endpoint.be("ok", latency_ms / 1000)
        for writers in TURNS:
            measured: dict[str, list[float]] = defaultdict(list)
            for turn in range(args.rounds):
                for product in (each for each in in_turn(stage.products, turn) if each.name not in missing):
                    measured[product.name].append(rows_per_s(stage, product, writers))
            table.compare({"endpoint": f"{latency_ms} ms", "writers": writers}, measured | missing, "rows/s")
    stage.endpoint.be("ok")
    return [table]
