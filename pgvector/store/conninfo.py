"""Connection strings: whether a password stands in one, and one with another password, user or none."""

from __future__ import annotations

import os
import re

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from .connection import check_conninfo

_OF_THE_SERVER = ("host", "port", "dbname", "hostaddr", "sslmode", "sslrootcert", "channel_binding")


def place_of(conninfo: str) -> str:
    """Return where it leads, as HOST:PORT/DATABASE without user and password; empty when libpq cannot read it."""
    try:
        known = {key: str(value) for key, value in conninfo_to_dict(conninfo).items() if value}
    except psycopg.ProgrammingError:
        return ""
    host = known.get("host") or known.get("hostaddr") or known.get("service", "")
    port = known.get("port", "5432")
    name = known.get("dbname") or known.get("user", "")
    return f"{host.lower()}:{port}/{name}"


def has_secret(conninfo: str) -> bool:
    """Return whether a password of any kind stands in it. Raises StoreMisconfigured when libpq cannot read it."""
    check_conninfo(conninfo)
    return any(re.search("password$|secret|scram_", key) for key in conninfo_to_dict(conninfo))


def with_password(conninfo: str, password: str) -> str:
    """Return the same with this password."""
    return make_conninfo(conninfo, password=password)


def user_of(conninfo: str) -> str:
    """Return the role it names; empty where libpq decides."""
    return str(conninfo_to_dict(conninfo).get("user") or "")


def as_admin(conninfo: str, admin: str = "postgres") -> str:
    """Return what an administrator of the same database would write, without a password, to be shown."""
    known = conninfo_to_dict(conninfo)
    kept = {key: value for key, value in known.items() if key in _OF_THE_SERVER}
    return make_conninfo("", **kept, user=admin)


def writable(conninfo: str) -> str:
    """Return the same for a server that takes writes, of several hosts that one; what it says of that itself counts."""
    check_conninfo(conninfo)
    if "target_session_attrs" in conninfo_to_dict(conninfo) or "PGTARGETSESSIONATTRS" in os.environ:
        return conninfo
    return make_conninfo(conninfo, target_session_attrs="read-write")
