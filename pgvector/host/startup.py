"""Loading before the first requests: of several that load a plugin at once, the host gives some no provider."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from ..domain.errors import ConfigurationError
from ..domain.fork_safety import SLOW, at_import, fork_lock
from .log_once import warn_once

logger = logging.getLogger(__name__)

_settled: set[Path] = set()  # homes of which there is nothing more to do, or nothing that we can
_one_at_a_time = fork_lock(SLOW)


def load_at_startup(home: Path) -> None:
    """See to it, in the background, that the next gateway of `home` loads this plugin before it takes requests.

    `memory.provider` alone has the first request load it. `plugins.enabled` is what the host reads at start-up.
    """
    if home not in _settled:
        threading.Thread(target=_enable, args=(home,), name="hermes-pgvector-enable", daemon=True).start()


def _enable(home: Path) -> None:
    with at_import:
        from ..config import plugin_state
    with _one_at_a_time:  # of many first requests one does it
        if home in _settled or not plugin_state.is_active(home):  # somebody only looks at the list of providers
            return
        _settled.add(home)
        if plugin_state.is_enabled(home) or plugin_state.is_disabled(home):
            return
        try:
            plugin_state.add_to_enabled(home)
        except ConfigurationError:
            warn_once(
                "config.yaml cannot be changed, so some of a gateway's very first requests may run without memory; "
                "run: hermes plugins enable pgvector"
            )
        else:
            logger.info("hermes-pgvector: added pgvector to plugins.enabled, so that gateways load it at start-up")
