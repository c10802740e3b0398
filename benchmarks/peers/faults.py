"""Writes lost: the same writes into thirteen faults, then recovery, then a restart of the agent's process."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from products import ENDPOINT, POSTGRES, Product
from products import TURNS as KEEPS_TURNS
from stage import Kept, Stage
from tables import Table
from worker import Worker, WorkerError

TURNS = 100  # of two rows each
PAUSE_S = 0.02  # between two turns: fewer than the 256 that the queues of two hold are ever under way
BURST = 1000
OUTAGE_S = 20.0  # of Postgres; writes go on
ENDPOINT_OUTAGE_S = 30.0  # after the last write
STILL_S = 15.0  # nothing has changed for so long: nothing more will come
AT_MOST_S = 120.0

Break = Callable[[Stage, Worker], None]


@dataclass(frozen=True)
class Fault:
    """What goes wrong while writes arrive (`during`), what is done then, and how much is written.

    A product without what it `needs` cannot have it.
    """

    name: str
    before: Break
    during: Break
    after: Break
    turns: int = TURNS
    pause_s: float = PAUSE_S
    odd: str = ""
    needs: str = ""


def nothing(stage: Stage, worker: Worker) -> None:
    """All is as it was."""


def mood(mode: str, latency_s: float = 0.0, after_s: float = 0.0) -> Break:
    """The endpoint gets into that mood, after a while."""

    def change(stage: Stage, worker: Worker) -> None:
        time.sleep(after_s)
        stage.endpoint.be(mode, latency_s)

    return change


def ended(how: signal.Signals | None) -> Break:
    """The agent's process ends, with the endpoint slow enough that writes are queued."""
    return lambda stage, worker: worker.end(how)


def crash(stage: Stage, worker: Worker) -> None:
    """Postgres is killed, and started again at once."""
    stage.kill_postgres()
    stage.start_postgres()


def outage(stage: Stage, worker: Worker) -> None:
    """Postgres is away for OUTAGE_S."""
    stage.stop_postgres()
    time.sleep(OUTAGE_S)
    stage.start_postgres()


SLOW = mood("ok", 0.05)
WELL = mood("ok", after_s=ENDPOINT_OUTAGE_S)
FAULTS = (
    Fault("endpoint down for 30 s", mood("down"), nothing, WELL, needs=ENDPOINT),
    Fault("endpoint hangs for 30 s", mood("hang"), nothing, WELL, needs=ENDPOINT),
    Fault("endpoint answers 500 for 30 s", mood("error"), nothing, WELL, needs=ENDPOINT),
    Fault("vectors of another length for 30 s", mood("short"), nothing, WELL, needs=ENDPOINT),
    Fault("Postgres killed, started again", nothing, crash, nothing, needs=POSTGRES),
    Fault("Postgres away for 20 s, 5 turns a second", nothing, outage, nothing, pause_s=0.2, needs=POSTGRES),
    Fault(
        "Postgres away for 20 s, 25 turns a second", nothing, outage, nothing, turns=600, pause_s=0.04, needs=POSTGRES
    ),
    Fault("agent gets SIGTERM", SLOW, nothing, ended(signal.SIGTERM)),
    Fault("agent gets SIGKILL", SLOW, nothing, ended(signal.SIGKILL)),
    Fault("agent ends without a word", SLOW, nothing, ended(None)),
    Fault("burst of 1,000 turns", nothing, nothing, nothing, turns=BURST, pause_s=0.0),
    Fault("NUL byte in every text", nothing, nothing, nothing, odd="\0"),
    Fault("lone surrogate in every text", nothing, nothing, nothing, odd="\ud800"),
)


def lost(stage: Stage, product: Product, fault: Fault) -> tuple[int, int, int]:
    """Rows accepted, rows found, and rows with an embedding, when all is well again."""
    place, home = stage.place(product), stage.home()
    expected = 2 * fault.turns
    stage.endpoint.be("ok")
    with stage.worker(product, place, ["alpha"], home) as worker:
        fault.before(stage, worker)
        if product.without(KEEPS_TURNS):
            worker.begin("memories", first=0, count=expected, pause_s=fault.pause_s / 2, odd=fault.odd)
        else:
            worker.begin("turns", first=0, count=fault.turns, pause_s=fault.pause_s, odd=fault.odd)
        breaking = threading.Timer(fault.turns * fault.pause_s / 4, partial(fault.during, stage, worker))
        breaking.start()
        worker.answer(600)
        breaking.join()
        fault.after(stage, worker)
        if fault.after not in _ENDINGS:
            _settle(place, expected)
            _shut_down(worker)
    stage.endpoint.be("ok")
    with stage.worker(product, place, ["alpha"], home):
        rows, embedded = _settle(place, expected)
    return expected, rows, embedded


_ENDINGS = {fault.after for fault in FAULTS if fault.name.startswith("agent")}


def _settle(place: Kept, expected: int) -> tuple[int, int]:
    return place.wait_for(expected, embedded=expected, still_s=STILL_S, at_most_s=AT_MOST_S)


def _shut_down(worker: Worker) -> None:
    try:
        worker.ask("shutdown", timeout_s=60)
    except WorkerError as exc:
        print(f"shutdown: {exc}", file=sys.stderr)


def run(stage: Stage, args: argparse.Namespace) -> list[Table]:
    """Rows lost, and rows without an embedding, by fault."""
    notes = [note for product in stage.products for note in product.notes]
    if any(product.without(KEEPS_TURNS) for product in stage.products):
        notes.append("What keeps no turns was given as many entries of the built-in memory.")
    table = Table("peers-faults", "Writes lost in faults", notes=notes)
    for fault in FAULTS:
        if args.fault and not any(word in fault.name for word in args.fault):
            continue
        line: dict[str, Any] = {"fault": fault.name, "rows accepted": f"{2 * fault.turns:,}"}
        for product in stage.products:
            name, word = product.name, product.without(fault.needs)
            found = [] if word else [lost(stage, product, fault) for _ in range(args.rounds)]
            line[f"{name}: lost"] = word or ", ".join(f"{expected - rows:,}" for expected, rows, _ in found)
            line[f"{name}: never embedded"] = word or ", ".join(f"{rows - embedded:,}" for _, rows, embedded in found)
        table.rows.append(line)
        print(line, file=sys.stderr, flush=True)
    return [table]
