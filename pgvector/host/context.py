"""What `initialize` learned: captured once, because the threads that work later know neither home nor profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..domain.errors import ConfigurationError
from ..domain.loading import Loaded, load
from ..domain.text import clean, digest
from ..domain.theme import Theme, profile_theme, resolve_theme
from ..operate.configfile import read_dotenv, read_section

# Platforms whose runs are nobody's conversation: they count as the agent context of their name.
_CONTEXT_PLATFORMS = frozenset({"cron", "subagent", "flush", "background"})
_SESSION_MAX_CHARS = 256


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Who is speaking, and in which theme. The session id lives in the provider: it changes."""

    theme: Theme
    file_theme: Theme
    profile: str
    platform: str
    agent_context: str

    @classmethod
    def from_host(cls, kwargs: Mapping[str, Any], default_theme: str) -> SessionContext:
        """Read the keyword arguments of `initialize`."""

        def text(key: str) -> str:
            value = kwargs.get(key)
            return value if isinstance(value, str) else ""

        platform = clean(text("platform")).strip().lower()
        profile, workspace = text("agent_identity"), text("agent_workspace")
        return cls(
            theme=resolve_theme(
                session_key=text("gateway_session_key"),
                platform=platform,
                profile=profile,
                workspace=workspace,
                default=default_theme,
            ),
            file_theme=profile_theme(profile, workspace=workspace, default=default_theme),
            profile=clean(profile),
            platform=platform,
            agent_context=platform if platform in _CONTEXT_PLATFORMS else text("agent_context") or "primary",
        )

    def provenance(self, session_id: str, parent_session_id: str) -> dict[str, str]:
        """What is kept beside a row to tell where it came from."""
        known = {
            "session_id": session_id,
            "parent_session_id": parent_session_id,
            "profile": self.profile,
            "platform": self.platform,
        }
        return {key: value for key, value in known.items() if value}


def session_name(given: object) -> str:
    """A session id as it is stored: clean, and with more than 256 characters cut to 239, "-" and a hash of the whole.

    An index on it holds no more than 2.7 KB.
    """
    name = clean(given).strip()
    return name if len(name) <= _SESSION_MAX_CHARS else f"{name[: _SESSION_MAX_CHARS - 17]}-{digest(name).hex()[:16]}"


def hermes_home(given: object = None) -> Path:
    """The home the host names, else its own answer for this context, else $HERMES_HOME or ~/.hermes."""
    if isinstance(given, (str, os.PathLike)) and str(given).strip():
        return Path(given).expanduser()
    try:
        from hermes_constants import get_hermes_home  # the host's own, which knows about profiles
    except ImportError:
        return Path(os.environ.get("HERMES_HOME", "").strip() or "~/.hermes").expanduser()
    return Path(get_hermes_home())


def environment(home: Path) -> dict[str, str]:
    """The process environment under the home's own .env: another profile's values may stand in the environment."""
    return {**os.environ, **read_dotenv(home)}


def load_settings(config: Mapping[str, Any] | None, home: Path) -> Loaded:
    """Settings of `config`, or of the home's config.yaml; what was wrong with them is in `warnings`.

    Raises ConfigurationError where going on with defaults would mean another database than the one that was named.
    """
    section, unreadable = (config, []) if config is not None else read_section(home)
    if unreadable:
        raise ConfigurationError("; ".join(unreadable))
    loaded = load(section, environment(home))
    if isinstance(section, Mapping) and section.get("dsn") not in (None, "") and not loaded.settings.dsn:
        raise ConfigurationError("; ".join(loaded.warnings) + "; memory stays off rather than use another database")
    return loaded
