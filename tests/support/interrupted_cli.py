"""`hermes-pgvector` in a process that a signal reaches at an exact place: as it is about to do a thing with a file."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .forked_cli import run_forked

# What Python's audit hooks are told comes before the thing is done. The signal's handler runs inside the hook.
_FIRST = """
import os, sys

number, event, named, left = {told!r}

def heard(happens, about):
    global left
    if happens == event and any(isinstance(each, (str, os.PathLike)) and named in os.fspath(each) for each in about):
        left -= 1
        if not left:
            os.kill(os.getpid(), number)

sys.addaudithook(heard)
"""


def interrupted(
    number: signal.Signals, event: str, named: str, *arguments: str, env: Mapping[str, str], nth: int = 1
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which gets a signal at the `nth` event of this name with `named` in one of its paths.

    The events are those of Python's audit hooks, such as os.rename and os.remove.
    """
    first = _FIRST.format(told=(int(number), event, named, nth))
    return run_forked(*arguments, folder=Path(env["HERMES_HOME"]).parent, environment=env, first=first)
