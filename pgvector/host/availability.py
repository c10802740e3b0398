"""Whether a write that a hook accepts can be kept here, without asking anybody."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..domain.commandline import pip_install
from ..domain.errors import HermesPgvectorError
from .session_context import load_settings

_MODULES = {
    "psycopg": "psycopg[binary]",
    "psycopg_pool": "psycopg-pool",
    "pgvector": "pgvector",
    "httpx": "httpx",
    "yaml": "PyYAML",
    "dotenv": "python-dotenv",
}


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
    """What keeps hooks from accepting writes, with the remedy; "" when there is nothing.

    Whatever is wrong with the database is no such thing: writes wait in the spool until somebody has put it right. The
    host asks once for each agent, and what is turned away then is lost to that agent for good.
    """
    if sentence := lacking():
        return sentence
    try:
        load_settings(config, home)
    except HermesPgvectorError as exc:
        return str(exc)
    return ""
