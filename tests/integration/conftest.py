"""What the integration tests share beyond the suite's own fixtures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.server.binaries import find_binaries
from tests.support.databases import Databases
from tests.support.embedded import BIN_DIR
from tests.support.forked_cli import ForkedCli, run_forked
from tests.support.hermes import HermesHome
from tests.support.scripted_embedder import ScriptedEmbedder

if TYPE_CHECKING:
    from tests.support.dashboard import DashboardApi

DIMS = 384
ServeApi = Callable[..., "DashboardApi"]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the developer, or of the test run, reaches a provider."""
    for name in [name for name in os.environ if name.startswith("HERMES_PGVECTOR_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def embedder() -> Iterator[ScriptedEmbedder]:
    """An embedding endpoint for texts of shared words."""
    with ScriptedEmbedder(dims=DIMS) as server:
        yield server


@pytest.fixture
def second_dsn(databases: Databases, migrated_template: str) -> Iterator[str]:
    """The runtime role's conninfo of another migrated database."""
    with databases.copy(migrated_template) as admin_dsn:
        yield make_conninfo(admin_dsn, user="hermes")


def command_environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a command that a user runs: ours, with another hermes home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PG"))}
    return {**kept, "HERMES_HOME": str(home), "PYTHONSAFEPATH": "1", **more}


def started_cli(
    home: Path, folder: Path, *arguments: str, fresh: bool = False, prepared: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start `hermes-pgvector ARGUMENTS` for a home, in a process that is forked from one with the `prepared` modules.

    If `fresh`, by an interpreter that reads its own variables of the environment, which one that is forked has read.
    """
    environment = command_environment(home)
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if fresh:
        command = [sys.executable, "-m", "hermes_memory_pgvector.cli", *arguments]
        return subprocess.Popen(command, cwd=folder, env=environment, **streams, text=True)
    return ForkedCli(*arguments, folder=folder, environment=environment, prepared=prepared, **streams, text=True)


@pytest.fixture
def start_cli(home: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts `hermes-pgvector ARGUMENTS` in a process that is forked for it, to be stopped or killed."""
    return partial(started_cli, home, tmp_path)


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Run:
    """Runs `hermes-pgvector ARGUMENTS` to its end, in a process that is forked for it."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_forked(*arguments, folder=tmp_path, environment=command_environment(home))

    return run


def cli_of(agent: HermesHome, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `hermes-pgvector ARGUMENTS` for that home to its end, in a process that is forked for it."""
    return run_forked(*arguments, folder=agent.root, environment=agent.environment())


@pytest.fixture
def agent(tmp_path: Path, dsn: str) -> HermesHome:
    """A hermes home whose memory is the test's database."""
    from tests.support.mcp_client import mcp_home  # with the SDK, which most tests do without

    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)


@pytest.fixture
def api(agent: HermesHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    """The dashboard's API for that home."""
    from tests.support.dashboard import dashboard_api  # as above

    with dashboard_api(agent.path, monkeypatch) as client:
        yield client


@pytest.fixture
def serve_api(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServeApi]:
    """Serves the dashboard's API for a home with these settings."""
    from tests.support.dashboard import dashboard_api
    from tests.support.mcp_client import mcp_home

    with ExitStack() as stack:

        def serve(**settings: Any) -> DashboardApi:
            home = mcp_home(tmp_path / "agent", **({"dsn": dsn, "dims": DIMS} | settings))
            return stack.enter_context(dashboard_api(home.path, monkeypatch))

        yield serve


@pytest.fixture
def program(home: Path, tmp_path: Path) -> Run:
    """Runs one of Postgres' own programs; `options` is what PGOPTIONS holds meanwhile."""
    folder = find_binaries(BIN_DIR).directory

    def run(name: str, *arguments: str, options: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [folder / name, *arguments],
            cwd=tmp_path,
            env=command_environment(home, PGOPTIONS=options),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )

    return run


@pytest.fixture
def ask(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs `hermes-pgvector ARGUMENTS --json` in this process and returns what it printed."""
    section = {"dsn": dsn, "dims": DIMS}
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))

    def run(*arguments: str) -> Any:
        capsys.readouterr()
        assert main([*arguments, "--json", "--hermes-home", str(home)]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run
