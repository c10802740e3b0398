"""What people see of each other's themes without having asked: names, other homes' memories, other clients' keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.admin.doctor.check import Check
from hermes_memory_pgvector.admin.doctor.checklist import examine
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from tests.conftest import DIMS, MakeProvider
from tests.support.limits import LATE_S
from tests.support.memory import called, landed, write_entries
from tests.support.stored import Database

TOOLS = ("recall_memory", "recall_conversation")
DM = {
    "platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:4915112345678", "chat_type": "dm",
}  # fmt: skip
SessionTurns = Callable[..., tuple[int, str, str]]


def tell(make_provider: MakeProvider, theme: str, **kwargs: Any) -> None:
    provider = make_provider(**{"gateway_session_key": theme} | kwargs)
    provider.on_memory_write("add", "memory", f"The Atlas budget is owned by {theme}")
    provider.sync_turn(
        f"Who owns the Atlas budget in {theme}, remind me?", f"The Atlas budget is owned by {theme} now."
    )
    landed(provider)


@pytest.fixture
def said(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> SessionTurns:
    """Runs `hermes-pgvector ARGUMENTS`; returns its exit code, and what it printed to stdout and stderr."""
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}))

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*arguments, "--hermes-home", str(home)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


# -- a theme that nobody has


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("how", ["scope", "theme"])
def test_need_04_a_misspelt_theme_is_told_with_what_was_meant(
    make_provider: MakeProvider, dsn: str, tool: str, how: str
) -> None:
    for theme in ("marketing", "sales", "salmon"):
        tell(make_provider, theme)
    tell(make_provider, "dm", **DM)
    asker = make_provider(gateway_session_key="ops")
    asked = {"query": "Atlas budget"}

    answer = called(asker, tool, asked | {how: "marketting"})
    assert answer["count"] == 0
    assert (
        "no theme of the name 'marketting' holds anything" in answer["note"]
        and "did you mean 'marketing'?" in answer["note"]
    )
    assert "did you mean" not in called(asker, tool, asked | {how: "nothing like it"})["note"]
    assert "note" not in called(asker, tool, asked | {how: "sales"})
    holding = called(asker, tool, {"query": "zeppelin", how: "sales"})
    assert "no theme" not in holding.get("note", ""), "it holds something"
    assert "no theme" not in called(asker, tool, asked).get("note", ""), "one's own may well be empty"

    chat = Database(dsn).column("SELECT agent_identity FROM conversations WHERE agent_identity ^@ '@'")[0]
    near_chat = called(asker, tool, asked | {how: chat[1:]})["note"]
    assert "@" not in near_chat, "a chat's theme is never named"
    listed = make_provider({"cross_theme": ["marketing", "market*"]}, gateway_session_key="ops")
    assert "'marketing'" in called(listed, tool, asked | {how: "marketting"})["note"]
    only = make_provider({"cross_theme": ["saales"]}, gateway_session_key="ops")
    assert "did you mean" not in called(only, tool, asked | {how: "saales"})["note"], "what it may not read"


def test_need_01_among_tens_of_thousands_of_themes_a_misspelt_one_is_told_in_time(
    make_provider: MakeProvider, admin_dsn: str
) -> None:
    asker = make_provider({"recall_deadline_s": 1.5}, gateway_session_key="ops")
    landed(asker)
    long = "tenant-" + "abcdefgh" * 25
    with psycopg.connect(admin_dsn) as admin:
        admin.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) "
            "SELECT %s || number, 'memory', 'Atlas' FROM generate_series(1, 30000) AS number",
            [long],
        )
    for _ in range(3):
        began = time.monotonic()
        answer = called(asker, "recall_memory", {"query": "Atlas", "scope": long + "x"})
        assert time.monotonic() - began < 1.5 + LATE_S
        assert answer["count"] == 0


def test_need_35_a_profile_that_holds_private_memories_only_is_not_suggested(make_provider: MakeProvider) -> None:
    tell(make_provider, "dm", agent_identity="coder", **DM)
    answer = called(make_provider(), "recall_memory", {"query": "Atlas budget", "theme": "codre"})
    assert answer["count"] == 0 and "coder" not in json.dumps(answer)
    same = called(make_provider(), "recall_memory", {"query": "Atlas budget", "theme": "coder"})
    assert same["note"] == answer["note"].replace("codre", "coder")


# -- the command line, where no theme is named


def test_need_04_the_command_line_says_which_theme_it_took(make_provider: MakeProvider, said: SessionTurns) -> None:
    tell(make_provider, "", platform="cli", agent_identity="default")
    for command in (["list"], ["search", "Atlas"], ["sessions", "list"], ["history"]):
        assert said(*command)[2].splitlines()[0] == "theme 'default'", command
    for theme in ("marketing", "sales"):
        tell(make_provider, theme)
    for command in (["list"], ["list", "--store", "turns"], ["search", "Atlas"], ["sessions", "list"], ["history"]):
        code, out, err = said(*command)
        assert code == 0 and "marketing" not in out
        assert err.splitlines()[0] == "theme 'default'; 2 others: --theme NAME, see themes list", command
        assert "theme '" not in said(*command, "--theme", "sales")[2]
        code, out, err = said(*command, "--json")
        assert "theme '" not in err and json.loads(out)
    assert "theme '" not in said("search", "Atlas", "--scope", "all")[2]


# -- the demo


def test_need_35_the_demo_shows_nothing_but_what_it_wrote(
    make_provider: MakeProvider, said: SessionTurns, dsn: str
) -> None:
    for number in range(8):
        provider = make_provider(gateway_session_key=f"board-{number}")
        provider.on_memory_write("add", "memory", f"What we know about the Atlas campaign: codeword Quokka-{number}")
        landed(provider)
    code, out, _ = said("demo")
    assert code == 0 and "Quokka" not in out and "board-" not in out
    assert "8 more of your own themes, not shown" in out
    assert Database(dsn).column("SELECT count(*) FROM memory_entries WHERE agent_identity ^@ 'demo-'") == [0]


# -- doctor


def checks(home: Path, name: str, **settings: Any) -> list[Check]:
    return [check for check in examine(Settings(dims=DIMS, **settings), home) if check.name == name]


def test_need_04_doctor_warns_where_many_keys_read_each_other(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    tell(make_provider, "", agent_identity="default")  # the API server without the header
    tell(make_provider, "dm", **DM)
    assert checks(home, "session keys", dsn=dsn) == []
    for theme in ("marketing", "sales"):
        tell(make_provider, theme)
    assert [check.state for check in checks(home, "session keys", dsn=dsn)] == ["ok"]
    tell(make_provider, "support")
    (check,) = checks(home, "session keys", dsn=dsn)
    assert check.state == "note" and "3 keys" in check.said and "any client may claim any key" in check.said
    assert "marketing, sales, support" in check.said and "cross_theme none" in check.fix
    for closed in (("none",), ()):
        assert [each.state for each in checks(home, "session keys", dsn=dsn, cross_theme=closed)] == ["ok"]
    assert [each.state for each in checks(home, "session keys", dsn=dsn, cross_theme=("all",))] == ["note"]


def test_need_04_doctor_tells_of_homes_that_share_the_embedded_server(
    make_provider: MakeProvider, home: Path, tmp_path: Path, dsn: str
) -> None:
    for number in range(2):
        other = tmp_path / f"home-{number}"
        write_entries(other, f"A fact of home {number}")
        landed(make_provider(hermes_home=str(other), agent_identity="default"))
        found = [each for each in examine(Settings(dims=DIMS), home, locate=lambda: dsn) if each.name == "homes"]
        assert len(found) == number
    assert "2 hermes homes share this embedded Postgres, and with it the theme 'default'" in found[0].said
    assert "embedded_dir" in found[0].fix
    assert checks(home, "homes", dsn=dsn) == [], "a server of one's own is shared on purpose"
