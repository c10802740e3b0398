"""What `migrate` refuses before it speaks to any server."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_memory_pgvector import cli


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def refusal(home: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `migrate` says as it fails; no server was made in the home."""
    assert cli.main(["migrate", "--hermes-home", str(home), *arguments]) != 0
    assert not list(home.iterdir())
    return capsys.readouterr().err


def test_trap_13_a_runtime_role_without_an_admin_is_refused_and_not_ignored(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--runtime-role needs --admin-dsn" in refusal(home, capsys, "--runtime-role", "hermes")


@pytest.mark.parametrize("dims", ["0", "-1", "2001"])
def test_a_dimension_that_no_index_takes_is_refused(home: Path, capsys: pytest.CaptureFixture[str], dims: str) -> None:
    assert "1 to 2000" in refusal(home, capsys, "--dims", dims, "--admin-dsn", "dbname=x")
