"""The setting `retention`: how long the turns of which themes are kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...domain.theme import ROLE, ROLES, normalise_theme

GRACE_S: Final = 86_400.0  # between the announcement of a theme's policy and the first deletion there
_PAIR = re.compile(rf"(?P<theme>.+)=(?:forever|(?P<days>[0-9]+) ?d?(?P<roles>(?: +{ROLE})*))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RetentionPeriod:
    """The number of days that turns of some roles are kept after they were said; other roles are kept for ever."""

    days: int
    roles: tuple[str, ...] = ROLES

    def __str__(self) -> str:
        return f"{self.days} days" + ("" if self.roles == ROLES else f" ({', '.join(self.roles)})")


class RetentionPolicy:
    """The rules of the setting `retention`: pairs `theme=days`, `theme=days role ...` or `theme=forever`.

    A theme may end with `*`. If several pairs match, the one that names most of the theme counts; of two pairs for the
    same theme, the one that keeps more. A theme without a pair is kept for ever.
    """

    def __init__(self, pairs: Sequence[str] = (), identity_key: str = "") -> None:
        self._named: dict[str, RetentionPeriod | None] = {}
        for pair in pairs:
            match = _PAIR.fullmatch(pair)
            if match is None:
                raise ValueError(f"{pair!r} is no pair of a theme and days")
            name = normalise_theme(match["theme"], identity_key)
            period = None
            if match["days"]:
                named = match["roles"].split()
                period = RetentionPeriod(int(match["days"]), tuple(role for role in ROLES if role in named) or ROLES)
            self._named[name] = _longer(period, self._named[name]) if name in self._named else period

    def __bool__(self) -> bool:
        return any(period is not None for period in self._named.values())

    def names(self) -> list[str]:
        """Return the themes that are named in full."""
        return [name for name in self._named if not name.endswith("*")]

    def of(self, theme: str) -> RetentionPeriod | None:
        """Return how long the turns of a theme are kept; None means for ever."""
        if theme in self._named:
            return self._named[theme]
        fitting = [name for name in self._named if name.endswith("*") and theme.startswith(name[:-1])]
        return self._named[max(fitting, key=len)] if fitting else None


def _longer(one: RetentionPeriod | None, other: RetentionPeriod | None) -> RetentionPeriod | None:
    """Return the period that keeps everything that either of the two keeps."""
    if one is None or other is None:
        return None
    roles = tuple(role for role in one.roles if role in other.roles)
    return RetentionPeriod(max(one.days, other.days), roles) if roles else None
