"""Availability: whether writes can be kept here, and that the host loads this plugin before its first requests."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..config.sources import is_active, is_disabled, is_enabled
from ..domain.commandline import command_of, pip_install
from ..domain.errors import HermesPgvectorError
from ..domain.fork_safety import SLOW, fork_lock
from .guard import warn_once
from .session_context import load_settings

logger = logging.getLogger(__name__)

REQUIRED_MODULES = {  # that we need, by module, with their names for pip
    "psycopg": "psycopg[binary]",
    "psycopg_pool": "psycopg-pool",
    "pgvector": "pgvector",
    "httpx": "httpx",
    "yaml": "PyYAML",
    "dotenv": "python-dotenv",
}
_settled: set[Path] = set()  # homes of which there is nothing more to do, or nothing that we can
_one_at_a_time = fork_lock(SLOW)


def lacking() -> str:
    """Return what this environment lacks and how to get it, as a sentence; "" when it lacks nothing."""
    missing = [package for module, package in REQUIRED_MODULES.items() if find_spec(module) is None]
    return f"this Python lacks {', '.join(missing)}; run: {pip_install(*missing)}" if missing else ""


def problem(config: Mapping[str, Any] | None, home: Path) -> str:
    """Return what keeps hooks from accepting writes, with the remedy; "" when there is nothing.

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


def load_at_startup(home: Path) -> None:
    """See to it, in the background, that the next gateway of `home` loads this plugin before it takes requests.

    `memory.provider` alone has the first request load it. `plugins.enabled` is what the host reads at start-up.
    """
    if home not in _settled:
        threading.Thread(target=_enable, args=(home,), name="hermes-pgvector-enable", daemon=True).start()


def _enable(home: Path) -> None:
    with _one_at_a_time:  # of many first requests one does it
        if home in _settled or not is_active(home):  # somebody only looks at the list of providers
            return
        _settled.add(home)
    if is_enabled(home) or is_disabled(home):
        return
    if _enabled_by_operator(home):
        logger.info("hermes-pgvector: added pgvector to plugins.enabled, so that gateways load it at start-up")
    else:
        warn_once(
            "config.yaml cannot be changed, so some of a gateway's very first requests may run without memory; "
            "run: hermes plugins enable pgvector"
        )


def _enabled_by_operator(home: Path) -> bool:
    """Have the operator's tool, which can edit config.yaml, do it in a process of its own; False when it cannot."""
    command = command_of("admin.common.activation", str(home))
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0
