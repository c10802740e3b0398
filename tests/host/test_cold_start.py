"""Cold starts of the real gateway with `memory.provider` as the only setting.

HERMES_TEST_COLD_STARTS=25 measures as many of each kind; a run of the suite has one.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.gateway import Gateway, HttpAnswer
from tests.support.hermes import HermesHome, describe
from tests.support.model_server import ModelServer
from tests.support.waiting import until

COLD_STARTS = int(os.environ.get("HERMES_TEST_COLD_STARTS", "1"))
REQUESTS = 8
SLOW = "import time\ntime.sleep(0.5)\n"


def set_provider_only(home: HermesHome, model: ModelServer, settings: dict[str, Any]) -> None:
    """As `hermes config set memory.provider pgvector` does in a home that knows nothing of plugins.enabled."""
    home.write_config(model.base_url, settings, memory={"provider": ""}, enabled=None)
    done = home.hermes("config", "set", "memory.provider", "pgvector")
    assert done.returncode == 0, describe(done)
    assert "enabled" not in home.read_config()["plugins"]


def without_memory(home: HermesHome, model: ModelServer, start: int) -> int:
    """How many of the first requests of a gateway, all at once, ran without our tools."""
    together = threading.Barrier(REQUESTS)
    messages = [f"Statement {index} of start {start}: the harbour office opens at eight." for index in range(REQUESTS)]
    with Gateway(home, forked=False) as gateway, ThreadPoolExecutor(REQUESTS) as clients:

        def ask(message: str) -> HttpAnswer:
            together.wait(60)
            return gateway.post_chat(message, key="cold")

        assert [answer.status for answer in clients.map(ask, messages)] == [200] * REQUESTS, gateway.log()
    return sum("recall_memory" not in model.requests_saying(message)[0].tool_names for message in messages)


def lost_in_cold_starts(home: HermesHome, model: ModelServer) -> int:
    # Loading takes long enough for every other request to come in the middle of it.
    (home.plugin_path / "slow.py").write_text(SLOW)
    return sum(without_memory(home, model, start) for start in range(COLD_STARTS))


def installed(home: HermesHome) -> None:
    done = home.python("-m", "hermes_memory_pgvector.cli", "install", "--no-activate", "--copy")
    assert done.returncode == 0, describe(done)


@pytest.mark.timeout(60 + 60 * COLD_STARTS)
def test_need_33_a_plugin_that_was_installed_needs_one_setting_from_the_first_start_on(
    bare_home: HermesHome, model: ModelServer, settings: dict[str, Any]
) -> None:
    set_provider_only(bare_home, model, settings)
    installed(bare_home)
    assert lost_in_cold_starts(bare_home, model) == 0


@pytest.mark.timeout(60 + 60 * COLD_STARTS)
def test_need_33_any_first_use_of_a_copied_plugin_makes_one_setting_enough(
    bare_home: HermesHome, model: ModelServer, settings: dict[str, Any]
) -> None:
    bare_home.copy_plugin(compiled=False)  # as it is before a first use
    set_provider_only(bare_home, model, settings)
    bare_home.config_path.write_text(f"# kept as it is\n{bare_home.config_path.read_text()}")
    with Gateway(bare_home, forked=False) as gateway:
        assert gateway.post_chat("The first one to speak here.", key="cold").status == 200, gateway.log()
        until(lambda: bare_home.read_config()["plugins"].get("enabled") == ["pgvector"], 20, "plugins.enabled")
    assert bare_home.config_path.read_text().startswith("# kept as it is\n")
    assert lost_in_cold_starts(bare_home, model) == 0


def test_a_plugin_that_somebody_disabled_stays_out_of_plugins_enabled(
    active_home: HermesHome,
) -> None:
    config = active_home.read_config()
    assert active_home.hermes("plugins", "disable", "pgvector").returncode == 0
    used = active_home.hermes("-z", "hello there, harbour office")
    assert used.returncode == 0, describe(used)
    assert active_home.read_config()["plugins"]["enabled"] == []
    assert config["memory"]["provider"] == "pgvector"
