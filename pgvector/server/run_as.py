"""Runs programs as the account that owns the server.

What changes files below the server's directory runs as the account, never as root: the account could plant a link there
to a file that only root may write.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ..domain.errors import EmbeddedServerError
from .layout import Account
from .waiting import ProgressTimeout, fixed_timeout

# The server lives on after the agent that started it, under an account that others may share:
# it must not inherit API keys and PG* variables from the agent's environment.
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_SLICE_S = 0.1
_USUAL_S = 30.0

_WRITE = 'umask 077; cat > "$1.new" && mv -f "$1.new" "$1"'


@dataclass(frozen=True)
class Finished:
    """A command that has ended; `output` holds both its streams."""

    code: int
    output: str


def run(
    account: Account,
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: ProgressTimeout | None = None,
    text: str = "",
    pass_fds: Sequence[int] = (),
) -> Finished:
    """Run a command as `account`, in a session of its own, with `text` on its standard input.

    Raises: EmbeddedServerError when it cannot be executed or `timeout`, by default half a minute, is over first.
    """
    name = os.path.basename(os.fspath(argv[0]))
    environment = {key: os.environ[key] for key in KEPT_VARIABLES if key in os.environ}
    environment.update(LC_ALL="C", TZ="UTC")
    try:
        process = subprocess.Popen(
            [os.fspath(part) for part in argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=environment,
            # Ctrl-C in the agent's terminal goes to the whole foreground group.
            start_new_session=True,
            pass_fds=pass_fds,
            user=account.uid if account.switched else None,
            group=account.gid if account.switched else None,
            extra_groups=[] if account.switched else None,
        )
        output = _output(process, text.encode(), timeout or fixed_timeout(_USUAL_S))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise EmbeddedServerError(f"{name} cannot be run as {account.name!r}: {error}") from error
    if output is None:
        raise EmbeddedServerError(f"{name} was stopped because it made no progress any more; is the machine busy?")
    return Finished(process.returncode, output.decode(errors="replace").strip())


def must_run(account: Account, argv: Sequence[str | os.PathLike[str]], *, text: str = "") -> str:
    """Run a command like `run` and return its output. Raises: EmbeddedServerError when it fails."""
    done = run(account, argv, text=text)
    if done.code:
        name = os.path.basename(os.fspath(argv[0]))
        raise EmbeddedServerError(f"{name} failed with exit code {done.code}: {done.output[-1500:]}")
    return done.output


def write(account: Account, path: os.PathLike[str], text: str) -> None:
    """Replace a file of the account atomically, readable by the account only."""
    must_run(account, ["/bin/sh", "-c", _WRITE, "sh", path], text=text)


def check_account(account: Account) -> None:
    """Raise EmbeddedServerError when this process may not act as the account (a container without setuid)."""
    if not account.switched:
        return
    try:
        must_run(account, ["/bin/sh", "-c", ":"])
    except EmbeddedServerError as error:
        raise EmbeddedServerError(
            f"Postgres refuses to run as root, and this process may not switch to the account {account.name!r} "
            f"({error}); start the agent as an ordinary user, or set `dsn`"
        ) from error


def _output(process: subprocess.Popen[bytes], given: bytes, timeout: ProgressTimeout) -> bytes | None:
    """Return the output of a process when it ends; None if it was killed because `timeout` is over."""
    with process:
        rest: bytes | None = given
        while True:
            try:
                return process.communicate(rest, timeout=_SLICE_S)[0]
            except subprocess.TimeoutExpired:
                rest = None  # the first call sends it
                if timeout.over():
                    process.kill()
                    return None
            except BaseException:
                process.kill()
                raise
