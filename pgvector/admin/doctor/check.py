"""One line of doctor's checklist, and the context that its checks get."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...config.settings import Settings
from ...domain.commandline import typed
from ..common.database import EndpointKeys
from ..common.embedded_server import LocateDatabase

State = Literal["ok", "note", "fail"]
_TO_US = ": hermes-pgvector doctor"  # the end of errors that know no better remedy than doctor


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check. `fix` is a command or a sentence; empty if all is well.

    `repair` is the name in repair.py of what `doctor --fix` does about it; empty if that is not for a program to
    decide.
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
    """Return a check that found all well."""
    return Check(name, "ok", said)


def note(name: str, said: str, fix: str = "", repair: str = "") -> Check:
    """Return a check that found something worth knowing."""
    return Check(name, "note", said, fix, repair)


def fail(name: str, said: str, fix: str = "", repair: str = "") -> Check:
    """Return a check that found a failure."""
    return Check(name, "fail", said, fix, repair)


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """What to examine. Without a `dsn`, `locate` starts the embedded server and returns the conninfo."""

    settings: Settings
    home: Path
    locate: LocateDatabase | None = None
    now: Callable[[], float] = time.time

    @property
    def keys(self) -> EndpointKeys:
        """Return the keys of the endpoints."""
        return EndpointKeys.of(self.settings, self.home)
