"""`hermes-pgvector` in a process that a signal reaches at an exact place: as it is about to do a thing with a file."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

# What Python's audit hooks are told comes before the thing is done. The signal's handler runs inside the hook.
_PROGRAM = """
import os, signal, sys

number, event, named, nth, *arguments = sys.argv[1:]
left = int(nth)
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever a shell in the background has told its children

def heard(happens, about):
    global left
    if happens == event and any(isinstance(each, (str, os.PathLike)) and named in os.fspath(each) for each in about):
        left -= 1
        if not left:
            os.kill(os.getpid(), int(number))

from hermes_memory_pgvector.cli import main
sys.addaudithook(heard)
sys.argv = ["hermes-pgvector", *arguments]
sys.exit(main())
"""


def interrupted(
    number: signal.Signals, event: str, named: str, *arguments: str, env: Mapping[str, str], nth: int = 1
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which gets a signal at the `nth` event of this name with `named` in one of its paths.

    The events are those of Python's audit hooks, such as os.rename and os.remove.
    """
    return subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, str(int(number)), event, named, str(nth), *arguments],
        cwd=Path(env["HERMES_HOME"]).parent,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
