"""The entry that `mcp install` puts into the files of MCP clients, with all else in them kept."""

from __future__ import annotations

import json
import os
import shlex
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_memory_pgvector.admin.common.client_files import CLIENTS
from hermes_memory_pgvector.admin.doctor.check_home import check_clients
from hermes_memory_pgvector.cli import main

Install = Callable[..., dict[str, Any]]
FILES = {
    "claude-code": (".claude.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "hermes": ("hermes-home/config.yaml", "mcp_servers"),
}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of the user's, in which no client was ever started."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    for name in [name for name in os.environ if name.startswith("HERMES_PGVECTOR_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def run(user: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> Install:
    """Runs `mcp install` and returns what it prints; `code` is the exit code it must have."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        assert main(["mcp", "install", *arguments, "--hermes-home", str(home), "--json"]) == code
        told: dict[str, Any] = json.loads(capsys.readouterr().out)
        return told

    return run


def read(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return {".json": json.loads, ".toml": tomllib.loads, ".yaml": yaml.safe_load}[path.suffix](text)


def backups(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.*.bak"))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_has_no_file_gets_one(client: str, user: Path, home: Path, run: Install) -> None:
    name, table = FILES[client]

    done = run("--client", client, "--theme", "work", "--compat", "search-fetch")

    entry = read(user / name)[table]["pgvector"]
    assert (done["action"], done["changed"], done["backup"]) == ("added", True, None)
    assert entry == done["entry"]
    assert entry["args"][-5:] == ["mcp", "--theme", "work", "--compat", "search-fetch"]
    assert entry["env"] == {"HERMES_HOME": str(home)}
    assert os.access(entry["command"], os.X_OK) and Path(entry["command"]).is_absolute()


@pytest.mark.parametrize("client", CLIENTS)
def test_installing_again_changes_nothing(client: str, user: Path, run: Install) -> None:
    run("--client", client)
    path = user / FILES[client][0]
    before = (path.read_bytes(), path.stat().st_mtime_ns)

    assert run("--client", client)["action"] == "unchanged"

    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert backups(path) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_a_dry_run_writes_nothing(client: str, user: Path, run: Install) -> None:
    done = run("--client", client, "--dry-run")

    assert (done["action"], done["changed"]) == ("added", False)
    assert not (user / FILES[client][0]).exists()


CLAUDE = '{\n    "numStartups": 7,\n    "mcpServers": {\n        "other": {"command": "x", "args": ["ü", "\\ud800"]}\n    },\n    "projects": {"/a": {"allowed": []}}\n}'  # noqa: E501
CODEX = """# mine
model = "gpt-5"   # a note

[mcp_servers.other]
command = "x"
args = [
  "[not.a.table]",
]

[projects."/a"]
trust_level = "trusted"
"""
HERMES = """# mine
model: x   # a note
mcp_servers:
  other: {command: x}
memory:
  provider: pgvector
"""


@pytest.mark.parametrize(
    ("client", "text"), [("claude-code", CLAUDE), ("cursor", CLAUDE), ("codex", CODEX), ("hermes", HERMES)]
)
def test_everything_else_stays_and_what_it_was_is_kept(client: str, text: str, user: Path, run: Install) -> None:
    name, table = FILES[client]
    path = user / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o640)
    before = read(path)

    done = run("--client", client)

    after = read(path)
    assert after[table].pop("pgvector") == done["entry"]
    assert after == before
    assert list(after) == list(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [kept.read_text(encoding="utf-8") for kept in backups(path)] == [text]
    assert done["backup"] == str(backups(path)[0])
    assert stat.S_IMODE(backups(path)[0].stat().st_mode) == 0o600, "clients keep their keys in it"
    if client in ("codex", "hermes"):
        assert all(line in path.read_text(encoding="utf-8") for line in text.splitlines())


@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_of_ours_is_renewed_and_keeps_what_a_person_added(client: str, user: Path, run: Install) -> None:
    name, table = FILES[client]
    path = user / name
    run("--client", client, "--theme", "work")
    if client == "codex":
        text = path.read_text(encoding="utf-8")
        changed = text.replace(
            "\n\n[mcp_servers.pgvector.env]", "\nstartup_timeout_sec = 20\n\n[mcp_servers.pgvector.env]"
        )
        path.write_text(changed + 'EXTRA = "1"\n\n# what follows\n[tui]\ntheme = "x"\n', encoding="utf-8")
    else:
        whole = read(path)
        whole[table]["pgvector"] |= {"startup_timeout_sec": 20}
        whole[table]["pgvector"]["env"] |= {"EXTRA": "1"}
        path.write_text(json.dumps(whole) if path.suffix == ".json" else yaml.safe_dump(whole), encoding="utf-8")

    done = run("--client", client)

    entry = read(path)[table]["pgvector"]
    assert (done["action"], done["dropped"]) == ("renewed", ["--theme work"])
    assert entry["args"][-1] == "mcp"
    assert entry["startup_timeout_sec"] == 20
    assert entry["env"]["EXTRA"] == "1"
    assert len(backups(path)) == 1
    if client == "codex":
        assert read(path)["tui"] == {"theme": "x"}
        assert "# what follows\n[tui]" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("client", CLIENTS)
def test_another_server_of_that_name_is_left_alone(client: str, user: Path, run: Install) -> None:
    name, table = FILES[client]
    path = user / name
    path.parent.mkdir(exist_ok=True)
    other = {table: {"pgvector": {"command": "npx", "args": ["somebody-elses"]}}}
    toml = '[mcp_servers.pgvector]\ncommand = "npx"\nargs = ["somebody-elses"]\n'
    text = toml if path.suffix == ".toml" else json.dumps(other)
    path.write_text(text, encoding="utf-8")

    assert "--name" in run("--client", client, code=1)["error"]
    assert path.read_text(encoding="utf-8") == text

    run("--client", client, "--name", "memory")
    assert set(read(path)[table]) == {"pgvector", "memory"}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude-code", "{oops"),
        ("claude-code", "[1]"),
        ("claude-code", '{"mcpServers": []}'),
        ("claude-code", '{"a": 1, "a": 2}'),
        ("cursor", '{"mcpServers": {} // a note\n}'),
        ("codex", "model = \n"),
        ("codex", "mcp_servers = 1\n"),
        ("codex", 'mcp_servers = {other = {command = "x"}}\n'),
        ("hermes", "mcp_servers: [\n"),
        ("hermes", "mcp_servers: yes\n"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_left_as_it_is(
    client: str, text: str, user: Path, run: Install
) -> None:
    path = user / FILES[client][0]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")

    for more in ([], ["--dry-run"]):
        assert str(path) in run("--client", client, *more, code=1)["error"]
        assert path.read_text(encoding="utf-8") == text
        assert backups(path) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_need_22_what_a_person_added_to_an_entry_is_kept_and_not_shown(
    client: str, user: Path, home: Path, run: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    name, table = FILES[client]
    path = user / name
    run("--client", client, "--theme", "work")
    if client == "codex":
        path.write_text(path.read_text(encoding="utf-8") + 'API_KEY = "Xq7"\n', encoding="utf-8")
    else:
        whole = read(path)
        whole[table]["pgvector"]["env"] |= {"API_KEY": "Xq7"}
        path.write_text(json.dumps(whole) if path.suffix == ".json" else yaml.safe_dump(whole), encoding="utf-8")

    assert main(["mcp", "install", "--client", client, "--dry-run", "--hermes-home", str(home)]) == 0
    shown = capsys.readouterr().out
    done = run("--client", client)

    assert "API_KEY" in shown and "Xq7" not in shown
    assert done["entry"]["env"] == {"HERMES_HOME": str(home), "API_KEY": "***"}
    assert read(path)[table]["pgvector"]["env"]["API_KEY"] == "Xq7"


def test_need_22_advice_for_doing_it_by_hand_holds_no_key(home: Path, run: Install) -> None:
    entry = "{command: hermes-pgvector, args: [old], env: {HERMES_HOME: /old, API_KEY: Xq7}}"
    text = f"of_both: &both {entry}\nmcp_servers:\n  pgvector: *both\n"
    (home / "config.yaml").write_text(text, encoding="utf-8")

    said = run("--client", "hermes", code=1)["error"]

    assert f"HERMES_HOME: {home}" in said and "Xq7" not in said
    assert (home / "config.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("text", ["x:\n  api_key: Xq7: y\n", 'x:\n  api_key: "Xq7\n'])
def test_need_22_a_broken_file_is_named_without_its_contents(text: str, user: Path, home: Path, run: Install) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")

    said = run("--client", "hermes", code=1)["error"]

    assert "is not valid YAML (line" in said and "Xq7" not in said


def test_a_file_that_is_a_link_stays_one(user: Path, run: Install) -> None:
    kept = user / "dotfiles.json"
    kept.write_text("{}\n", encoding="utf-8")
    (user / ".claude.json").symlink_to(kept)

    run("--client", "claude-code")

    assert (user / ".claude.json").is_symlink()
    assert "pgvector" in read(kept)["mcpServers"]


@pytest.mark.parametrize(("client", "name"), [("claude-code", ".mcp.json"), ("cursor", ".cursor/mcp.json")])
def test_a_project_has_a_file_of_its_own(client: str, name: str, user: Path, run: Install) -> None:
    project = user / "project"
    project.mkdir()

    run("--client", client, "--project", str(project))

    assert "pgvector" in read(project / name)["mcpServers"]
    assert not (user / FILES[client][0]).exists()


def test_the_check_that_is_named_is_of_the_entry_that_was_made(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--client", "cursor", "--project", str(user), "--name", "memory"]
    assert main(["mcp", "check", *where, "--hermes-home", str(home)]) == 1
    assert f"mcp install {' '.join(where)}" in capsys.readouterr().err

    assert main(["mcp", "install", *where, "--hermes-home", str(home)]) == 0

    assert f"mcp check {' '.join(where)}\n" in capsys.readouterr().out


def test_an_entry_whose_theme_the_server_refuses_is_not_written(user: Path, home: Path, run: Install) -> None:
    (home / "config.yaml").write_text("plugins: {pgvector: {allowed_themes: [work]}}\n")
    assert "messaging chat" in run("--client", "cursor", "--theme", "@slack/default/x", code=1)["error"]
    assert "allowed_themes" in run("--client", "cursor", "--theme", "play", code=1)["error"]
    assert not (user / ".cursor").exists()
    assert run("--client", "cursor", "--theme", "work")["changed"]


@pytest.mark.parametrize(("named", "said"), [("projct", "there is no folder"), ("", "is empty")])
def test_no_folder_is_made_for_a_project_that_does_not_exist(
    named: str, said: str, user: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = str(user / named) if named else ""
    with pytest.raises(SystemExit) as stopped:
        main(["mcp", "install", "--client", "cursor", "--project", project, "--hermes-home", str(home)])

    assert stopped.value.code == 2 and said in capsys.readouterr().err
    assert not (user / "projct").exists() and not Path(".cursor").exists()


def test_codex_has_no_file_for_a_project(run: Install) -> None:
    assert "--project" in run("--client", "codex", "--project", ".", code=2)["error"]


def test_what_is_printed_can_be_put_into_the_files(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str], run: Install
) -> None:
    told = run("--client", "print")
    assert set(told) == set(CLIENTS)

    assert main(["mcp", "install", "--client", "print", "--hermes-home", str(home)]) == 0

    printed = capsys.readouterr().out
    toml = printed[printed.index("[mcp_servers.pgvector]") : printed.index("hermes: into")]
    assert tomllib.loads(toml)["mcp_servers"]["pgvector"] == told["codex"]["entry"]
    assert [path.name for path in user.iterdir()] == ["hermes-home"]


def test_settings_that_the_server_would_not_have_are_told(run: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", "384")

    assert run("--client", "cursor")["left_out"] == ["HERMES_PGVECTOR_DIMS"]


@pytest.mark.parametrize("client", CLIENTS)
def test_uninstall_names_the_entries_that_stay(
    client: str, user: Path, home: Path, run: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--client", client)

    assert main(["uninstall", "--hermes-home", str(home), "--json"]) == 0

    left = json.loads(capsys.readouterr().out)["left"]
    assert [str(user / FILES[client][0]) in each for each in left if "MCP" in each] == [True]
    assert [each.endswith(": remove that entry") for each in left if "MCP" in each] == [True]


@pytest.mark.parametrize("client", CLIENTS)
def test_doctor_names_an_entry_that_starts_nothing(client: str, user: Path, home: Path, run: Install) -> None:
    path = user / FILES[client][0]
    command = run("--client", client, "--theme", "my work", "--compat", "search-fetch")["entry"]["command"]
    assert list(check_clients(home)) == []

    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(command, "/nowhere/hermes-pgvector"), encoding="utf-8")

    (found,) = check_clients(home)
    assert (found.state, "/nowhere/hermes-pgvector" in found.said) == ("note", True)
    assert f"--client {client}" in found.fix
    again = run(*shlex.split(found.fix)[3:])
    assert again["entry"]["args"][-4:] == ["--theme", "my work", "--compat", "search-fetch"]
    assert (again["entry"]["command"], again["dropped"]) == (command, [])
    assert list(check_clients(user)) == []
    path.write_text("{oops", encoding="utf-8")
    assert list(check_clients(home)) == []
