"""One line of doctor's checklist, and what its checks are given."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...config.settings import Settings
from ...domain.commandline import typed
from ..common.database import EndpointKeys

State = Literal["ok", "note", "fail"]
Locate = Callable[[], str]
_TO_US = ": hermes-pgvector doctor"  # what an error names that knows no better


@dataclass(frozen=True, slots=True)
class Check:
    """What was found at one place. `fix` is a command or a sentence, empty when all is well.

    `repair` is what `doctor --fix` does about it, by its name in repair.py; empty where that is not for a
    program to decide.
    """

    name: str
    state: State
    said: str
    fix: str = ""
    repair: str = ""

    def __post_init__(self) -> None:
        for name in ("said", "fix"):
            object.__setattr__(self, name, typed(getattr(self, name).removesuffix(_TO_US)))


def ok(name: str, said: str) -> Check:
    """Return that all is well."""
    return Check(name, "ok", said)


def note(name: str, said: str, fix: str = "", repair: str = "") -> Check:
    """Return what there is to know."""
    return Check(name, "note", said, fix, repair)


def fail(name: str, said: str, fix: str = "", repair: str = "") -> Check:
    """Return what is wrong."""
    return Check(name, "fail", said, fix, repair)


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """What is examined. `locate` gives the conninfo where no `dsn` is set, starting the embedded server."""

    settings: Settings
    home: Path
    locate: Locate | None = None

    now: Callable[[], float] = time.time

    @property
    def keys(self) -> EndpointKeys:
        """Return the keys of the endpoints."""
        return EndpointKeys.of(self.settings, self.home)
