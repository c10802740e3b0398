"""What operators do while somebody else has just changed the same rows: nothing is lost, and nothing untrue told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.cli import main
from tests.conftest import DIMS
from tests.support.stored import Database
from tests.support.waiting import until

Start = Callable[..., "subprocess.Popen[str]"]
WAITING = (
    "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
)


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


@contextmanager
def written_first(dsn: str, theme: str = "sre") -> Iterator[psycopg.Connection[Any]]:
    """A transaction that has the turn of a theme's writers in the block, and is committed at its end."""
    with psycopg.connect(dsn) as writer:
        writer.execute("SELECT pg_advisory_xact_lock(731057946, hashtext(%s))", (theme,))
        yield writer


def waits(dsn: str) -> None:
    until(lambda: Database(dsn).column(WAITING) != [0], what="the command to wait for the writer")


def ended(process: subprocess.Popen[str]) -> tuple[int | None, str]:
    """The exit code of a command, and all that it printed."""
    out, err = process.communicate(timeout=150)
    return process.returncode, out + err


def column(dsn: str, statement: str) -> Sequence[Any]:
    return Database(dsn).column(statement)


def test_need_03_what_was_closed_while_an_edit_waited_stays_closed(
    ask: Callable[..., Any], start_cli: Start, dsn: str
) -> None:
    asked = ("Which queue do we take?", "--theme", "sre", "--kind", "question", "--subject", "queue")
    (row,) = ask("facts", "add", *asked)["rows"]
    with written_first(dsn) as writer:
        editing = start_cli("edit", row["ref"], "--pin", "--yes")
        waits(dsn)
        writer.execute("UPDATE memory_entries SET state = 'closed', expires_at = '2040-01-01'")
    code, said = ended(editing)
    assert code == 0, said
    kept = "SELECT concat_ws(' ', state, expires_at::date, pinned) FROM memory_entries"
    assert column(dsn, kept) == ["closed 2040-01-01 t"]
