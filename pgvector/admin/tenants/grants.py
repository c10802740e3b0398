"""Who may read and write which themes, as Postgres enforces it; each function on a connection of an administrator."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.errors import ConfigurationError
from ...domain.theme import ThemeRules
from ...store.connection import DeadlineConnection
from ..common import row_security
from ..common.outcome import Outcome


def listed(conn: DeadlineConnection) -> Outcome:
    """Return how it stands."""
    return _state(
        conn, "tenants list", "row-level security is " + ("on" if row_security.is_enabled(conn) else "off"), done=False
    )


def enable(conn: DeadlineConnection) -> Outcome:
    """Turn row-level security on, or bring it up to date. Raises ConfigurationError."""
    row_security.enable(conn)
    return _state(
        conn, "tenants enable", "row-level security is on; a role that is not named here sees nothing", done=True
    )


def disable(conn: DeadlineConnection, *, really: bool) -> Outcome:
    """Turn it off. Raises ConfigurationError."""
    confined = [role for role, themes in row_security.granted(conn).items() if row_security.EVERY_THEME not in themes]
    without = f" and the rights of {', '.join(confined)} on the tables" if confined else ""
    if not really:
        return _state(
            conn, "tenants disable", f"this would take away the policies{without}; add --yes to do it", done=False
        )
    row_security.disable(conn)
    return _state(conn, "tenants disable", f"row-level security is off; gone are the policies{without}", done=True)


def grant(conn: DeadlineConnection, role: str, themes: Sequence[str], rules: ThemeRules) -> Outcome:
    """Give a role themes, named as in a tool call; `*` is every theme. Raises ConfigurationError."""
    names = _names(themes, rules)
    row_security.grant(conn, role, names)
    return _state(conn, "tenants grant", f"{role} was granted {', '.join(names)}", done=True)


def revoke(conn: DeadlineConnection, role: str, themes: Sequence[str], rules: ThemeRules, *, really: bool) -> Outcome:
    """Take themes from a role; without any named all of them, and its rights. Raises ConfigurationError."""
    had = row_security.granted(conn).get(role, [])
    gone = [theme for theme in had if not themes or theme in _names(themes, rules)]
    if not gone:
        raise ConfigurationError(f"the role {role} has none of these themes; see: hermes-pgvector tenants list")
    rights = ", and with it the rights on the tables" if len(gone) == len(had) else ""
    if not really:
        return _state(
            conn, "tenants revoke", f"{role} would lose {', '.join(gone)}{rights}; add --yes to do it", done=False
        )
    row_security.revoke(conn, role, gone)
    return _state(conn, "tenants revoke", f"{role} lost {', '.join(gone)}{rights}", done=True)


def _names(themes: Sequence[str], rules: ThemeRules) -> list[str]:
    """Return them as they are stored."""
    return [theme if theme == row_security.EVERY_THEME else rules.resolve_name(theme) for theme in themes]


def _state(conn: DeadlineConnection, verb: str, said: str, *, done: bool) -> Outcome:
    """Return the outcome of a verb, with the themes of each role as they are now."""
    roles = row_security.granted(conn)
    facts = {"enabled": row_security.is_enabled(conn), "roles": roles, "said": said}
    return Outcome(verb, done, {"roles": len(roles)}, facts=facts)
