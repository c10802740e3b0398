"""The OS account that owns the server: the user itself, or an unprivileged one when we are root."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ..domain.errors import EmbeddedServerError
from .progress_wait import Patience, lasting

if sys.platform != "win32":
    import pwd

# Postgres refuses to run as root. These exist on nearly every machine; the first is made for the purpose.
USUAL_ACCOUNTS = ("postgres", "nobody")

# The server lives on after the agent that started it, under an account that others may share:
# API keys and PG* variables of the agent's environment must not go with it.
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_SLICE_S = 0.1

_WRITE = 'umask 077; cat > "$1.new" && mv -f "$1.new" "$1"'


def require_posix() -> None:
    """Raises EmbeddedServerError on Windows."""
    if sys.platform == "win32":
        raise EmbeddedServerError(
            "the embedded Postgres is not supported on Windows yet; set `dsn` to a Postgres server with pgvector"
        )


@dataclass(frozen=True)
class Finished:
    """A command that has ended; `output` holds both its streams."""

    code: int
    output: str


@dataclass(frozen=True)
class Account:
    """An OS account and the way to act as it; `switched` when it is not the account of this process.

    What changes files below the server's directory is run as the account and not done by root itself: there,
    the account could plant a link to a file that only root may write.
    """

    name: str
    uid: int
    gid: int
    switched: bool

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        patience: Patience,
        text: str = "",
        pass_fds: Sequence[int] = (),
    ) -> Finished:
        """Runs a command as this account, in a session of its own, with `text` on its standard input.

        Raises: EmbeddedServerError when it cannot be executed or `patience` is over first.
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
                user=self.uid if self.switched else None,
                group=self.gid if self.switched else None,
                extra_groups=[] if self.switched else None,
            )
            output = _output(process, text.encode(), patience)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise EmbeddedServerError(f"{name} cannot be run as {self.name!r}: {error}") from error
        if output is None:
            raise EmbeddedServerError(f"{name} was ended: it made no progress any more; is the machine busy?")
        return Finished(process.returncode, output.decode(errors="replace").strip())

    def must_run(self, argv: Sequence[str | os.PathLike[str]], *, timeout_s: float = 30.0, text: str = "") -> str:
        """Runs a command like `run` and returns its output. Raises: EmbeddedServerError when it fails."""
        done = self.run(argv, patience=lasting(timeout_s), text=text)
        if done.code:
            name = os.path.basename(os.fspath(argv[0]))
            raise EmbeddedServerError(f"{name} failed with exit code {done.code}: {done.output[-1500:]}")
        return done.output

    def write(self, path: os.PathLike[str], text: str) -> None:
        """Replaces a file of this account's, atomically, readable by the account only."""
        self.must_run(["/bin/sh", "-c", _WRITE, "sh", path], text=text)

    def check(self) -> None:
        """Raises EmbeddedServerError when this process may not act as the account (a container without setuid)."""
        if not self.switched:
            return
        try:
            self.must_run(["/bin/sh", "-c", ":"])
        except EmbeddedServerError as error:
            raise EmbeddedServerError(
                f"Postgres refuses to run as root, and this process may not switch to the account {self.name!r} "
                f"({error}); start the agent as an ordinary user, or set `dsn`"
            ) from error


def _output(process: subprocess.Popen[bytes], given: bytes, patience: Patience) -> bytes | None:
    """What a process prints until its end; None when it was killed because `patience` is over."""
    with process:
        rest: bytes | None = given
        while True:
            try:
                return process.communicate(rest, timeout=_SLICE_S)[0]
            except subprocess.TimeoutExpired:
                rest = None  # it is on its way
                if patience.over():
                    process.kill()
                    return None
            except BaseException:
                process.kill()
                raise


def choose_account(run_as: str = "") -> Account:
    """The account to run Postgres as: ourselves, or as root `run_as`, else the first of USUAL_ACCOUNTS there is.

    Raises: EmbeddedServerError when there is no such account.
    """
    uid = os.geteuid()
    if uid != 0:
        try:
            own = pwd.getpwuid(uid)
        except KeyError:
            raise EmbeddedServerError(
                f"uid {uid} has no entry in the user database, which Postgres needs to know its owner by; "
                "give the container a user with a name, or set `dsn`"
            ) from None
        return Account(own.pw_name, uid, own.pw_gid, switched=False)
    for name in (run_as,) if run_as else USUAL_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise EmbeddedServerError(
                f"Postgres refuses to run as root, and {name!r} is root; name another account (`embedded_run_as`)"
            )
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switched=True)
    wanted = repr(run_as) if run_as else " or ".join(map(repr, USUAL_ACCOUNTS))
    raise EmbeddedServerError(
        f"Postgres refuses to run as root, and this machine has no account {wanted}; "
        "make one (useradd --system postgres), name an existing one (`embedded_run_as`), or set `dsn`"
    )
