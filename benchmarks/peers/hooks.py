"""What a hook costs the agent's thread while everything is well, and while something is not."""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

from products import ENDPOINT, POSTGRES, QUEUE, TURNS, Product
from stage import Kept, Stage, in_turn
from tables import Measured, Table, percentile
from worker import Worker

STATES = ("all is well", "endpoint takes 300 ms", "endpoint down", "endpoint hangs", "Postgres down")
SLOW_S = 0.3
WARM_UP = 10  # questions, before anything is measured
MANY, FEW = 20, 3  # calls of the hooks that wait, and where one may take five seconds
_FAR = 1_000_000  # numbers of texts that no other part of a run uses

NEEDED = dict(zip(STATES, ((), (ENDPOINT,), (ENDPOINT,), (ENDPOINT,), (POSTGRES,)), strict=True))  # for a state
WRITES = ("sync_turn", "on_memory_write")
LACKED = {"sync_turn": (TURNS,), "queued": (QUEUE,)}  # what a hook does nothing without
WAITS = {
    "prefetch": "prefetch",
    "queued": "prefetch, the message before it named to queue_prefetch",
    "initialize": "initialize",
    "instance": "initialize and prefetch of a new instance",
    "process": "import, initialize and prefetch of a new process",
}

Took = dict[str, list[float]]
ByHook = dict[str, Measured]


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


def one_round(stage: Stage, product: Product, state: str, calls: int, pause_s: float) -> Took:
    """Microseconds of every call by hook."""
    place, home = stage.place(product), stage.home()
    turns = not product.without(TURNS)
    with stage.worker(product, place, ["alpha"], home) as worker:
        worker.ask("turns" if turns else "memories", first=_FAR, count=1 if turns else 2)
        place.wait_for(2, embedded=2, still_s=10, at_most_s=10)
        worker.ask("prefetch", queries=[f"What became of ticket {n} of the platform team?" for n in range(WARM_UP)])
        enter(stage, state)
        try:
            took = {"sync_turn": worker.ask("turns", first=0, count=calls, pause_s=pause_s)["us"]} if turns else {}
            took["on_memory_write"] = worker.ask("memories", first=0, count=calls, pause_s=pause_s)["us"]
            if state == STATES[0]:  # what was written is not on its way any more when questions come
                expected = 2 + (3 if turns else 1) * calls
                place.wait_for(expected, embedded=expected, still_s=10, at_most_s=60)
            return took | waits(stage, product, place, home, worker, state)
        finally:
            leave(stage)


def waits(stage: Stage, product: Product, place: Kept, home: Path, worker: Worker, state: str) -> Took:
    """Microseconds of the hooks that the agent waits for."""
    count = MANY if state in STATES[:3] else FEW
    asked = [f"Who looks after ticket {number}?" for number in range(count)]
    found = {"prefetch": worker.ask("prefetch", queries=asked)["us"]}
    if state == STATES[0] and not product.without(QUEUE):
        again = [f"Who reviews the draft of ticket {number}?" for number in range(count)]
        found["queued"] = worker.ask("prefetch", queries=again, queued_s=0.1)["us"]
    config = product.config(place.dsn, stage.endpoint.base)
    request = {"config": config, "home": str(home), "keep": False}
    found["initialize"] = worker.ask("open", themes=["alpha"] * FEW, **request)["us"]
    if state == STATES[0]:
        message = "Who writes the second draft of ticket"
        found["instance"] = worker.ask("open", themes=["alpha"] * count, message=message, **request)["us"]
        found["process"] = []
        for number in range(FEW):
            with Worker(product.python, product.provider, home) as new:
                asked_first = {"themes": ["alpha"], "message": f"What was said of ticket {number}, "}
                found["process"] += [us + new.imported_us for us in new.ask("open", **asked_first, **request)["us"]]
    return found


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """The tables of all states."""
    notes = [note for product in stage.products for note in product.notes]
    writes = Table("peers-hooks-write", "Hooks that write: microseconds of the agent's thread", notes=notes)
    waiting = Table("peers-hooks-wait", "Hooks that the agent waits for: milliseconds", notes=notes)
    for state in STATES:
        p50, p99 = of_state(stage, state, args)
        for hook in WRITES:
            row: dict[str, Any] = {"state": state, "hook": hook}
            writes.compare(row | {"of the calls": "p50"}, p50[hook], "us")
            writes.compare(row | {"of the calls": "p99"}, p99[hook], "us")
        for hook, label in WAITS.items():
            for kind, of in (("p50", p50), ("slowest", p99)):
                if any(not isinstance(values, str) for values in of[hook].values()):
                    in_ms = {
                        name: values if isinstance(values, str) else [us / 1000 for us in values]
                        for name, values in of[hook].items()
                    }
                    waiting.compare({"state": state, "hook": label, "of the calls": kind}, in_ms, "ms")
    return [writes, waiting]


def of_state(stage: Stage, state: str, args: argparse.Namespace) -> tuple[ByHook, ByHook]:
    """p50 and p99 of the rounds by hook and product, or why a product has none."""
    p50: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    p99: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(args.rounds):
        for product in in_turn(stage.products, turn):
            if product.without(*NEEDED[state]):
                continue
            for hook, took in one_round(stage, product, state, args.calls, 0.02).items():
                p50[hook][product.name].append(percentile(took, 0.5))
                p99[hook][product.name].append(percentile(took, 0.99))
    missing = {
        hook: {
            each.name: word for each in stage.products if (word := each.without(*NEEDED[state], *LACKED.get(hook, ())))
        }
        for hook in (*WRITES, *WAITS)
    }
    return {hook: p50[hook] | missing[hook] for hook in missing}, {hook: p99[hook] | missing[hook] for hook in missing}
