"""What the host asks of a provider outside sessions: whether it is available, its forms, its status, its backup."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config.settings import FIELDS
from ..config.sources import is_active, is_disabled, is_enabled
from ..domain.commandline import command_of, lacking
from ..domain.errors import HermesPgvectorError
from ..domain.fork_safety import SLOW, fork_lock
from . import setup
from .backup import write_backup
from .guard import guarded, warn_once
from .session_context import hermes_home, load_settings

logger = logging.getLogger(__name__)

_settled: set[Path] = set()  # homes for which there is nothing left to do, or nothing that we can do
_one_at_a_time = fork_lock(SLOW)


class OutsideSessions:
    """The part of the provider that needs no `initialize`."""

    def __init__(self, config: Mapping[str, Any] | None) -> None:
        self._config = config
        self._tells_status = False

    @guarded(False)
    def is_available(self, **kwargs: Any) -> bool:
        """Return True while hooks can accept writes; what prevents that is logged once, with the remedy."""
        home = hermes_home()
        if why := problem(self._config, home):
            warn_once(f"memory is off: {why}")
            return False
        _load_at_startup(home)
        return True

    @guarded("")
    def unavailable_reason(self, **kwargs: Any) -> str:
        """Return why `is_available` says no, with the remedy; "" when it says yes."""
        return problem(self._config, hermes_home())

    @guarded(list)
    def get_config_schema(self, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the fields of the host's forms, with their current values."""
        schema = setup.config_schema(FIELDS, hermes_home())
        if self._tells_status:  # the status lists the variable of every field as missing, and we require none
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
        """Return the path of a fresh export of the embedded database; your own server is backed up there."""
        return write_backup(self._config)


def problem(config: Mapping[str, Any] | None, home: Path) -> str:
    """Return what keeps hooks from accepting writes, with the remedy; "" when there is nothing.

    Problems with the database do not count: writes wait in the spool until these are solved. The host asks once for
    each agent, and what is turned away then is lost to that agent for good.
    """
    if sentence := lacking():
        return sentence
    try:
        load_settings(config, home)
    except HermesPgvectorError as exc:
        return str(exc)
    return ""


def _load_at_startup(home: Path) -> None:
    """Ensure, in the background, that the next gateway of `home` loads this plugin before it accepts requests.

    With `memory.provider` alone, the first request loads it. `plugins.enabled` is what the host reads at start-up.
    """
    if home not in _settled:
        threading.Thread(target=_enable, args=(home,), name="hermes-pgvector-enable", daemon=True).start()


def _enable(home: Path) -> None:
    with _one_at_a_time:  # only one of many first requests does it
        if home in _settled or not is_active(home):  # somebody is only looking at the list of providers
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
    """Run the operator's tool, which can edit config.yaml, in a process of its own; return False if it fails."""
    command = command_of("admin.common.activation", str(home))
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0
