"""The tokens of the MCP server: made, listed and removed; nothing but their hashes is kept."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.admin.mcp.token_changes import add_token
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.mcp.tokens import TokenFile, find_token

Run = Callable[..., Any]


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `mcp token` and returns what it prints; `code` is the exit code it must have."""

    def run(*arguments: str, code: int = 0) -> Any:
        assert main(["mcp", "token", *arguments, "--hermes-home", str(home), "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


def test_a_token_is_shown_once_and_kept_as_a_hash(home: Path, run: Run) -> None:
    made = run("add", "laptop", "--theme", "work", "--theme", "home", "--read-only")

    file = TokenFile(home)
    text = file.path.read_text(encoding="utf-8")
    assert made["token"] not in text
    assert sha256(made["token"].encode()).hexdigest() in text
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    (listed,) = run("list")
    assert listed == {key: made[key] for key in ("name", "themes", "any_theme", "read_only", "created_at")}
    assert (listed["themes"], listed["read_only"]) == (["work", "home"], True)


def test_tokens_are_unlike_each_other(home: Path, run: Run) -> None:
    secrets = [run("add", f"t{number}", "--any-theme")["token"] for number in range(3)]

    assert len(set(secrets)) == 3
    assert min(map(len, secrets)) >= 43  # 256 bits
    tokens = TokenFile(home).read()
    found = [find_token(tokens, secret) for secret in secrets]
    assert [token.name for token in found if token] == ["t0", "t1", "t2"]
    assert find_token(tokens, "") is None
    assert find_token(tokens, secrets[0] + "x") is None
    assert find_token(tokens, "\udce9") is None


def test_removing_is_tried_first_where_asked(home: Path, run: Run) -> None:
    run("add", "laptop", "--theme", "work")

    assert run("remove", "laptop", "--dry-run")["done"] is False
    assert len(run("list")) == 1
    assert run("remove", "laptop")["done"] is True
    assert run("list") == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["add", "a"], 2, "--theme"),
        (["add", "a", "--theme", "x", "--any-theme"], 2, "--theme"),
        (["add", "a", "--theme", " "], 1, "theme"),
        (["add", "a", "--theme", "*"], 1, "--any-theme"),
        (["add", "a", "--theme", "x", "--theme", "intraday-*"], 1, "intraday-*"),
        (["add", "a", "--theme", "x", "--theme", " @slack/default/1"], 1, "a messaging chat"),
        (["add", "a b", "--theme", "x"], 1, "name"),
        (["add", "taken", "--theme", "x"], 1, "already"),
        (["remove", "nobody"], 1, "taken"),
    ],
)
def test_what_is_wrong_is_said(run: Run, arguments: list[str], code: int, says: str) -> None:
    run("add", "taken", "--theme", "x")

    assert says in run(*arguments, code=code)["error"]
    assert len(run("list")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}",
        pytest.param('{"tokens": ' + "[" * 100_000, id="deep"), '{"tokens": [{}]}', '{"tokens": 1}',
        '{"tokens": [{"name": "a", "sha256": "short", "themes": ["x"], "read_only": false, "created": ""}]}',
        '{"tokens": [{"name": "a", "sha256": "%s", "themes": [], "read_only": false, "created": ""}]}' % ("0" * 64),
        '{"tokens": [{"name": "a", "sha256": "%s", "themes": ["x"], "read_only": "no", "created": ""}]}' % ("0" * 64),
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error_and_stays(home: Path, run: Run, text: str) -> None:
    file = TokenFile(home)
    file.path.parent.mkdir()
    file.path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigurationError, match=r"mcp-tokens\.json"):
        file.read()
    assert "mcp-tokens.json" in run("add", "a", "--theme", "x", code=1)["error"]
    assert file.path.read_text(encoding="utf-8") == text


def test_operators_at_once_lose_nothing(home: Path) -> None:
    def add(number: int) -> bool:
        try:
            add_token(home, f"t{number}", ["x"], read_only=False)
        except ConfigurationError as busy:
            assert "try again" in str(busy)
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        stored = sum(threads.map(add, range(24)))

    assert stored >= 1
    assert len(TokenFile(home).read()) == stored


@pytest.mark.parametrize("place", [1, 3])
def test_what_every_command_takes_may_stand_before_its_action(
    home: Path, place: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["mcp", "token", "list"]
    words[place:place] = ["--hermes-home", str(home), "--json"]

    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == []
