"""Leaving: deactivated with everything kept, taken out of a home, and the way back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_memory_pgvector.admin.common.embedded_server import embedded_server
from hermes_memory_pgvector.admin.common.spool_views import inspect_spools
from hermes_memory_pgvector.capture.spool_directory import spool_folders
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, landed
from tests.support.waiting import until

FACT = "Atlas ships from the northern harbour"
Verb = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def verb(home: Path, capsys: pytest.CaptureFixture[str]) -> Verb:
    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = main([*arguments, "--hermes-home", str(home)])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if "--json" in arguments and captured.out else {"said": captured}

    return run


def config_of(home: Path) -> Any:
    return yaml.safe_load((home / "config.yaml").read_text(encoding="utf-8"))


def configure(home: Path, text: str = "", **values: object) -> None:
    known = {"plugins": {"pgvector": values}}
    (home / "config.yaml").write_text(text + yaml.safe_dump(known), encoding="utf-8")


def found(home: Path) -> str:
    """What an agent of this home recalls of the fact."""
    from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

    provider = PgvectorMemoryProvider()
    provider.initialize("later", hermes_home=str(home), platform="api_server", gateway_session_key="marketing")
    return json.dumps(called(provider, "recall_memory", {"query": "northern harbour"}))


@pytest.mark.parametrize("before", ["honcho", ""])
def test_deactivated_memory_goes_back_to_what_it_was_and_comes_back_whole(
    home: Path, dsn: str, verb: Verb, make_provider: MakeProvider, before: str
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", FACT)
    landed(provider)
    close_all()
    configure(home, f"# mine\nmemory: {{provider: '{before}'}}\n", dsn=dsn, dims=DIMS)
    original = config_of(home)
    assert verb("install")[0] == 0
    assert config_of(home)["memory"]["provider"] == "pgvector"

    code, said = verb("deactivate", "--json")

    assert (code, said) == (0, {"memory.provider": before})
    config = config_of(home)
    assert config.pop("plugins") == original.pop("plugins") | {"enabled": []}
    assert config == original and (home / "config.yaml").read_text(encoding="utf-8").startswith("# mine\n")
    assert verb("deactivate", "--json") == (0, {"memory.provider": before}), "again is harmless"

    assert verb("install")[0] == 0
    assert config_of(home)["memory"]["provider"] == "pgvector"
    assert FACT in found(home)


def test_uninstall_is_a_dry_run_and_keeps_memory_unless_told_otherwise(
    home: Path, dsn: str, verb: Verb, make_provider: MakeProvider
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", FACT)
    landed(provider)
    close_all()
    configure(home, dsn=dsn, dims=DIMS)
    verb("install")
    before = sorted(str(path) for path in home.rglob("*"))

    code, planned = verb("uninstall", "--json")
    assert code == 0 and not planned["done"]
    assert sorted(str(path) for path in home.rglob("*")) == before
    assert any("drop_everything.sql" in line for line in planned["left"])
    assert any(line.endswith(": hermes config unset plugins.pgvector") for line in planned["left"])

    code, done = verb("uninstall", "--yes", "--json")
    assert code == 0 and done["steps"] == planned["steps"]
    assert not (home / "plugins" / "pgvector").exists() and (home / "pgvector").is_dir()
    assert config_of(home)["memory"]["provider"] == ""

    verb("install")
    assert FACT in found(home)


def test_need_03_uninstall_keeps_writes_that_never_reached_postgres_unless_forced(
    home: Path, verb: Verb, make_provider: MakeProvider
) -> None:
    nowhere = {"dsn": "host=127.0.0.1 port=1 dbname=x", "shutdown_timeout_s": 0}
    make_provider(nowhere).on_memory_write("add", "memory", FACT)
    configure(home, **nowhere)
    verb("install")
    (home / ".env").write_text("A=1\nHERMES_PGVECTOR_EMBED_API_KEY=k\n", encoding="utf-8")

    code, said = verb("uninstall", "--data", "--yes")
    assert code == 1
    assert "1 write in the spool never reached Postgres" in said["said"].err
    assert "are running" in said["said"].err and "--force" in said["said"].err
    assert config_of(home)["memory"]["provider"] == "pgvector" and list((home / "pgvector" / "spool").glob("*.db"))

    close_all()
    until(lambda: not any(view.living for view in inspect_spools(home)), what="the end of the writer")
    (home / "pgvector" / "venv").mkdir()
    code, said = verb("uninstall", "--data", "--force", "--yes", "--json")
    assert code == 0 and len(said["obstacles"]) == 1
    assert [path.name for path in (home / "pgvector").iterdir()] == ["venv"], "what this may be running in stays"
    assert (home / ".env").read_text(encoding="utf-8") == "A=1\n"


def test_need_40_a_process_that_saw_the_settings_change_is_named_once(
    home: Path, dsn: str, verb: Verb, make_provider: MakeProvider
) -> None:
    configure(home, dsn=dsn, dims=DIMS)
    sessions = [make_provider({"prefetch_limit": limit}) for limit in (3, 4)]
    assert len(inspect_spools(home)) == len(sessions)
    said = verb("uninstall", "--data")[1]["said"]
    assert f"process {os.getpid()}; stop" in said.out + said.err


def test_uninstall_with_data_removes_the_embedded_server_but_not_under_another_process(
    home: Path, verb: Verb, place: Path
) -> None:
    configure(home, embedded_dir=str(place / "pg"), dims=DIMS)
    assert verb("migrate")[0] == 0
    verb("install")
    (place / "pg" / "mine.txt").write_text("not of the server", encoding="utf-8")
    from hermes_memory_pgvector.host.session_context import load_settings

    other = embedded_server(load_settings(None, home).settings)
    other.ensure()
    code, said = verb("uninstall", "--data", "--yes")
    assert code == 1 and "another process uses" in said["said"].err
    assert other.running() and config_of(home)["memory"]["provider"] == "pgvector"
    other.release()

    code, said = verb("uninstall", "--data", "--yes", "--json")

    assert code == 0
    assert [path.name for path in (place / "pg").iterdir()] == ["mine.txt"]
    assert [line for line in said["left"] if "mine.txt" in line], "what stays is named"
    assert not [line for line in said["left"] if "/pg/data" in line]
    assert not (home / "pgvector").exists() and not (home / "plugins" / "pgvector").exists()
    assert not [step for step in verb("uninstall", "--data", "--json")[1]["steps"] if "Postgres" in step], "it is gone"
    (place / "pg" / "mine.txt").unlink()
    assert verb("migrate")[0] == 0, "a new server can be made there"

    other.ensure()
    assert verb("uninstall", "--data", "--force", "--yes")[0] == 0
    assert not other.running() and not (place / "pg").exists()
    assert not other.release()


def test_uninstall_with_data_leaves_no_text_where_the_home_took_no_writes(
    home: Path, dsn: str, verb: Verb, make_provider: MakeProvider, tmp_path: Path
) -> None:
    (home / "pgvector").mkdir()
    (home / "pgvector" / "spool").write_text("in the way of the folder", encoding="utf-8")
    provider = make_provider()
    provider.on_memory_write("add", "memory", FACT)
    landed(provider)
    close_all()
    # What is in the way looks like the spool of a home that shared the developer's own server.
    configure(home, dsn=dsn, dims=DIMS, embedded_dir=str(tmp_path / "pg"))
    elsewhere = [folder for folder in spool_folders(home)[1:] if folder.exists()]
    assert any(FACT.encode() in path.read_bytes() for folder in elsewhere for path in folder.iterdir())

    code, done = verb("uninstall", "--data", "--yes", "--json")

    assert code == 0 and all(any(str(folder) in step for step in done["steps"]) for folder in elsewhere)
    assert not [folder for folder in elsewhere if folder.exists()]


def test_a_link_is_removed_and_not_what_it_leads_to(home: Path, dsn: str, verb: Verb, tmp_path: Path) -> None:
    configure(home, dsn=dsn, dims=DIMS)
    (home / "plugins").mkdir()
    package = Path(main.__code__.co_filename).parent
    (home / "plugins" / "pgvector").symlink_to(package)
    assert verb("uninstall", "--yes")[0] == 0
    assert not (home / "plugins" / "pgvector").is_symlink() and (package / "cli.py").is_file()


@pytest.mark.parametrize(("installer", "named"), [("pip", True), ("uv", True), ("dpkg", False), ("", False)])
def test_pip_is_named_for_a_package_that_it_can_take_out(
    verb: Verb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: str, named: bool
) -> None:
    record = tmp_path / "path" / "hermes_memory_pgvector-9.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes-memory-pgvector\nVersion: 9\n")
    (record / "INSTALLER").write_text(f"{installer}\n")
    monkeypatch.syspath_prepend(str(record.parent))
    _, planned = verb("uninstall", "--json")
    assert any("pip uninstall" in line for line in planned["left"]) == named
