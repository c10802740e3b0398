"""What all clients of a soak's servers have in common: a thread that acts, pauses, and tells the ledger."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import texts
from .driver import NUMBERS
from .ledger import Ledger


class Gone(Exception):
    """The server went away before it had answered."""


class Client(ABC):
    """One client over all lives of its server, and of the connections to it."""

    door: str
    actions: Mapping[str, float]

    def __init__(self, name: str, index: int, ledger: Ledger, *, seed: int, per_s: float) -> None:
        self.name = name
        self.ledger = ledger
        self.random = random.Random(f"{seed} {name}")
        self.paused = False
        self.closed = False
        self.lock = threading.Lock()  # held during an action
        self._number = NUMBERS * index
        self._per_s = per_s
        self._thread = threading.Thread(target=self.play, name=name, daemon=True)

    def start(self) -> None:
        """Begin to act, whenever the server is there."""
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Whether its thread is there, as it should be until `close`."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Leave for good."""
        self.closed = True
        if self._thread.ident is not None:
            self._thread.join(60)

    @abstractmethod
    def play(self) -> None:
        """Act until `closed`."""

    @abstractmethod
    def forget_numbers(self) -> None:
        """Let go of all numbers of rows: an older copy of the server gives them to others."""

    @contextmanager
    def still(self) -> Iterator[None]:
        """Have no call under way in the block."""
        with self.lock:
            yield

    def next_number(self) -> int:
        """The number of the next call, and of what it writes."""
        self._number += 1
        return self._number

    def some_action(self) -> str:
        """What to do next."""
        return self.random.choices(list(self.actions), list(self.actions.values()))[0]

    def wait_s(self) -> float:
        """How long until then."""
        return self.random.expovariate(self._per_s)

    # -- what the ledger is told

    def begin(self, life: int, what: str, theme: str, number: int, **more: object) -> dict[str, Any]:
        """A call is about to be made."""
        said = {"do": what, "theme": theme, "begin": number, "door": self.door, "at": time.perf_counter(), **more}
        with self.ledger.lock:
            self.ledger.begin(self.name, life, said)
        return said

    def end(self, begun: Mapping[str, Any], **said: Any) -> None:
        """It was answered; `text` is where only what is of its theme may stand."""
        theme, text = begun["theme"], said.pop("text", "")
        told = {
            "ms": round(1000 * (time.perf_counter() - begun["at"]), 3),
            "refused": 0,
            "durable": True,  # the disks of servers take everything
            "strange": sorted({found for found, _ in texts.tags_in(text) if found != theme}),
        }
        with self.ledger.lock:
            self.ledger.end(self.name, begun, told | said)

    def gone(self, begun: Mapping[str, Any]) -> None:
        """The server went away meanwhile."""
        with self.ledger.lock:
            self.ledger.died(self.name, begun)

    def accuse(self, what: str) -> None:
        """Note a violation."""
        with self.ledger.lock:
            self.ledger.accuse(f"{self.name}: {what}")
