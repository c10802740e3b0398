"""Makes this plugin the memory provider of a hermes home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import yaml

from .configfile import CONFIG_NAME, set_values

Activation = Literal["already active", "by hermes config set", "in config.yaml"]

_PROVIDER = "pgvector"
# The command takes two seconds; a cold disk is slower, and the file can be edited without it.
_HERMES_TIMEOUT_S = 60.0


def find_hermes() -> str | None:
    """The path of the hermes command, of this Python's environment before any other; None when there is none."""
    beside = Path(sys.executable).parent
    return shutil.which("hermes", path=str(beside)) or shutil.which("hermes")


def activate(hermes_home: Path, hermes: str | None) -> Activation:
    """Set memory.provider in the home's configuration, by the `hermes` command or else in config.yaml itself.

    Raises: ConfigurationError when config.yaml cannot be changed.
    """
    if is_active(hermes_home):
        return "already active"
    if hermes and _set_with_hermes(hermes_home, hermes) and is_active(hermes_home):
        return "by hermes config set"
    set_values(hermes_home, {("memory", "provider"): _PROVIDER})
    return "in config.yaml"


def is_active(hermes_home: Path) -> bool:
    """Whether the home's configuration names this plugin; False when it cannot be read."""
    try:
        config = yaml.safe_load((hermes_home / CONFIG_NAME).read_text(encoding="utf-8-sig"))
        return bool(config["memory"]["provider"] == _PROVIDER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError):
        return False


def _set_with_hermes(hermes_home: Path, hermes: str) -> bool:
    try:
        done = subprocess.run(
            [hermes, "config", "set", "memory.provider", _PROVIDER],
            env={**os.environ, "HERMES_HOME": str(hermes_home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_HERMES_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
