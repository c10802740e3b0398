"""What the command line says to somebody who mistypes."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.admin.common.commands import EXIT_USAGE


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("them", "there is no command 'them'; did you mean: themes?"),
        ("exprot", "there is no command 'exprot'; did you mean: export?"),
        ("quux", "there is no command 'quux', only setup, install,"),
        ("themes renam a b", "themes: error: there is no action 'renam'; did you mean: rename?"),
        ("sessions", "sessions: error: say what to do: list, show"),
        ("setup nonsense", "hermes-pgvector setup: error: unknown arguments: nonsense"),
        ("migrate postgresql://me:geheim@db/x", "unknown arguments: postgresql://me:***@db/x"),
        ("themes log --limit 0", "--limit: write a whole number, 1 or more"),
        ("compact --all-themes --similar much", "--similar: write a number from 0.5 to 1"),
        ("compact --all-themes --sample many", "--sample: write a whole number from 0 to 10000"),
        ("facts review --accept-above nan", "--accept-above: write a number from 0 to 1"),
        ("prune --theme x --keep-rows many", "--keep-rows: write a whole number, 1 or more"),
        ("prune --theme x --keep-rows 9999999999999999999", "write a whole number, 1 or more, of at most 18 digits"),
        ("list --offset -1", "--offset: write a whole number, 0 or more"),
        ("sessions show s-1 --offset 9999999999999999999", "a whole number, 0 or more, of at most 18 digits"),
        ("sessions show s-1 --limit 0", "--limit: write a whole number, 1 or more"),
        ("add x --source-turn m12", "--source-turn: 'm12' names no turn; write t123"),
        ("edit m12 --replaces t3", "--replaces: 't3' names no memory; write m123"),
        ("add x --confidence nan", "--confidence: write a number from 0 to 1"),
    ],
)
def test_what_was_mistyped_is_told_with_what_was_probably_meant(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(line.split())
    printed = capsys.readouterr()
    assert stopped.value.code == EXIT_USAGE
    assert said in printed.err and not printed.out


def test_a_wrong_option_under_the_host_prints_the_usage_of_the_command_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    host = argparse.ArgumentParser(prog="hermes")
    host.add_argument("--oneshot")
    cli.register_cli(host.add_subparsers().add_parser("pgvector"))

    with pytest.raises(SystemExit) as stopped:
        host.parse_args(["pgvector", "status", "--fast"])

    said = capsys.readouterr().err
    assert stopped.value.code == EXIT_USAGE
    assert said.startswith("usage: hermes pgvector status [-h]") and "unknown arguments: --fast" in said
    assert "--oneshot" not in said


def test_help_shows_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])

    shown = capsys.readouterr().out
    places = [shown.index(f"\n  {heading}:\n") for heading in cli.command_groups()]
    assert places == sorted(places) and next(iter(cli.command_groups())) == "set up"
    for heading, commands in cli.command_groups().items():
        part = shown[shown.index(f"\n  {heading}:\n") :]
        assert all(f"\n    {command.name}" in part for command in commands)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("status --fast --json", "unknown arguments: --fast"),
        ("statu --json", "there is no command 'statu'; did you mean: status?"),
        ("themes log --json --limit 0", "argument --limit: write a whole number, 1 or more"),
    ],
)
def test_what_was_mistyped_is_json_too(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(line.split())

    assert stopped.value.code == EXIT_USAGE
    assert json.loads(capsys.readouterr().out) == {"error": said, "type": "WrongUsage"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("prune", "say of which themes: --theme THEME, which may be repeated, or --all-themes"),
        ("compact --all-themes --summary-url http://x --vacuum", "--summary-url replaces sessions and nothing else"),
        ("prune --theme a --all-themes --older-than 1d", "give --theme or --all-themes, not both"),
        ("add x --metadata {ticket:1}", "--metadata '{ticket:1}' is neither KEY=VALUE nor a JSON object"),
        ("search ?", ""),
    ],
)
def test_an_error_with_json_is_one_object_on_stdout(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("plugins: {pgvector: {dsn: 'host=/nowhere dbname=x'}}")

    code = cli.main([*line.split(), "--json", "--hermes-home", str(tmp_path)])

    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert set(told) == {"error", "type"} and f"error: {told['error']}" in printed.err
    assert told["error"].startswith(said)
    assert (code, told["type"]) == ((EXIT_USAGE, "WrongUsage") if said else (1, "StoreUnavailable"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tenants list", "add --admin-dsn DSN"),
        ("index drop --yes", "add --admin-dsn DSN"),
        ("reembed --abort", "add --admin-dsn DSN"),
        ("compact --all-themes --vacuum --yes", "add --admin-dsn DSN"),
        ("migrate --confirm-upgrade", "add --admin-dsn DSN"),
        ("migrate --undo-upgrade", "add --admin-dsn DSN"),
        ("migrate --distribute", "add --admin-dsn DSN"),
        ("migrate --runtime-role hermes", "--runtime-role needs --admin-dsn"),
        ("migrate --dims 2001", "--dims must be 1 to 2000"),
        ("reembed --model other", "add --url URL"),
    ],
)
def test_an_option_that_is_lacking_is_wrong_usage_in_every_command(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMES_PGVECTOR_ADMIN_DSN", raising=False)
    (tmp_path / "config.yaml").write_text("plugins: {pgvector: {dsn: 'host=/nowhere dbname=x'}}")

    code = cli.main([*line.split(), "--hermes-home", str(tmp_path)])

    assert said in capsys.readouterr().err
    assert code == EXIT_USAGE


def test_help_that_nobody_reads_to_its_end_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=150) == 0


@pytest.mark.parametrize("line", ["doctor", "doctor --json", "--version", "completion bash"])
def test_an_output_without_room_is_told_in_one_line(line: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text('plugins:\n  pgvector:\n    dsn: "host=127.0.0.1 port=1 dbname=x"\n')
    command = [sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", *line.split()]
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environ, text=True, check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("line", ["list", "export", "doctor", "uninstall --data --yes", "search anything", "mcp"])
def test_a_home_that_is_not_there_is_not_made(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped directory would get a Postgres of its own, without any memory."""
    mistyped = tmp_path / "hremes"
    assert cli.main([*line.split(), "--hermes-home", str(mistyped)]) == EXIT_USAGE
    said = capsys.readouterr()
    assert f"--hermes-home {mistyped}: there is no such directory" in said.err and not said.out
    monkeypatch.setenv("HERMES_HOME", str(mistyped))
    assert cli.main(line.split()) == EXIT_USAGE
    said = capsys.readouterr()
    assert f"HERMES_HOME={mistyped}: there is no such directory" in said.err and not said.out
    assert not mistyped.exists()


@pytest.mark.parametrize("line", ["list", "export", "doctor", "prune --all-themes --older-than 30d", "mcp token list"])
def test_need_40_where_nobody_named_a_home_none_is_made_either(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with sudo, or in another user's crontab: an export of that would be one of nothing, and look like a backup."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_HOME")
    assert cli.main(line.split()) == EXIT_USAGE
    said = capsys.readouterr()
    assert f"{tmp_path / '.hermes'}: there is no such directory" in said.err and not said.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "dsn", "told"),
    [
        ("list", "host=127.0.0.1 port=1 dbname=x", "Connection refused"),
        ("mcp --theme @slack/x", "", "the theme of a messaging chat"),
    ],
)
def test_without_a_home_a_named_database_is_asked_and_clients_are_served(
    line: str, dsn: str, told: str, tmp_path: Path
) -> None:
    environ = {**os.environ, "HOME": str(tmp_path), "HERMES_HOME": "", "HERMES_PGVECTOR_DSN": dsn}
    command = [sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", *line.split()]
    done = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=150, check=False
    )
    assert told in done.stderr


def keep_to_permissions() -> None:
    """Make root, in a program that it starts, heed the permissions of files as everybody else does."""
    if os.geteuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.parametrize("named", [True, False], ids=["named", "default"])
def test_a_home_that_may_not_be_looked_at_is_not_taken_for_a_missing_one(named: bool, tmp_path: Path) -> None:
    """As with `su` to another account that keeps HOME."""
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0)
    environ = {**os.environ, "HOME": str(theirs), "HERMES_HOME": str(theirs / ".hermes") if named else ""}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", "list"],
        env=environ, preexec_fn=keep_to_permissions, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert f"{theirs}/.hermes/config.yaml cannot be read (Permission denied)" in done.stderr


@pytest.mark.parametrize("line", ["setup --yes", "install", "list"])
def test_a_tilde_that_no_shell_replaced_makes_no_home(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image or a unit of systemd: hermes takes it for a folder of that name, in the one it is started in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERMES_HOME", "~/.hermes")
    assert cli.main(line.split()) == EXIT_USAGE
    assert "HERMES_HOME=~/.hermes: hermes replaces no ~ there; write the whole path" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_home_that_is_empty_text_is_not_the_folder_one_is_in(capsys: pytest.CaptureFixture[str]) -> None:
    """As of an unset variable of the shell."""
    with pytest.raises(SystemExit):
        cli.main(["list", "--hermes-home", ""])
    assert "is empty; leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["missing", "cut short"])
@pytest.mark.parametrize("module", ["domain/commandline", "domain/errors", "admin/common/commands", "store/pool"])
def test_need_21_a_damaged_package_names_the_command_that_makes_it_whole(tmp_path: Path, module: str, how: str) -> None:
    """As after an upgrade that was killed or met a full disk."""
    package = shutil.copytree(Path(cli.__file__).parent, tmp_path / "hermes_memory_pgvector")
    damaged = package / f"{module}.py"
    if how == "missing":
        damaged.unlink()
    else:
        damaged.write_text(damaged.read_text()[:300] + "\ndef main(")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", "list", "--json"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "HERMES_HOME": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    for said in (done.stderr, json.loads(done.stdout)["error"]):
        assert "this package is damaged" in said and "install --force-reinstall" in said
