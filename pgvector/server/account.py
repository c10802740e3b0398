"""The OS account that owns the server: the user itself, or an unprivileged one when we are root."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from ..domain.errors import EmbeddedServerError

if sys.platform != "win32":
    import pwd

# Postgres refuses to run as root. These exist on nearly every machine; the first is made for the purpose.
USUAL_ACCOUNTS = ("postgres", "nobody")


def require_posix() -> None:
    """Raise EmbeddedServerError on Windows."""
    if sys.platform == "win32":
        raise EmbeddedServerError(
            "the embedded Postgres is not supported on Windows yet; set `dsn` to a Postgres server with pgvector"
        )


@dataclass(frozen=True)
class Account:
    """An OS account; `switched` when it is not the account of this process."""

    name: str
    uid: int
    gid: int
    switched: bool


def choose_account(run_as: str = "") -> Account:
    """Return the account to run Postgres as: ourselves, or as root `run_as`, else the first of USUAL_ACCOUNTS there is.

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
