"""What the host asks of a provider that speaks for no session: may it be used, its forms, its status, its backup."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config.settings import FIELDS
from . import availability, setup
from .backup import write_backup
from .guard import guarded, warn_once
from .session_context import hermes_home


class OutsideSessions:
    """The part of the provider that needs no `initialize`."""

    def __init__(self, config: Mapping[str, Any] | None) -> None:
        self._config = config
        self._tells_status = False

    @guarded(False)
    def is_available(self, **kwargs: Any) -> bool:
        """Return True while hooks can accept writes; what prevents that is logged once, with the remedy."""
        home = hermes_home()
        if problem := availability.problem(self._config, home):
            warn_once(f"memory is off: {problem}")
            return False
        availability.load_at_startup(home)
        return True

    @guarded("")
    def unavailable_reason(self, **kwargs: Any) -> str:
        """Return why `is_available` says no, with the remedy; "" when it says yes."""
        return availability.problem(self._config, hermes_home())

    @guarded(list)
    def get_config_schema(self, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the fields of the host's forms, with what holds now."""
        schema = setup.config_schema(FIELDS, hermes_home())
        if self._tells_status:  # which lists every variable of a field as missing, and we require none
            for field in schema:
                field.pop("env_var", None)
        return schema

    def save_config(self, values: Mapping[str, Any], hermes_home: str, **kwargs: Any) -> None:
        """Write non-secret settings to the home's config.yaml. Raises ValueError, which the host's forms show."""
        setup.save_config(values, Path(hermes_home))

    def post_setup(self, hermes_home: str, config: Any = None, **kwargs: Any) -> None:
        """Run the wizard for `hermes memory setup pgvector`; exits with its code when that is not 0."""
        setup.post_setup(Path(hermes_home))

    @guarded(dict)
    def get_status_config(self, config: Any = None, **kwargs: Any) -> dict[str, str]:
        """Return what `hermes memory status` shows; no secrets."""
        self._tells_status = True
        return setup.status(self._config, hermes_home())

    @guarded(list)
    def backup_paths(self, **kwargs: Any) -> list[str]:
        """Return a fresh export of the embedded database; a server of one's own is backed up there."""
        return write_backup(self._config)
