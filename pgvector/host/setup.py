"""What the host's setup and status commands show and save."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..domain.dsn import mask_dsn
from ..domain.errors import HermesPgvectorError
from ..domain.settings import ENV_PREFIX, Field, Settings
from ..embed.modeldir import is_local
from .context import load_settings

_SECTION = ("plugins", "pgvector")


def config_schema(fields: Iterable[Field]) -> list[dict[str, Any]]:
    """The settings the host's wizard asks for, in its own form; secrets go to its .env."""
    schema = []
    for field in fields:
        if not field.wizard:
            continue
        entry: dict[str, Any] = {
            "key": field.key,
            "description": field.doc,
            "required": False,
            "default": field.default,
        }
        if field.secret:
            entry |= {"secret": True, "env_var": ENV_PREFIX + field.key.upper()}
        if field.choices:
            entry["choices"] = list(field.choices)
        schema.append(entry)
    return schema


def save_config(values: Mapping[str, Any], home: Path) -> None:
    """Write settings below plugins.pgvector of config.yaml. Raises ConfigurationError."""
    from ..operate.configfile import set_values

    kept: dict[tuple[str, ...], Any] = {
        (*_SECTION, key): value for key, value in values.items() if value not in (None, "")
    }
    if kept:
        set_values(home, kept)


def post_setup(home: Path) -> None:
    """Activate the plugin, bring the store up and say how it stands."""
    from ..operate.activate import activate, enable
    from ..operate.doctor import examine, render_text
    from ..runtime.embedded import borrowed_server

    how = activate(home, None)
    enable(home, None)
    print(f"\n  Memory provider: pgvector ({how})\n")
    settings = load_settings(None, home).settings
    with borrowed_server(settings) as locate:
        print(render_text(examine(settings, home, locate=locate)))
    print("\n  Settings: plugins.pgvector in config.yaml. Start a new session to use it.\n")


def status(config: Mapping[str, Any] | None, home: Path) -> dict[str, str]:
    """What is configured, without secrets."""
    try:
        settings = load_settings(config, home).settings
    except HermesPgvectorError as exc:
        return {"problem": str(exc)}
    return {
        "database": mask_dsn(settings.dsn) if settings.dsn else "embedded Postgres",
        "recall": _recall(settings),
        "check": "hermes pgvector doctor",
    }


def _recall(settings: Settings) -> str:
    url = settings.embed_url.strip()
    if not url:
        return "by words (no embed_url)"
    return f"by meaning and words ({url if is_local(url) else settings.embed_model})"
