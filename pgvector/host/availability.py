"""Whether memory can work here, without waiting for anybody."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..domain.commandline import pip_install
from ..domain.errors import DimensionMismatch, HermesPgvectorError, StoreMisconfigured
from .context import load_settings

_MODULES = {
    "psycopg": "psycopg[binary]",
    "psycopg_pool": "psycopg-pool",
    "pgvector": "pgvector",
    "httpx": "httpx",
    "yaml": "PyYAML",
}
_LOOK_S = 0.25  # a server that can be reached has told by then whether it is usable


def missing_packages() -> list[str]:
    """The names, for pip, of packages that we need and this environment lacks."""
    return [package for module, package in _MODULES.items() if find_spec(module) is None]


def lacking() -> str:
    """What this environment lacks and how to get it, as a sentence; "" when it lacks nothing."""
    missing = missing_packages()
    if not missing:
        return ""
    return f"this Python lacks {', '.join(missing)}; run: {pip_install(*missing)}"


def problem(config: Mapping[str, Any] | None, home: Path) -> str:
    """What somebody has to put right before memory works, with the remedy; "" when there is nothing.

    A server that is merely down is no such problem: writes wait in the spool and recall comes back by itself. Neither
    are vectors of another size: the store says so when it is opened, and recall goes on by words.
    """
    if sentence := lacking():
        return sentence
    from ..runtime.probe import known_problem
    from ..server.binaries import find_binaries

    try:
        settings = load_settings(config, home).settings
        if not settings.dsn:
            find_binaries(settings.embedded_bin_dir)
        found = known_problem(settings, wait_s=_LOOK_S)
    except HermesPgvectorError as exc:
        return str(exc)
    off = isinstance(found, StoreMisconfigured) and not isinstance(found, DimensionMismatch)
    return str(found) if off else ""
