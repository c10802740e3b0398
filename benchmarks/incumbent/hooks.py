"""What a hook costs the agent's thread while everything is well, and while something is not."""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

from stage import Stage
from tables import Table, percentile

STATES = ("all is well", "endpoint takes 300 ms", "endpoint down", "endpoint hangs", "Postgres down")
SLOW_S = 0.3
WARM_UP = 10  # questions, before anything is measured
_FAR = 1_000_000  # numbers of texts that no other part of a run uses


def enter(stage: Stage, state: str) -> None:
    """Bring endpoint and server into the state."""
    moods = {STATES[1]: ("ok", SLOW_S), STATES[2]: ("down", 0.0), STATES[3]: ("hang", 0.0)}
    stage.endpoint.be(*moods.get(state, ("ok", 0.0)))
    if state == STATES[4]:
        stage.stop_postgres()


def leave(stage: Stage) -> None:
    """All is well again."""
    stage.endpoint.be("ok")
    stage.start_postgres()


def one_round(stage: Stage, state: str, calls: int, pause_s: float) -> dict[str, dict[str, list[float]]]:
    """Microseconds of every call, by product and hook."""
    found: dict[str, dict[str, list[float]]] = {}
    for product in stage.products:
        database = stage.database(product)
        home = stage.home()
        with stage.worker(product, database, ["alpha"], home) as worker:
            worker.ask("turns", first=_FAR, count=1)
            database.wait_for(2, embedded=2, still_s=10, at_most_s=10)
            worker.ask("prefetch", queries=[f"What became of ticket {n} of the platform team?" for n in range(WARM_UP)])
            enter(stage, state)
            try:
                took = {
                    "sync_turn": worker.ask("turns", first=0, count=calls, pause_s=pause_s),
                    "on_memory_write": worker.ask("memories", first=0, count=calls, pause_s=pause_s),
                    "prefetch": worker.ask("prefetch", queries=[f"Who looks after ticket {n}?" for n in range(5)]),
                    "initialize": worker.ask(
                        "open",
                        config=product.config(database.dsn, stage.endpoint.base),
                        home=str(home),
                        themes=["alpha"] * 3,
                        keep=False,
                    ),
                }
            finally:
                leave(stage)
        found[product.name] = {hook: answer["us"] for hook, answer in took.items()}
    return found


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """The tables of all states."""
    writes = Table("Hooks that write: microseconds of the agent's thread")
    waits = Table("Hooks that the agent waits for: milliseconds")
    for state in STATES:
        p50: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        p99: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for _ in range(args.rounds):
            for name, hooks in one_round(stage, state, args.calls, 0.02).items():
                for hook, took in hooks.items():
                    p50[hook][name].append(percentile(took, 0.5))
                    p99[hook][name].append(percentile(took, 0.99))
        for hook in ("sync_turn", "on_memory_write"):
            row: dict[str, Any] = {"state": state, "hook": hook}
            writes.compare(row | {"of the calls": "p50"}, p50[hook], "us")
            writes.compare(row | {"of the calls": "p99"}, p99[hook], "us")
        for hook in ("prefetch", "initialize"):
            for label, of in (("p50", p50), ("slowest", p99)):
                in_ms = {name: [us / 1000 for us in values] for name, values in of[hook].items()}
                waits.compare({"state": state, "hook": hook, "of the calls": label}, in_ms, "ms")
    return [writes, waits]
