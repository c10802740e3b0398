"""Activation of this plugin as the memory provider of a hermes home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

from ...config.sources import CONFIG_NAME, PROVIDER, at, host_config, is_active, is_disabled, is_enabled, is_legible
from ...domain.errors import ConfigurationError
from ...domain.files import read_regular_file
from .file_replacing import write_file
from .yaml_file import set_values

Activation = Literal["already active", "by hermes config set", "in config.yaml"]

# The command takes two seconds, more with a cold disk; the file can be edited without it.
_HERMES_TIMEOUT_S = 60.0


def find_hermes() -> str | None:
    """Return the path of the hermes command, this Python's environment first; None if there is none."""
    beside = Path(sys.executable).parent
    return shutil.which("hermes", path=str(beside)) or shutil.which("hermes")


def activate(hermes_home: Path, hermes: str | None) -> Activation:
    """Set memory.provider in the home's config.yaml, or with the `hermes` command, which keeps no comments.

    Raises: ConfigurationError if neither works.
    """
    if is_active(hermes_home):
        return "already active"
    if is_legible(hermes_home):
        _note_before(hermes_home)
    try:
        set_values(hermes_home, {("memory", "provider"): PROVIDER})
    except ConfigurationError:
        command = ("config", "set", "memory.provider", PROVIDER)
        if not (_host_may(hermes_home, hermes, *command) and is_active(hermes_home)):
            raise
        return "by hermes config set"
    return "in config.yaml"


def enable(hermes_home: Path, hermes: str | None) -> bool:
    """Make the host's plugin manager load us at start-up, before its first two requests can do it at the same time.

    Return False if neither config.yaml nor the `hermes` command allows it; then run `hermes plugins enable pgvector`.
    """
    if is_enabled(hermes_home):
        return True
    enabled = at(host_config(hermes_home), "plugins", "enabled") or []
    if not isinstance(enabled, list) or is_disabled(hermes_home):
        return False  # somebody set this on purpose
    try:
        set_values(hermes_home, {("plugins", "enabled"): [*enabled, PROVIDER]})
    except ConfigurationError:
        return _host_may(hermes_home, hermes, "plugins", "enable", PROVIDER) and is_enabled(hermes_home)
    return True


def main() -> int:
    """Enable the plugin for an agent, in the home given as argument; return 1 if config.yaml cannot be changed."""
    return 0 if enable(Path(sys.argv[1]), None) else 1


def deactivate(hermes_home: Path) -> str:
    """Restore the memory.provider from before our activation and disable our plugin; return the provider, or "".

    Nothing is deleted. Raises ConfigurationError if config.yaml cannot be read or changed.
    """
    if not is_legible(hermes_home):
        raise ConfigurationError(f"{hermes_home / CONFIG_NAME} cannot be read, and was left as it is: mend it first")
    now = at(host_config(hermes_home), "memory", "provider")
    if now == PROVIDER:
        now = _noted_before(hermes_home)
        set_values(hermes_home, {("memory", "provider"): now})
    enabled = at(host_config(hermes_home), "plugins", "enabled")
    if isinstance(enabled, list) and PROVIDER in enabled:
        set_values(hermes_home, {("plugins", "enabled"): [name for name in enabled if name != PROVIDER]})
    _forget_before(hermes_home)
    return now if isinstance(now, str) else ""


def other_provider(hermes_home: Path) -> str:
    """Return the memory provider that is active instead of us, or ""."""
    now = at(host_config(hermes_home), "memory", "provider")
    return "" if not isinstance(now, str) or now.strip() == PROVIDER else now.strip()


def _before_file(hermes_home: Path) -> Path:
    return hermes_home / "pgvector" / "provider-before"


def _note_before(hermes_home: Path) -> None:
    """Record which provider we replace, for `deactivate`."""
    if before := other_provider(hermes_home):
        write_file(_before_file(hermes_home), f"{before}\n".encode(), f"memory.provider stays {before}")
    else:
        _forget_before(hermes_home)


def _forget_before(hermes_home: Path) -> None:
    path = _before_file(hermes_home)
    if not os.path.lexists(path):
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        raise ConfigurationError(
            f"{path} cannot be removed ({exc.strerror or exc}); let this user write there"
        ) from exc


def _noted_before(hermes_home: Path) -> str:
    try:
        noted = read_regular_file(_before_file(hermes_home)).decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return noted if noted != PROVIDER else ""


def _host_may(hermes_home: Path, hermes: str | None, *command: str) -> bool:
    """Have the host change its file, unless it is illegible: the host would lose its content. Return whether it did."""
    if hermes is None or not is_legible(hermes_home):
        return False
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
