"""`hermes memory status`: what keeps memory from working, in our own words, and nothing that is not missing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.support.blocked_packages import PoorEnvironment
from tests.support.hermes import HermesHome, describe
from tests.support.model_server import ModelServer

PASSWORD = "correct-horse-battery"
STATUS = "import sys; sys.argv[1:] = ['memory', 'status']; from hermes_cli.main import main; main()"


def problem(home: HermesHome) -> str:
    """The line of the status that says what is wrong; empty without one."""
    status = home.hermes("memory", "status")
    assert status.returncode == 0, describe(status)
    return problem_in(status.stdout)


def problem_in(shown: str) -> str:
    assert "HERMES_PGVECTOR" not in shown, "a variable that is not needed was called missing"
    found = re.search(r"^\s+problem: (.*(?:\n(?!    \w+:|\n).*)*)", shown, re.MULTILINE)
    return found.group(1) if found else ""


def test_need_40_status_says_that_all_is_well(active_home: HermesHome) -> None:
    assert problem(active_home) == ""


def test_need_40_status_says_that_the_tables_are_missing(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], empty_admin_dsn: str
) -> None:
    active_home.write_config(model.base_url, settings | {"dsn": make_conninfo(empty_admin_dsn, user="hermes")})
    said = problem(active_home)
    assert "missing" in said and "migrate --admin-dsn" in said


def test_need_40_status_says_that_postgres_is_out_of_reach(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any]
) -> None:
    dsn = f"host=127.0.0.1 port=1 dbname=nowhere user=nobody password={PASSWORD}"
    active_home.write_config(model.base_url, settings | {"dsn": dsn})
    said = problem(active_home)
    assert "refused" in said and PASSWORD not in said


@pytest.mark.parametrize(
    ("config", "words"),
    [("memory: {provider: pgvector}\nplugins: {pgvector: {dsn: 'host=nowhere nonsense'}}\n", "dsn"),
     ("memory: {provider: pgvector}\nplugins: {pgvector: [dsn]}\n", "settings")],
)  # fmt: skip
def test_need_40_status_says_which_setting_is_wrong(active_home: HermesHome, config: str, words: str) -> None:
    active_home.config_path.write_text(config, encoding="utf-8")
    status = active_home.hermes("memory", "status")
    assert words in status.stdout.split("pgvector config:")[1], describe(status)
    assert "HERMES_PGVECTOR" not in status.stdout


def test_need_40_status_says_which_package_is_missing(active_home: HermesHome, tmp_path: Path) -> None:
    poor = PoorEnvironment(tmp_path / "poor", ["psycopg_pool", "hermes_memory_pgvector"])
    shown = poor.run(STATUS, home=active_home.path)
    assert "psycopg-pool" in problem_in(shown.stdout) and "pip install" in shown.stdout, describe(shown)


def test_need_40_status_says_that_the_package_behind_the_shim_is_gone(bare_home: HermesHome, tmp_path: Path) -> None:
    made = bare_home.shim_plugin()
    assert made.returncode == 0, describe(made)
    poor = PoorEnvironment(tmp_path / "poor", ["hermes_memory_pgvector"])
    (tmp_path / "poor" / "hermes_memory_pgvector").unlink()
    shown = poor.run(STATUS, home=bare_home.path)
    assert "pip install" in problem_in(shown.stdout), describe(shown)
    shutil.rmtree(tmp_path / "poor")
