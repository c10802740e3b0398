"""The host's own loader finds the plugin in every form in which it can be installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.hermes import HermesHome, describe
from tests.support.model_server import ModelServer

REPORT_PROVIDER = """
import json, sys
from agent.memory_provider import MemoryProvider
from plugins.memory import discover_memory_providers, load_memory_provider
provider = load_memory_provider("pgvector")
pypi_pgvector = sys.modules.get("pgvector")
print(json.dumps({
    "found": provider is not None,
    "is_provider": isinstance(provider, MemoryProvider),
    "name": provider and provider.name,
    "available": provider is not None and provider.is_available(),
    "module": type(provider).__module__,
    "tools": sorted(schema["name"] for schema in provider.get_tool_schemas()) if provider else [],
    "listed": [entry for entry in discover_memory_providers() if entry[0] == "pgvector"],
    "pypi_pgvector_file": pypi_pgvector and pypi_pgvector.__file__,
}))
"""


def copied(home: HermesHome) -> None:
    home.copy_plugin()


def linked(home: HermesHome) -> None:
    home.link_plugin()


def shimmed(home: HermesHome) -> None:
    installed = home.shim_plugin()
    assert installed.returncode == 0, describe(installed)


def load_in_new_process(home: HermesHome) -> dict[str, Any]:
    completed = home.python("-c", REPORT_PROVIDER)
    assert completed.returncode == 0, describe(completed)
    report = json.loads(completed.stdout.splitlines()[-1])
    assert isinstance(report, dict)
    return report


@pytest.mark.parametrize("put", [copied, linked, shimmed])
def test_need_21_the_loader_finds_the_plugin(
    bare_home: HermesHome, model: ModelServer, settings: dict[str, Any], put: Callable[[HermesHome], None]
) -> None:
    bare_home.write_config(model.base_url, settings)
    put(bare_home)

    report = load_in_new_process(bare_home)

    assert report["found"], report
    assert report["is_provider"], report
    assert report["name"] == "pgvector"
    assert report["available"], report
    assert report["tools"] == ["recall_conversation", "recall_memory"]
    assert [(name, available) for name, _, available in report["listed"]] == [("pgvector", True)]
    assert report["listed"][0][1], "the host lists the plugin without a description"
    assert "/plugins/pgvector/" not in (report["pypi_pgvector_file"] or "")


@pytest.mark.parametrize("put", [copied, linked])
def test_need_21_a_plugin_directory_needs_no_installed_package(
    bare_home: HermesHome, model: ModelServer, settings: dict[str, Any], put: Callable[[HermesHome], None]
) -> None:
    bare_home.write_config(model.base_url, settings)
    put(bare_home)

    report = load_in_new_process(bare_home)

    assert report["module"].startswith("_hermes_user_memory.pgvector"), report


def test_need_21_installing_the_shim_twice_is_harmless(
    bare_home: HermesHome, model: ModelServer, settings: dict[str, Any]
) -> None:
    bare_home.write_config(model.base_url, settings)
    shimmed(bare_home)
    shimmed(bare_home)

    assert load_in_new_process(bare_home)["found"]
