"""The homes of the host's profiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_PROFILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # the names that the host gives to profiles


class Home(NamedTuple):
    """A profile and where it lives."""

    profile: str
    path: Path


def homes(home: Path) -> list[Home]:
    """Return the home of the profile `default` and those of all others, whichever of them `home` is."""
    root = home.parent.parent if home.parent.name == "profiles" else home
    try:
        named = sorted(each for each in (root / "profiles").iterdir() if each.is_dir())
    except OSError:
        named = []
    return [Home("default", root), *(Home(each.name, each) for each in named if _PROFILE.fullmatch(each.name))]
