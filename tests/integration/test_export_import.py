"""export and import: everything there and back, once, whatever happens on the way."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.admin.transfer.export import ExportRequest, export
from hermes_memory_pgvector.domain.theme import ThemeRules
from hermes_memory_pgvector.store.pool import connect
from tests.conftest import MakeProvider
from tests.support.forked_cli import ForkedCli
from tests.support.memory import called, landed, write_entries
from tests.support.records import all_rows, fill_theme
from tests.support.spread import spread
from tests.support.stored import Database

from .conftest import DIMS, command_environment

MODEL = "test-model"


@pytest.fixture
def configure(home: Path) -> Callable[..., None]:
    """Writes the home's configuration for a database."""

    def write(dsn: str, **settings: object) -> None:
        section = {"dsn": dsn, "dims": DIMS} | settings
        (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))

    return write


@pytest.fixture
def cli_process(home: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Runs `hermes-pgvector ARGUMENTS` in a process of its own, with `data` on stdin."""

    def run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        pipe = subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
        with ForkedCli(*arguments, folder=tmp_path, environment=command_environment(home), **streams) as command:
            out, err = command.communicate(data, timeout=150)
        return subprocess.CompletedProcess(arguments, command.returncode, out, err)

    return run


@pytest.fixture
def both(configure: Callable[..., None], dsn: str, second_dsn: str) -> Callable[[bool], None]:
    """Puts the one or the other database into use."""

    def use(first: bool) -> None:
        configure(dsn if first else second_dsn)

    return use


Both = Callable[[bool], None]


def lines_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
def test_need_16_what_is_exported_comes_back_as_it_was(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales", dims=DIMS, model=MODEL)
    fill_theme(dsn, "@telegram/default/e2a530e251d36750", dims=DIMS)
    out = tmp_path / name
    both(True)
    assert cli.main(["export", str(out), "--vectors"]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600 and list(tmp_path.glob("*.part")) == []
    assert (out.read_bytes()[:2] == b"\x1f\x8b") is name.endswith(".gz")
    lines = lines_of(out)
    assert lines[0]["format"] == "hermes-memory-pgvector" and lines[0]["model"] == MODEL and lines[0]["dims"] == DIMS
    assert lines[-1]["end"] is True and (lines[-1]["memories"], lines[-1]["turns"]) == (4, 8)
    with psycopg.connect(second_dsn) as conn:
        conn.execute("UPDATE hermes_embedding SET model = %s", (MODEL,))
    both(False)
    assert cli.main(["import", str(out), "--dry-run"]) == 0
    assert all_rows(second_dsn) == []
    assert cli.main(["import", str(out)]) == 0
    assert all_rows(second_dsn, vectors=True) == all_rows(dsn, vectors=True)
    assert Database(second_dsn).column("SELECT count(*) FROM conversations WHERE sig IS NULL") == [0]
    assert set(Database(second_dsn).column("SELECT who ->> 'verb' FROM memory_history")) == {"import"}
    capsys.readouterr()
    assert cli.main(["import", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["memories_added"], again["turns_added"], again["memories_there"], again["turns_there"]) == (
        0,
        0,
        4,
        8,
    )
    assert all_rows(second_dsn, vectors=True) == all_rows(dsn, vectors=True)


def test_need_16_vectors_of_another_model_are_left_out_and_the_texts_wait(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales", dims=DIMS, model=MODEL)
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out), "--vectors"]) == 0
    with psycopg.connect(second_dsn) as conn:
        conn.execute("UPDATE hermes_embedding SET model = 'another'")
    both(False)
    assert cli.main(["import", str(out)]) == 0
    assert "backfill" in capsys.readouterr().err
    assert all_rows(second_dsn) == all_rows(dsn)
    assert Database(second_dsn).column("SELECT count(*) FROM conversations WHERE embedding IS NOT NULL") == [0]


def test_need_18_an_empty_database_takes_the_vectors_of_the_model_that_the_settings_name(
    both: Both, configure: Callable[..., None], dsn: str, second_dsn: str, tmp_path: Path
) -> None:
    fill_theme(dsn, "sales", dims=DIMS, model=MODEL)
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out), "--vectors"]) == 0
    configure(second_dsn, embed_url="http://127.0.0.1:9", embed_model=MODEL)
    assert cli.main(["import", str(out)]) == 0
    assert all_rows(second_dsn, vectors=True) == all_rows(dsn, vectors=True)
    assert Database(second_dsn).column("SELECT model FROM hermes_embedding") == [MODEL]


def test_need_40_an_import_that_lacks_rows_that_postgres_refused_does_not_end_as_done(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that moves a memory and then deletes the old one looks at the exit code."""
    fill_theme(dsn, "sales")
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    with psycopg.connect(make_conninfo(second_dsn, user="postgres")) as admin:
        admin.execute("ALTER TABLE conversations ADD CHECK (content NOT LIKE '%turn 2%')")
    both(False)
    capsys.readouterr()
    assert cli.main(["import", str(out), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["turns_added"], told["memories_added"], told["refused"]) == (3, 2, 1), told
    assert any("Postgres refuses it" in reason for reason in told["skipped"])


def test_need_16_a_dash_is_stdout_as_it_is_stdin_for_import(
    configure: Callable[..., None],
    cli_process: Callable[..., subprocess.CompletedProcess[bytes]],
    dsn: str,
    tmp_path: Path,
) -> None:
    configure(dsn)
    done = cli_process("export", "-")
    assert done.returncode == 0 and done.stdout.startswith(b'{"format":"hermes-memory-pgvector"'), done.stderr
    assert not (tmp_path / "-").exists()


def test_need_16_an_export_can_be_narrowed_by_theme_and_time(
    both: Both, dsn: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    fill_theme(dsn, "sales", turns=6)
    fill_theme(dsn, "marketing", prefix="Secret")
    both(True)
    out = tmp_path / "sales.jsonl"
    assert cli.main(["export", str(out), "--theme", " Sales ", "--since", "2025-03-01T10:00:00+00:00"]) == 0
    lines = lines_of(out)
    assert {line["theme"] for line in lines[1:-1]} == {"sales"} and "Secret" not in out.read_text()
    assert lines[-1]["turns"] == 4 and lines[-1]["memories"] == 2
    capsysbinary.readouterr()
    assert cli.main(["export", "--theme", "sales", "--until", "2025-03-01"]) == 0
    streamed = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert streamed[-1]["turns"] == 6 and streamed[-1]["memories"] == 0
    assert cli.main(["export", str(out)]) == 1
    assert b"exists" in capsysbinary.readouterr().err
    assert cli.main(["export", str(tmp_path / "none.jsonl"), "--theme", "nobody"]) == 1
    assert not (tmp_path / "none.jsonl").exists()


def test_need_16_themes_can_be_picked_and_renamed_on_the_way_in(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    fill_theme(dsn, "marketing")
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    both(False)
    assert cli.main(["import", str(out), "--theme", "sales", "--rename", "sales=EMEA  Sales"]) == 0
    assert Database(second_dsn).column("SELECT DISTINCT agent_identity FROM conversations") == ["emea sales"]
    assert cli.main(["import", str(out), "--rename", "sales"]) == 2
    assert cli.main(["import", str(out), "--rename", "sales=emea", "--rename", "sales=apac"]) == 2
    assert "two names, 'emea' and 'apac'" in capsys.readouterr().err
    assert cli.main(["import", str(out), "--rename", "Sales=apac", "--rename", "sales=emea"]) == 0
    assert cli.main(["import", str(out), "--rename", "sales=emea", "--rename", "sales=emea"]) == 0
    themes = Database(second_dsn).column("SELECT DISTINCT agent_identity FROM conversations ORDER BY 1")
    assert themes == ["emea", "emea sales", "marketing"]


def test_need_40_a_dry_run_counts_once_what_two_themes_of_the_file_hold(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "marketing", memories=0, turns=600)  # more than a batch lies between the two
    with psycopg.connect(dsn) as conn:
        for theme in ("marketing", "sales"):
            conn.execute(
                "INSERT INTO memory_entries (agent_identity, target, content) VALUES (%s, 'memory', 'Atlas is blue')",
                (theme,),
            )
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    both(False)
    capsys.readouterr()
    told = []
    for more in (["--dry-run"], [], ["--dry-run"]):
        assert cli.main(["import", str(out), "--rename", "marketing=sales", "--json", *more]) == 0
        counts = json.loads(capsys.readouterr().out)
        told.append([counts[name] for name in ("memories_added", "memories_there", "turns_added", "turns_there")])
    assert told == [[1, 1, 600, 0], [1, 1, 600, 0], [0, 2, 0, 600]]


def test_need_16_themes_that_removed_the_same_text_can_be_put_together(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path
) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO hermes_tombstones (agent_identity, target, digest, removed_at) VALUES"
            " ('marketing', 'memory', hermes_digest('Bolt is red'), '2025-02-01'),"
            " ('sales', 'memory', hermes_digest('Bolt is red'), '2025-01-01')"
        )
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    both(False)
    assert cli.main(["import", str(out), "--rename", "marketing=sales"]) == 0
    removed = "SELECT agent_identity || ' ' || (removed_at AT TIME ZONE 'UTC')::date FROM hermes_tombstones"
    assert Database(second_dsn).column(removed) == ["sales 2025-02-01"]


@pytest.mark.parametrize("asked", [("--rename", "Salse=emea"), ("--theme", "Salse"), ("--theme", "salse", "--dry-run")])
def test_need_16_a_theme_that_the_file_does_not_hold_brings_nothing_in(
    asked: tuple[str, ...], both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    both(False)
    capsys.readouterr()
    assert cli.main(["import", str(out), *asked]) == 1
    assert "it holds: 'sales'; nothing of it was taken in" in capsys.readouterr().err
    assert all_rows(second_dsn) == []
    assert cli.main(["import", str(out), "--rename", "Sales=emea"]) == 0
    assert Database(second_dsn).column("SELECT DISTINCT agent_identity FROM conversations") == ["emea"]


def test_need_16_of_joined_exports_the_first_comes_in_and_the_rest_is_told(
    both: Both, dsn: str, second_dsn: str, cli_process: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    fill_theme(dsn, "sales", turns=6)
    both(True)
    exported = cli_process("export").stdout
    both(False)
    joined = cli_process("import", "-", data=exported + exported)
    assert joined.returncode == 1 and b"imported one by one" in joined.stderr
    assert all_rows(second_dsn) == all_rows(dsn)
    absent = cli_process("import", "-", "--theme", "salse", data=exported)
    assert absent.returncode == 1 and b"no theme 'salse'" in absent.stderr


def test_need_16_what_was_renamed_or_merged_since_is_not_doubled(
    both: Both, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    fill_theme(dsn, "team")
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    for change in (["rename", "sales", "emea"], ["merge", "emea", "team"]):
        assert cli.main(["themes", *change, "--yes", "--admin-dsn", dsn]) == 0
    before = all_rows(dsn)
    capsys.readouterr()

    assert cli.main(["import", str(out), "--json"]) == 0

    done = json.loads(capsys.readouterr().out)
    assert (done["memories_added"], done["turns_added"]) == (0, 0)
    assert all_rows(dsn) == before


def test_need_44_an_export_comes_back_once_where_the_tables_are_spread(
    both: Both, dsn: str, admin_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales", dims=DIMS, model=MODEL)
    fill_theme(dsn, "team")
    before = all_rows(dsn, vectors=True)
    spread(admin_dsn)
    both(True)
    out = tmp_path / "all.jsonl"
    assert cli.main(["export", str(out), "--vectors"]) == 0
    with psycopg.connect(admin_dsn) as conn:
        conn.execute("DELETE FROM conversations")
        conn.execute("DELETE FROM memory_entries")

    def brought_in() -> tuple[int, int]:
        capsys.readouterr()
        assert cli.main(["import", str(out), "--json"]) == 0
        done = json.loads(capsys.readouterr().out)
        return done["memories_added"], done["turns_added"]

    assert brought_in() == (4, 8)
    assert all_rows(dsn, vectors=True) == before
    assert brought_in() == (0, 0)
    assert cli.main(["themes", "rename", "sales", "emea", "--yes", "--admin-dsn", admin_dsn]) == 0
    assert brought_in() == (0, 0)


def test_need_16_what_was_put_away_each_year_under_another_name_is_not_doubled(
    both: Both, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name is used again, and its rows are in several themes by now."""
    out = tmp_path / "all.jsonl"
    both(True)
    for year, prefix in (("2024", "Atlas"), ("2025", "Bolt")):
        fill_theme(dsn, "sales", prefix=prefix)
        assert cli.main(["export", str(out.with_name(year)), "--theme", "sales"]) == 0
        assert cli.main(["themes", "rename", "sales", f"sales-{year}", "--yes"]) == 0
    assert cli.main(["themes", "rename", "sales-2024", "archive", "--yes"]) == 0
    before = all_rows(dsn)
    for year in ("2024", "2025"):
        for options in (["--dry-run"], []):
            capsys.readouterr()

            assert cli.main(["import", str(out.with_name(year)), "--json", *options]) == 0

            done = json.loads(capsys.readouterr().out)
            assert (done["memories_added"], done["turns_added"]) == (0, 0)
    assert all_rows(dsn) == before


def test_need_40_a_theme_that_holds_rows_again_under_its_old_name_is_told(
    both: Both, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    assert cli.main(["themes", "rename", "sales", "emea", "--yes"]) == 0
    capsys.readouterr()
    assert cli.main(["import", str(out)]) == 0
    assert "renamed" not in capsys.readouterr().err, "everything is there already"
    assert cli.main(["prune", "--theme", "emea", "--role", "assistant", "--yes"]) == 0
    assert cli.main(["import", str(out), "--dry-run"]) == 0
    assert "'sales' was renamed to 'emea' here, or merged into it, and would hold rows" in capsys.readouterr().err

    assert cli.main(["import", str(out)]) == 0

    (said,) = (line for line in capsys.readouterr().err.splitlines() if "'sales' was renamed to 'emea'" in line)
    assert said.endswith("hermes-pgvector themes merge sales emea")
    assert cli.main([*said.rpartition("hermes-pgvector ")[2].split(), "--yes"]) == 0
    assert {row[1] for row in all_rows(dsn)} == {"emea"}


def test_need_22_what_comes_in_is_masked_and_cleaned(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "INSERT INTO conversations (session_id, agent_identity, role, content) "
            "VALUES ('s', 'sales', 'user', 'the password = hunter2hunter2 as always')"
        )
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    both(False)
    assert cli.main(["import", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["masked"] == 1
    (content,) = Database(second_dsn).column("SELECT content FROM conversations")
    assert "hunter2" not in content and "[masked-" in content


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda data: data[: data.rindex(b"{")], "cut off"),
        (lambda data: data.replace(b"turn 2", b"turn 7"), "checksum"),
        (lambda data: data + b'{"store":"turns"}\n', "after its last line"),
        (lambda data: data.replace(b'"version":1', b'"version":7'), "version 7"),
        (lambda data: b"hello\n" + data, "no header"),
        (lambda data: b"", "it is empty; `hermes backup` does not export a server that `dsn` names"),
        (lambda data: gzip.compress(data)[:-20], "decompressed"),
        (lambda data: b"\x1f\x8bgarbage" + data, "decompressed"),
    ],
    ids=["cut in half", "no trailer", "changed", "more after", "newer", "other file", "empty", "short gz", "bad gz"],
)
def test_need_16_a_damaged_file_is_refused_and_nothing_of_it_is_taken_in(
    both: Both,
    dsn: str,
    second_dsn: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[bytes], bytes],
    said: str,
) -> None:
    fill_theme(dsn, "sales")
    out, bad = tmp_path / "all.jsonl", tmp_path / "bad.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    bad.write_bytes(damage(out.read_bytes()))
    both(False)
    capsys.readouterr()
    assert cli.main(["import", str(bad)]) == 1
    assert said in capsys.readouterr().err
    assert all_rows(second_dsn) == []


def test_need_16_lines_that_cannot_be_read_are_named_and_the_others_taken_in(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    out, bad = tmp_path / "all.jsonl", tmp_path / "bad.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    lines = out.read_bytes().splitlines(keepends=True)
    odd = [
        b"not json\n",
        b'{"store":"turns","theme":"sales"}\n',
        b'{"store":"dreams","theme":"sales"}\n',
        json.dumps(
            {
                "store": "turns", "theme": "sales", "session_id": "s-9", "role": "oracle", "content": "x",
                "ts": "2025-01-01T00:00:00+00:00",
            }
        ).encode() + b"\n",
        json.dumps(
            {
                "store": "turns", "theme": "sales", "session_id": "s-9", "role": "user", "content": "mood kept",
                "ts": "2025-01-01T00:00:00+00:00", "mood": "calm",
            }
        ).encode() + b"\n",
    ]  # fmt: skip
    bad.write_bytes(b"".join([*lines[:3], *odd, *lines[3:]]))
    both(False)
    capsys.readouterr()
    assert cli.main(["import", str(bad)]) == 1 and all_rows(second_dsn) == []
    assert cli.main(["import", str(bad), "--salvage", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["malformed"] == 3 and "checksum" in told["damage"]
    assert any(example.startswith("line 4: ") for example in told["examples"])
    assert any("line 7" in example and "role" in example for example in told["examples"])
    assert [row for row in all_rows(second_dsn) if row[4] != "mood kept"] == all_rows(dsn)
    assert Database(second_dsn).column("SELECT metadata ->> 'mood' FROM conversations WHERE session_id = 's-9'") == [
        "calm"
    ]


def test_trap_05_what_was_removed_since_stays_removed_unless_it_is_asked_back(
    both: Both, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    out = tmp_path / "all.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "WITH gone AS (DELETE FROM memory_entries WHERE target = 'user' RETURNING agent_identity, target, digest) "
            "INSERT INTO hermes_tombstones SELECT * FROM gone"
        )
    capsys.readouterr()
    assert cli.main(["import", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["skipped"] == {"removed since it was written": 1} and told["memories_added"] == 0
    assert cli.main(["import", str(out), "--dry-run"]) == 0
    assert "--restore" in capsys.readouterr().out
    assert cli.main(["import", str(out), "--restore"]) == 0
    assert "--restore" not in capsys.readouterr().out
    assert len(Database(dsn).column("SELECT id FROM memory_entries")) == 2
    assert Database(dsn).column("SELECT count(*) FROM hermes_tombstones") == [0]


def test_need_31_what_is_asked_back_stays_without_its_line_however_often_it_was_imported(
    both: Both, home: Path, dsn: str, tmp_path: Path, make_provider: MakeProvider
) -> None:
    profile = {"platform": "cli", "gateway_session_key": ""}
    file = write_entries(home, "Invoices go to Bert.")
    landed(make_provider(**profile))
    out = str(tmp_path / "all.jsonl")
    both(True)
    for command in (["export", out], ["forget", "m1", "--yes"], ["import", out, "--restore"]):
        assert cli.main(command) == 0
    whole = "SELECT to_jsonb(m)::text FROM memory_entries AS m"
    before = Database(dsn).column(whole)
    assert cli.main(["import", out, "--restore"]) == 0
    assert Database(dsn).column(whole) == before
    file.write_text("Releases happen on Thursdays.", encoding="utf-8")
    landed(make_provider(**profile))
    held = Database(dsn).column("SELECT content FROM memory_entries ORDER BY content")
    assert held == ["Invoices go to Bert.", "Releases happen on Thursdays."]


def test_need_16_what_a_memory_file_kept_goes_with_its_entry_after_an_import(
    both: Both, home: Path, second_dsn: str, tmp_path: Path, make_provider: MakeProvider
) -> None:
    """As after a backup was restored, or on another machine to which the home has moved."""
    profile = {"platform": "cli", "gateway_session_key": "", "agent_identity": "default"}
    file = home / "memories" / "MEMORY.md"
    file.parent.mkdir()
    file.write_text("Invoices go to Bert.\n§\nReleases happen on Thursdays.", encoding="utf-8")
    before = make_provider({"tools": ["remember"]}, **profile)
    called(before, "remember", {"content": "Releases happen on Thursdays.", "sync": True})
    landed(before)
    before.shutdown()
    both(True)
    assert cli.main(["export", str(tmp_path / "all.jsonl")]) == 0
    both(False)
    for _ in range(2):  # the second run as after one that was killed
        assert cli.main(["import", str(tmp_path / "all.jsonl")]) == 0
    landed(make_provider({"dsn": second_dsn}, **profile))
    file.write_text("Invoices go to Anna.", encoding="utf-8")
    landed(make_provider({"dsn": second_dsn}, **profile))
    held = Database(second_dsn).column("SELECT content FROM memory_entries ORDER BY content")
    assert held == ["Invoices go to Anna.", "Releases happen on Thursdays."]
    assert cli.main(["import", str(tmp_path / "all.jsonl"), "--rename", "default=elsewhere"]) == 0
    owners = "SELECT DISTINCT owners FROM memory_entries WHERE agent_identity = 'elsewhere'"
    assert Database(second_dsn).column(owners) == [["import"]], "nobody reads that file there"


def test_need_16_a_stream_goes_from_one_home_to_another_and_a_cut_one_is_told(
    both: Both, dsn: str, second_dsn: str, cli_process: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    fill_theme(dsn, "sales", memories=40, turns=1500)
    both(True)
    exported = cli_process("export")
    assert exported.returncode == 0 and exported.stderr.decode().endswith("written to stdout\n")
    both(False)
    cut = cli_process("import", "-", data=exported.stdout[: len(exported.stdout) // 2])
    assert cut.returncode == 1 and b"send it once more" in cut.stderr
    there = Database(second_dsn).column("SELECT count(*) FROM conversations")[0]
    assert 0 < there < 1500
    again = cli_process("import", "-", "--json", data=gzip.compress(exported.stdout))
    assert again.returncode == 0 and json.loads(again.stdout)["turns_added"] == 1500 - there
    assert all_rows(second_dsn) == all_rows(dsn)
    # What a shell makes of <(...): its bytes come once.
    piped = cli_process("import", "/dev/stdin", "--theme", "sales", "--json", data=exported.stdout)
    assert piped.returncode == 0 and json.loads(piped.stdout)["turns_there"] == 1500


def test_need_16_an_export_is_of_one_moment_whatever_is_written_meanwhile(dsn: str) -> None:
    fill_theme(dsn, "sales", memories=3, turns=3)
    written = io.BytesIO()

    def begun() -> io.BytesIO:
        Database(dsn).column(
            "WITH gone AS (DELETE FROM conversations) INSERT INTO memory_entries (agent_identity, target, content)"
            " VALUES ('sales', 'memory', 'late') RETURNING id"
        )
        return written

    with connect(dsn) as conn:
        done = export(conn, ExportRequest(), ThemeRules(), begun)
    assert (done.memories, done.turns, b"late" in written.getvalue()) == (3, 3, False)


@pytest.mark.parametrize("verb", [["export", "-"], ["themes", "export", "sales"]])
def test_need_16_a_server_that_takes_no_writes_is_exported(
    configure: Callable[..., None], dsn: str, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """As one whose disk is full, or that was closed before a move."""
    fill_theme(dsn, "sales", dims=DIMS)
    configure(make_conninfo(dsn, options="-c default_transaction_read_only=on"))
    assert cli.main(verb) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["turns"] == 4
    configure(dsn)
    assert cli.main(verb) == 0
    assert Database(dsn).column("SELECT verb FROM hermes_maintenance") == ["export"]


def test_need_22_an_export_takes_the_place_of_a_link_and_not_of_what_it_leads_to(
    both: Both, dsn: str, tmp_path: Path, cli_process: Callable[..., subprocess.CompletedProcess[bytes]]
) -> None:
    fill_theme(dsn, "sales", memories=3)
    both(True)
    other, link = tmp_path / "notes.txt", tmp_path / "memory.jsonl"
    other.write_text("mine")
    link.symlink_to(other)
    refused = cli_process("export", str(link))
    assert refused.returncode == 1 and b"--replace" in refused.stderr
    assert cli_process("export", str(link), "--replace").returncode == 0
    assert other.read_text() == "mine" and not link.is_symlink()
    assert stat.S_IMODE(link.stat().st_mode) == 0o600
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert b"no regular file" in cli_process("export", str(pipe), "--replace").stderr
    assert pipe.is_fifo()


def test_need_16_nobody_who_reads_on_is_no_error(both: Both, dsn: str, start_cli: Callable[..., Any]) -> None:
    fill_theme(dsn, "sales", turns=1000)
    both(True)
    with start_cli("export") as process:
        assert "hermes-memory-pgvector" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(150) == 0
        assert "Traceback" not in process.stderr.read()


def test_trap_10_odd_lines_of_what_was_removed_stop_nothing(
    both: Both, dsn: str, second_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_theme(dsn, "sales")
    with psycopg.connect(dsn) as conn:
        conn.execute("INSERT INTO hermes_tombstones VALUES ('sales', 'memory', hermes_digest('Bolt is red'))")
    out, odd = tmp_path / "all.jsonl", tmp_path / "odd.jsonl"
    both(True)
    assert cli.main(["export", str(out)]) == 0
    lines = out.read_bytes().splitlines(keepends=True)
    gone = {"store": "removed", "theme": "sales", "target": "memory", "sha256": "00" * 32,
            "removed_at": "2025-01-01T00:00:00+00:00"}  # fmt: skip
    changes: tuple[dict[str, str], ...] = (
        {"theme": "\ud800"}, {"target": "\ud800"}, {"target": "x\0"}, {"removed_at": "2025-01-01T00:00:00"},
        {"removed_at": "0001-01-01T00:00:00+14:00"},
    )  # fmt: skip
    bad = [json.dumps(gone | change).encode() + b"\n" for change in changes]
    odd.write_bytes(b"".join([*lines[:1], *bad, *lines[1:]]))
    both(False)
    capsys.readouterr()
    assert cli.main(["import", str(odd), "--salvage"]) == 1
    assert "unexpected" not in capsys.readouterr().err
    assert all_rows(second_dsn) == all_rows(dsn)
    buried = "SELECT count(*) FROM hermes_tombstones WHERE digest = hermes_digest('Bolt is red')"
    assert Database(second_dsn).column(buried) == [1]


def test_need_18_no_export_begins_while_the_model_is_switched(
    both: Both, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its snapshot would be that of before, and the columns those of after."""
    both(True)
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT pg_advisory_xact_lock(731057947)")
        assert cli.main(["export", str(tmp_path / "all.jsonl")]) == 1
    assert "again" in capsys.readouterr().err and list(tmp_path.glob("*.jsonl")) == []
    assert cli.main(["export", str(tmp_path / "all.jsonl")]) == 0
