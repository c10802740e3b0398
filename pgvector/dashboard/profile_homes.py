"""The profile that the page's address names, and the home that it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..domain.errors import InvalidArgument
from ..host.session_context import hermes_home, profile_of
from .page_route import PageRoute
from .params import Params
from .served_homes import ServedHome

_DEFAULT = "default"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # what the host allows


def home_of(profile: str) -> Path:
    """Return the home of a profile, this process's own if none is named. Raises InvalidArgument if it is unknown."""
    if not profile:
        return hermes_home()
    if profile == _DEFAULT:
        return _root()
    home = _root() / "profiles" / profile
    if not _NAME.fullmatch(profile) or not home.is_dir():
        raise InvalidArgument(f"there is no profile {profile[:64]!r} here; see: hermes profile list")
    return home


def _root() -> Path:
    """Return the home that contains the profiles: the host keeps all of them there, whichever one it runs."""
    home = hermes_home()
    return home.parent.parent if profile_of(home) != _DEFAULT else home


def profiles(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return the existing profiles, and the one that the request is about."""
    folder = _root() / "profiles"
    homes = sorted(each for each in folder.glob("*") if _NAME.fullmatch(each.name) and each.is_dir())
    found = [(_DEFAULT, _root()), *((each.name, each) for each in homes if each.name != _DEFAULT)]
    return {
        "profiles": [{"name": name, "home": str(home)} for name, home in found],
        "current": profile_of(served.home),
    }


ROUTES = (PageRoute("/profiles", profiles),)
