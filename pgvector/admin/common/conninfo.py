"""Connection strings: whether a password stands in one, and one with another password, user or none."""

from __future__ import annotations

import re

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...store.connection import check_conninfo

_OF_THE_SERVER = ("service", "host", "port", "hostaddr", "sslmode", "sslrootcert", "channel_binding")


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


def as_admin(conninfo: str, dbname: str, admin: str = "postgres") -> str:
    """Return what an administrator of the same database would write, without a password, to be shown.

    `dbname`: the database that was reached. Where none is named libpq takes one of the user's name, and the admin's is
    another.
    """
    known = conninfo_to_dict(conninfo)
    kept = {key: value for key, value in known.items() if key in _OF_THE_SERVER}
    return make_conninfo("", **kept, dbname=dbname, user=admin)
