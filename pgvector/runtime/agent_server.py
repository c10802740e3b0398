"""The embedded server as an agent uses it.

The agent holds its share of the server and connects. If the server is down, missing or not migrated, or when its last
user has left, the operator's tool does what is needed, in a process of its own.
"""

from __future__ import annotations

import json
import logging
import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..config.settings import Settings
from ..domain import errors
from ..domain.commandline import command_of
from ..domain.errors import EmbeddedServerError, HermesPgvectorError, SchemaNotApplied, UpgradeNeeded
from ..domain.patterns import late_pattern
from ..server.share import Conninfo, ServerShare
from ..store.pool import connect
from ..store.schema import ensure_schema

logger = logging.getLogger(__name__)

STARTUP_S = 60.0  # enough to create a server on a slow disk
# A start may include a long recovery, and migrations may change large tables. A server told to stop does so by itself.
_LONGEST_S = {"bring-up": 1800.0, "stop-unused": 60.0}
_END_S = 60.0  # how long a process that has answered may take to end
OPERATOR = "admin.common.embedded_server"  # the program that does what an agent may not
ANSWER = "hermes-pgvector server: "  # how the line begins with which the operator's process answers
_ANSWER_LINE = late_pattern(rb"^" + ANSWER.encode() + rb"(.*)\n", re.MULTILINE)


def root_in(settings: Settings) -> Path | None:
    """Return the directory of the embedded server that the settings name; None stands for the user's."""
    return Path(settings.embedded_dir).expanduser() if settings.embedded_dir else None


def is_migrated(conninfo: str, dims: int) -> bool:
    """Return False if migrations are missing; any other problem is reported by the code that uses the conninfo."""
    try:
        with connect(conninfo) as conn:
            conn.deadline = time.monotonic() + STARTUP_S
            ensure_schema(conn, dims=dims)
    except HermesPgvectorError as exc:
        # An operator has to start an upgrade, since it can be undone.
        return isinstance(exc, UpgradeNeeded) or not isinstance(exc, SchemaNotApplied)
    return True


class AgentServer:
    """The embedded server of one runtime."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._share = ServerShare(root_in(settings), run_as=settings.embedded_run_as)
        self._share.reserve()
        self._announced = False

    def locate(self) -> str:
        """Return the conninfo for agents, once the server is up and migrated. Raises HermesPgvectorError."""
        self._announce()
        joined = self._share.join()
        if joined is None or not is_migrated(joined.runtime, self._settings.dims):
            joined = self._brought_up()
        return joined.runtime

    def close(self) -> None:
        """Give up the share; the last process to do so has the server stopped, and waits unless the stop is stuck."""
        if self._share.leave():
            with self._operator("stop-unused"):
                pass

    def _announce(self) -> None:
        if not self._announced and (notice := self._share.notice()):
            logger.info("hermes-pgvector: %s", notice)
        self._announced = True

    def _brought_up(self) -> Conninfo:
        """Have the operator's process start and migrate the server; it stays present there until this process is."""
        with self._operator("bring-up") as problem:
            joined = self._share.join()
        if problem is not None:
            raise problem
        if joined is None:
            raise EmbeddedServerError("the embedded Postgres was stopped while it started; it is started again")
        return joined

    @contextmanager
    def _operator(self, action: Literal["bring-up", "stop-unused"]) -> Iterator[HermesPgvectorError | None]:
        """Run `action` in the operator's process and yield its error or None; it lives until the block ends."""
        settings = self._settings
        given = (str(self._share.root), settings.embedded_bin_dir, settings.embedded_run_as, str(settings.dims))
        try:
            process = subprocess.Popen(
                command_of(OPERATOR, action, *given),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the agent's terminal goes to the whole foreground group
            )
        except OSError as exc:
            raise EmbeddedServerError(f"the process that runs the embedded Postgres cannot be started: {exc}") from exc
        with process:
            yield _answer_of(process, time.monotonic() + _LONGEST_S[action])
            try:
                # Closing the pipe is not enough: a process that was forked meanwhile holds it open.
                process.communicate(b"done\n", timeout=_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _answer_of(process: subprocess.Popen[bytes], deadline: float) -> HermesPgvectorError | None:
    """Wait for the answer of the operator's process, and return the error in it; None if all is well."""
    assert process.stdout is not None
    said = b""
    # Without a thread: none can be started while the interpreter shuts down.
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            said += (more := os.read(process.stdout.fileno(), 65536))
            if (answer := _ANSWER_LINE.search(said)) is not None:
                kind, message = json.loads(answer[1])
                return getattr(errors, kind)(message) if kind else None
            if not more:
                break
        else:
            process.kill()
    reason = said.decode(errors="replace").strip().rpartition("\n")[2]
    return EmbeddedServerError(f"the process that runs the embedded Postgres ended: {reason or 'without a message'}")
