"""Connection strings: whether one holds a password, and variants with another password, with another user or none."""

from __future__ import annotations

import re

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...store.connection import check_conninfo

_OF_THE_SERVER = ("service", "host", "port", "hostaddr", "sslmode", "sslrootcert", "channel_binding")


def has_secret(conninfo: str) -> bool:
    """Return whether it contains a password of any kind. Raises StoreMisconfigured if libpq cannot read it."""
    check_conninfo(conninfo)
    return any(re.search("password$|secret|scram_", key) for key in conninfo_to_dict(conninfo))


def with_password(conninfo: str, password: str) -> str:
    """Return the conninfo with this password."""
    return make_conninfo(conninfo, password=password)


def user_of(conninfo: str) -> str:
    """Return the role it names; empty if libpq chooses one."""
    return str(conninfo_to_dict(conninfo).get("user") or "")


def as_admin(conninfo: str, dbname: str, admin: str = "postgres") -> str:
    """Return the conninfo that an administrator of the same database would use, without a password, for display.

    `dbname` is the database that was reached. It is needed because libpq otherwise takes one named like the user, and
    the admin's name differs.
    """
    known = conninfo_to_dict(conninfo)
    kept = {key: value for key, value in known.items() if key in _OF_THE_SERVER}
    return make_conninfo("", **kept, dbname=dbname, user=admin)
