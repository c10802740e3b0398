"""Files and folders that a signal finds half way are whole afterwards, as before or as after."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import DIMS
from tests.support.hermes import HermesHome
from tests.support.interrupted_cli import interrupted
from tests.support.memory import DELIMITER, write_entries
from tests.support.model_files import model_dir

from .conftest import Run, command_environment

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CRANES = ["Crane a is red", "Crane b is blue", "Crane c is grey"]
USER = ["Likes short answers", "Lives in Lisbon"]


def files_of(folder: Path) -> dict[str, bytes]:
    """What is in a folder, but for what Python compiled."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def stopped(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether a command ended as interrupted, without a word about where that was."""
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, done.stderr
    return done.returncode == 130


@pytest.mark.parametrize("number", SIGNALS)
def test_need_02_a_plugin_that_is_being_replaced_is_there_all_the_same(home: Path, number: signal.Signals) -> None:
    plugin = home / "plugins" / "pgvector"
    plugin.mkdir(parents=True)
    (plugin / "plugin.yaml").write_text("name: pgvector\nauthor: somebody else\n", encoding="utf-8")
    (plugin / "notes.txt").write_text("mine", encoding="utf-8")
    before = files_of(plugin)
    asked = ("install", "--force")
    done = interrupted(number, "os.rename", "/plugins/pgvector", *asked, env=command_environment(home), nth=2)
    assert stopped(done), done.stderr
    after = files_of(plugin)
    assert after == before or "cli.py" in after, sorted(after)
    assert os.listdir(plugin.parent) == ["pgvector"]


@pytest.mark.parametrize("number", SIGNALS)
def test_need_02_setup_that_is_ended_as_it_saves_says_what_it_has_saved(
    home: Path, dsn: str, number: signal.Signals
) -> None:
    asked = ("setup", "--dsn", dsn, "--no-model", "--yes", "--json")
    done = interrupted(number, "os.rename", "/config.yaml", *asked, env=command_environment(home))
    assert stopped(done), done.stderr
    config = yaml.safe_load((home / "config.yaml").read_text())
    assert (json.loads(done.stdout)["saved"], config["plugins"]["pgvector"]["dsn"]) == (True, dsn)


@pytest.mark.parametrize("number", SIGNALS)
def test_need_21_an_install_that_is_ended_as_it_tidies_up_leaves_nothing_beside(
    home: Path, number: signal.Signals
) -> None:
    done = interrupted(number, "os.rmdir", "/plugins/.pgvector-", "install", env=command_environment(home))
    assert stopped(done), done.stderr
    assert os.listdir(home / "plugins") == ["pgvector"]


def test_need_02_a_model_that_is_being_replaced_or_removed_is_there_or_gone(home: Path, cli: Run) -> None:
    mine = home.parent / "mine"
    shutil.copytree(model_dir(), mine, ignore=shutil.ignore_patterns("reranker"))
    install = ("model", "install", "mine", "--from", str(mine))
    assert cli(*install).returncode == 0
    done = interrupted(signal.SIGINT, "os.rename", "/new/mine", *install, env=command_environment(home))
    assert stopped(done), done.stderr
    assert cli("model", "verify", "mine").returncode == 0
    assert sorted(os.listdir(home / "pgvector" / "models")) == [".lock", "mine"]
    remove = ("model", "remove", "mine", "--yes")
    done = interrupted(signal.SIGINT, "os.rmdir", "/.install-", *remove, env=command_environment(home))
    assert stopped(done), done.stderr
    assert os.listdir(home / "pgvector" / "models") == [".lock"]


@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGKILL])
def test_need_21_who_ends_the_removal_of_the_plugin_can_end_it_later_or_have_it_back(
    home: Path, cli: Run, number: signal.Signals
) -> None:
    plugins = home / "plugins"
    for again in ("uninstall", "install"):
        assert cli("install").returncode == 0
        done = interrupted(number, "os.rmdir", str(plugins), "uninstall", "--yes", env=command_environment(home))
        assert stopped(done) or done.returncode == -number, done.stderr
        done = cli(again, *(["--yes"] if again == "uninstall" else []))
        assert done.returncode == 0, done.stderr
        left = sorted(path.name for path in plugins.iterdir() if not path.name.startswith(".pgvector-"))
        assert left == (["pgvector"] if again == "install" else []), done.stdout


@pytest.mark.parametrize("number", SIGNALS)
def test_need_02_what_relieve_takes_out_of_two_files_it_takes_out_of_both(
    home: Path, cli: Run, dsn: str, number: signal.Signals
) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))
    write_entries(home, *CRANES)
    write_entries(home, *USER, file="USER.md")
    chosen = ("relieve", "--entry", "1", "--entry", "4", "--yes")
    done = interrupted(number, "os.rename", "USER.md", *chosen, env=command_environment(home))
    assert stopped(done), done.stderr
    texts = [(home / "memories" / name).read_text(encoding="utf-8") for name in ("MEMORY.md", "USER.md")]
    assert texts == [DELIMITER.join(CRANES[1:]), USER[1]]
    assert cli("relieve", "--undo", "--yes").returncode == 0
    texts = [(home / "memories" / name).read_text(encoding="utf-8") for name in ("MEMORY.md", "USER.md")]
    assert texts == [DELIMITER.join(CRANES), DELIMITER.join(USER)]


@pytest.mark.parametrize("number", SIGNALS)
def test_need_02_a_client_is_given_the_server_with_a_copy_of_its_file_or_neither(
    tmp_path: Path, number: signal.Signals
) -> None:
    home = HermesHome(tmp_path / "user")
    file = home.root / ".claude.json"
    file.write_text('{"key": "kept"}\n', encoding="utf-8")
    install = ("mcp", "install", "--client", "claude-code")
    done = interrupted(number, "os.rename", ".claude.json", *install, env=home.environment(), nth=2)
    assert stopped(done), done.stderr
    entry = json.loads(file.read_text(encoding="utf-8")).get("mcpServers")
    names = sorted(path.name for path in home.root.glob(".claude*"))
    assert len(names) == (2 if entry else 1), names
