"""No hint leads nowhere: every command in what we say exists, and no file is named that an installation lacks."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.commands import fill_all
from hermes_memory_pgvector.cli import command_line
from hermes_memory_pgvector.domain import commandline
from hermes_memory_pgvector.store.connection import explain

PACKAGE = Path(__file__).resolve().parents[2] / "pgvector"
_COMMAND = re.compile(r"hermes[ -]pgvector (?=[a-z{])")
_END = re.compile(r"[;,()`'\n]|\. |\.$|: | {2,}|#")  # where a command in a sentence is over
_VERB = re.compile(r"[a-z][a-z-]*")
_NOT_SHIPPED = re.compile(r"\b(?:docs|scripts)/\w")


class SessionTurns(NamedTuple):
    """A text of ours, `{}` standing for what is put in when it runs."""

    where: str
    text: str


def texts() -> Iterator[SessionTurns]:
    """Every text in the code that is no docstring, and every page and script that is shipped beside it."""
    for path in sorted(PACKAGE.rglob("*")):
        name = path.relative_to(PACKAGE).as_posix()
        if path.suffix in (".sql", ".md"):
            yield SessionTurns(name, path.read_text(encoding="utf-8"))
        if path.suffix != ".py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        silent = set(docstrings(tree))
        parts = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                whole = "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
                yield SessionTurns(f"{name}:{node.lineno}", whole)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent | parts:
                yield SessionTurns(f"{name}:{node.lineno}", node.value)


def docstrings(tree: ast.Module) -> Iterator[int]:
    """The docstrings, but for those of exceptions, which are their messages."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_error = isinstance(node, ast.ClassDef) and any("Error" in ast.unparse(base) for base in node.bases)
        if node.body and isinstance(node.body[0], ast.Expr) and not is_error:
            yield id(node.body[0].value)


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each command of ours in a text."""
    for match in _COMMAND.finditer(text):
        rest = text[match.end() :]
        end = _END.search(re.sub(r'"[^"\n]*"', lambda found: "x" * len(found[0]), rest))
        words = rest[: end.start() if end else None].split()
        if words and _VERB.fullmatch(words[0]):
            yield words


@cache
def whole_parser() -> argparse.ArgumentParser:
    """The real command line."""
    whole = command_line()
    fill_all(whole)
    return whole


def problem_with(words: list[str]) -> str:
    """Why our command line would not know these words; empty where it would."""
    parser = whole_parser()
    for depth, word in enumerate(words):
        actions = next((each for each in parser._actions if isinstance(each, argparse._SubParsersAction)), None)
        if actions is None:
            break
        if word not in actions.choices:
            return f"there is no {' '.join(words[: depth + 1])}" if _VERB.fullmatch(word) else ""
        parser = actions.choices[word]
    known = set(parser._option_string_actions)
    options = [word.removesuffix("{}").rstrip(".") for word in words if word.startswith("--")]
    unknown = [option for option in options if option not in known]
    return f"{words[0]} has no {', '.join(unknown)}" if unknown else ""


def test_need_40_every_command_that_is_named_exists() -> None:
    found = [(said.where, words) for said in texts() for words in commands_in(said.text)]
    assert len(found) > 150, "the commands in our texts are not found any more"
    assert [f"{where}: {why}" for where, words in found if (why := problem_with(words))] == []


def test_need_40_no_file_is_named_that_an_installation_lacks() -> None:
    assert [said for said in texts() if _NOT_SHIPPED.search(said.text)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("see: hermes-pgvector themes list", ["themes", "list"]),
        ("run `hermes-pgvector install --force` to replace it", ["install", "--force"]),
        ("hermes-pgvector model choose; or set it", ["model", "choose"]),
        ("hermes pgvector reembed --url {} --yes", ["reembed", "--url", "{}", "--yes"]),
        ("hermes-pgvector: memory is off", None),
    ],
)
def test_commands_are_found_in_sentences(text: str, words: list[str] | None) -> None:
    assert next(commands_in(text), None) == words


def test_a_command_that_does_not_exist_is_found() -> None:
    assert problem_with(["themes", "lisst"]) and problem_with(["doctor", "--fixx"]) and problem_with(["nonsense"])


def test_need_40_where_only_hermes_is_on_the_path_hints_name_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hermes = tmp_path / "hermes"
    hermes.write_text("#!/bin/sh\n")
    hermes.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    commandline.own_command.cache_clear()
    try:
        assert commandline.typed("see: hermes-pgvector spool list") == "see: hermes pgvector spool list"
        assert commandline.typed("hermes-pgvector: memory is off") == "hermes-pgvector: memory is off"
    finally:
        commandline.own_command.cache_clear()


def test_need_40_a_socket_that_this_user_may_not_open_is_no_matter_of_the_roles_rights() -> None:
    refused = 'connection to server on socket "/run/pg/.s.PGSQL.5432" failed: Permission denied'

    assert "the directory of that socket" in explain(psycopg.OperationalError(refused))
    assert "the directory of that socket" not in explain(psycopg.OperationalError("permission denied for table x"))


def test_need_02_where_no_name_server_answers_the_network_is_named_before_the_host() -> None:
    # Also what Docker's says of a service that is not there.
    for said in (
        "failed to resolve host 'db.example.com': [Errno -3] Temporary failure in name resolution",
        'could not translate host name "db.example.com" to address: Temporary failure in name resolution',
    ):
        told = explain(psycopg.OperationalError(said))
        assert told.endswith("check this machine's network, and whether it knows the host in `dsn`")
    unknown = "failed to resolve host 'db.example.com': [Errno -2] Name or service not known"
    assert explain(psycopg.OperationalError(unknown)).endswith("correct the host in `dsn`")
