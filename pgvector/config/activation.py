"""Makes this plugin the memory provider of a hermes home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import yaml

from ..domain.errors import ConfigurationError
from .sources import CONFIG_NAME, set_values

Activation = Literal["already active", "by hermes config set", "in config.yaml"]

_PROVIDER = "pgvector"
# The command takes two seconds; a cold disk is slower, and the file can be edited without it.
_HERMES_TIMEOUT_S = 60.0


def find_hermes() -> str | None:
    """The path of the hermes command, of this Python's environment before any other; None when there is none."""
    beside = Path(sys.executable).parent
    return shutil.which("hermes", path=str(beside)) or shutil.which("hermes")


def activate(hermes_home: Path, hermes: str | None) -> Activation:
    """Set memory.provider in the home's config.yaml, or by the `hermes` command, which keeps no comments.

    Raises: ConfigurationError when neither can.
    """
    if is_active(hermes_home):
        return "already active"
    _note_before(hermes_home)
    try:
        set_values(hermes_home, {("memory", "provider"): _PROVIDER})
    except ConfigurationError:
        command = ("config", "set", "memory.provider", _PROVIDER)
        if not (hermes and _run(hermes_home, hermes, *command) and is_active(hermes_home)):
            raise
        return "by hermes config set"
    return "in config.yaml"


def enable(hermes_home: Path, hermes: str | None) -> bool:
    """Have the host's plugin manager load us at start-up, before two first requests can do it at once.

    False when neither config.yaml nor the `hermes` command lets us: `hermes plugins enable pgvector` by hand does it.
    """
    if is_enabled(hermes_home):
        return True
    enabled = _at(_config(hermes_home), "plugins", "enabled")
    try:
        set_values(hermes_home, {("plugins", "enabled"): [*(enabled if isinstance(enabled, list) else []), _PROVIDER]})
    except ConfigurationError:
        return (
            bool(hermes) and _run(hermes_home, str(hermes), "plugins", "enable", _PROVIDER) and is_enabled(hermes_home)
        )
    return True


def deactivate(hermes_home: Path) -> str:
    """Give memory.provider back to what it was before us, and have us loaded no more; what it is now, empty for none.

    Nothing is deleted. Raises ConfigurationError when config.yaml cannot be changed.
    """
    now = _at(_config(hermes_home), "memory", "provider")
    if now == _PROVIDER:
        now = _noted_before(hermes_home)
        set_values(hermes_home, {("memory", "provider"): now})
    enabled = _at(_config(hermes_home), "plugins", "enabled")
    if isinstance(enabled, list) and _PROVIDER in enabled:
        set_values(hermes_home, {("plugins", "enabled"): [name for name in enabled if name != _PROVIDER]})
    _before_file(hermes_home).unlink(missing_ok=True)
    return now if isinstance(now, str) else ""


def is_active(hermes_home: Path) -> bool:
    """Whether the home's configuration names this plugin; False when it cannot be read."""
    return _at(_config(hermes_home), "memory", "provider") == _PROVIDER


def named_provider(hermes_home: Path) -> str:
    """The memory provider that the home's configuration names; empty when it names none or cannot be read."""
    return str(_at(_config(hermes_home), "memory", "provider") or "")


def is_enabled(hermes_home: Path) -> bool:
    """Whether the host's plugin manager loads this plugin at start-up; False when the configuration cannot be read."""
    enabled = _at(_config(hermes_home), "plugins", "enabled")
    return isinstance(enabled, list) and _PROVIDER in enabled


def is_disabled(hermes_home: Path) -> bool:
    """Whether somebody has forbidden the host's plugin manager to load this plugin."""
    disabled = _at(_config(hermes_home), "plugins", "disabled")
    return isinstance(disabled, list) and _PROVIDER in disabled


def built_in_memory(hermes_home: Path) -> list[str]:
    """The files of the host's own memory that stand in its prompts: MEMORY.md, USER.md, both or none."""
    config = _config(hermes_home)
    switches = {"MEMORY.md": "memory_enabled", "USER.md": "user_profile_enabled"}
    # On where nothing is said.
    return [name for name, switch in switches.items() if _at(config, "memory", switch) not in (False, "false", 0)]


def _before_file(hermes_home: Path) -> Path:
    return hermes_home / "pgvector" / "provider-before"


def _note_before(hermes_home: Path) -> None:
    """Keep which provider we take the place of, for `deactivate`."""
    before = _at(_config(hermes_home), "memory", "provider")
    path = _before_file(hermes_home)
    if not isinstance(before, str) or not before.strip():
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(before.strip() + "\n", encoding="utf-8")


def _noted_before(hermes_home: Path) -> str:
    try:
        noted = _before_file(hermes_home).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return noted if noted != _PROVIDER else ""


def _config(hermes_home: Path) -> object:
    try:
        return yaml.safe_load((hermes_home / CONFIG_NAME).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


def _at(config: object, *path: str) -> object:
    for key in path:
        config = config.get(key) if isinstance(config, dict) else None
    return config


def _run(hermes_home: Path, hermes: str, *command: str) -> bool:
    try:
        done = subprocess.run(
            [hermes, *command],
            env={**os.environ, "HERMES_HOME": str(hermes_home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_HERMES_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
