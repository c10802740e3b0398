"""Files of the user that several commands change at the same time: what each has written stays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.admin.common.client_files import ClientFile, install
from hermes_memory_pgvector.admin.common.dotenv_file import set_dotenv
from hermes_memory_pgvector.admin.common.file_replacing import changing
from hermes_memory_pgvector.admin.common.yaml_file import set_values
from hermes_memory_pgvector.domain.errors import ConfigurationError

NAMES = [f"N{number}" for number in range(8)]


def at_once(change: Callable[[str], object]) -> None:
    """Make a change for each name, all at the same time."""
    begin = threading.Barrier(len(NAMES))

    def one(name: str) -> None:
        begin.wait()
        change(name)

    with ThreadPoolExecutor(len(NAMES)) as threads:
        list(threads.map(one, NAMES))


def test_need_03_settings_that_several_commands_write_at_once_all_stay(tmp_path: Path) -> None:
    at_once(lambda name: set_values(tmp_path, {("plugins", "pgvector", name): 1}))
    assert sorted(yaml.safe_load((tmp_path / "config.yaml").read_text())["plugins"]["pgvector"]) == NAMES


def test_need_03_variables_that_several_commands_write_at_once_all_stay(tmp_path: Path) -> None:
    at_once(lambda name: set_dotenv(tmp_path, {name: "1"}))
    assert sorted((tmp_path / ".env").read_text().split()) == [f"{name}=1" for name in NAMES]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_need_03_entries_that_several_commands_put_in_at_once_all_stay(tmp_path: Path, form: str) -> None:
    place = ClientFile(tmp_path / ("config.yaml" if form == "yaml" else "mcp.json"), form, "servers")  # type: ignore[arg-type]
    entry = {"command": "hermes-pgvector", "args": ["mcp"], "env": {"HERMES_HOME": "/h"}}
    at_once(lambda name: install(place, name, entry, really=True))
    text = place.path.read_text()
    whole = yaml.safe_load(text) if form == "yaml" else json.loads(text)
    assert sorted(whole["servers"]) == NAMES
    assert all(path.suffix in (".json", ".yaml", ".bak") for path in tmp_path.iterdir()), "nothing is left beside them"


def test_need_02_a_command_that_holds_a_file_for_long_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_memory_pgvector.admin.common.file_replacing._PATIENCE_S", 0.0)
    with changing(tmp_path / "config.yaml"):
        with pytest.raises(ConfigurationError, match="another command is changing a file in that folder"):
            set_values(tmp_path, {("memory", "provider"): "pgvector"})
        with pytest.raises(ConfigurationError, match="another command is changing a file in that folder"):
            set_dotenv(tmp_path, {"NAME": "1"})
    assert not list(tmp_path.iterdir())
