"""What the host's configuration says of this plugin: memory provider, loaded at start-up, beside its own memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from .sources import CONFIG_NAME

PROVIDER: Final = "pgvector"


def add_to_enabled(hermes_home: Path) -> None:
    """Have the host's plugin manager load us at start-up, before two first requests can do it at once.

    Raises ConfigurationError when config.yaml cannot be changed.
    """
    from .yaml_file import set_values  # an agent needs it once at most

    if not is_enabled(hermes_home):
        enabled = at(host_config(hermes_home), "plugins", "enabled")
        set_values(hermes_home, {("plugins", "enabled"): [*(enabled if isinstance(enabled, list) else []), PROVIDER]})


def is_active(hermes_home: Path) -> bool:
    """Return whether the home's configuration names this plugin; False when it cannot be read."""
    return at(host_config(hermes_home), "memory", "provider") == PROVIDER


def named_provider(hermes_home: Path) -> str:
    """Return the memory provider that the home's configuration names; empty when it names none or cannot be read."""
    return str(at(host_config(hermes_home), "memory", "provider") or "")


def is_enabled(hermes_home: Path) -> bool:
    """Return whether the host loads this plugin at start-up; False when the configuration cannot be read."""
    enabled = at(host_config(hermes_home), "plugins", "enabled")
    return isinstance(enabled, list) and PROVIDER in enabled


def is_disabled(hermes_home: Path) -> bool:
    """Return whether somebody has forbidden the host's plugin manager to load this plugin."""
    disabled = at(host_config(hermes_home), "plugins", "disabled")
    return isinstance(disabled, list) and PROVIDER in disabled


def built_in_memory(hermes_home: Path) -> list[str]:
    """Return the files of the host's own memory that stand in its prompts: MEMORY.md, USER.md, both or none."""
    config = host_config(hermes_home)
    switches = {"MEMORY.md": "memory_enabled", "USER.md": "user_profile_enabled"}
    # On where nothing is said.
    return [name for name, switch in switches.items() if at(config, "memory", switch) not in (False, "false", 0)]


def host_config(hermes_home: Path) -> object:
    """Return the home's whole configuration; None when it cannot be read."""
    try:
        return yaml.safe_load((hermes_home / CONFIG_NAME).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


def at(config: object, *path: str) -> object:
    """Return what stands at a path of names; None where there is nothing."""
    for key in path:
        config = config.get(key) if isinstance(config, dict) else None
    return config
