"""What memories say of themselves goes along: export, import, copy, a theme's new name, and back from a removal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.cli import main
from tests.conftest import DIMS
from tests.support.records import fill_theme
from tests.support.stored import Database

Use = Callable[[str], None]
Run = Callable[..., Any]
# Rows by what they say: their numbers are others elsewhere.
STRUCTURE = """
SELECT concat_ws(' | ', m.agent_identity, m.content, m.kind, m.subject, m.scope, m.state,
                 m.expires_at AT TIME ZONE 'UTC', m.confidence, m.applies_when, m.pinned, old.content,
                 (SELECT string_agg(c.content, ', ' ORDER BY c.content)
                    FROM conversations AS c WHERE c.id = ANY(m.sources)))
  FROM memory_entries AS m
  LEFT JOIN memory_entries AS old ON old.agent_identity = m.agent_identity AND old.id = m.replaces
 ORDER BY 1"""


@pytest.fixture
def use(home: Path, dsn: str) -> Use:
    """Puts a database into use."""

    def write(which: str) -> None:
        (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": {"dsn": which, "dims": DIMS}}}))

    write(dsn)
    return write


@pytest.fixture
def run(use: Use, home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `hermes-pgvector ARGUMENTS --json` and returns the value."""

    def told(*arguments: str) -> Any:
        capsys.readouterr()
        code = main([*arguments, "--hermes-home", str(home), "--json"])
        said = capsys.readouterr()
        assert code == 0, said.out + said.err
        return json.loads(said.out)

    return told


def add(run: Run, text: str, *arguments: str) -> str:
    (row,) = run("facts", "add", text, "--theme", "sales", *arguments)["rows"]
    return str(row["ref"])


@pytest.fixture
def facts(run: Run, dsn: str) -> None:
    """Facts of all kinds in the theme `sales`, replaced, archived, with sources."""
    fill_theme(dsn, "sales", turns=4, memories=1, dims=DIMS)
    turns = [f"t{each}" for each in Database(dsn).column("SELECT id FROM conversations ORDER BY id LIMIT 2")]
    plain = add(run, "The office is in Lyon")
    add(run, "The office moved to Nantes", "--replaces", plain)
    add(run, "Port 3000", "--kind", "value", "--subject", "srv", "--source-turn", turns[0])
    add(
        run, "Port 3005", "--kind", "value", "--subject", "SRV", "--confidence", "0.7", "--expires-at", "2040-05-03",
        "--source-turn", turns[0], "--source-turn", turns[1], "--pinned",
    )  # fmt: skip
    gone = add(run, "Deploy from main", "--kind", "procedure", "--scope", "api", "--when", "deploying")
    run("edit", gone, "--state", "archived", "--yes")
    add(run, "C[db]: UUIDs")


def test_export_and_import_bring_back_what_memories_say_of_themselves(
    facts: None, use: Use, run: Run, dsn: str, second_dsn: str, tmp_path: Path
) -> None:
    out = str(tmp_path / "all.jsonl")
    fill_theme(second_dsn, "sales", turns=4, memories=20, prefix="Other")  # the numbers of rows are others
    with psycopg.connect(second_dsn) as conn:
        conn.execute("DELETE FROM conversations")
        conn.execute("DELETE FROM memory_entries")
    assert run("export", out, "--vectors")["memories"] == 7
    use(second_dsn)
    told = run("import", out)
    assert told["without_replaced"] == told["without_sources"] == 0
    assert Database(second_dsn).column(STRUCTURE) == Database(dsn).column(STRUCTURE)
    hidden = "SELECT count(*) FROM memory_entries WHERE state IN ('superseded', 'archived') AND sig IS NOT NULL"
    assert Database(second_dsn).column(hidden) == [0]
    assert run("import", out)["memories_added"] == 0
    assert Database(second_dsn).column(STRUCTURE) == Database(dsn).column(STRUCTURE)


def test_an_old_export_reopens_nothing_and_what_is_missing_is_told(
    facts: None, use: Use, run: Run, dsn: str, second_dsn: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = tmp_path / "all.jsonl"
    run("export", str(out))
    (constraint,) = run("facts", "list", "--theme", "sales", "--kind", "constraint")
    run("edit", constraint["ref"], "--state", "archived", "--yes")
    (port,) = run("facts", "list", "--theme", "sales", "--kind", "value")
    run("facts", "add", "Port 4000", "--theme", "sales", "--kind", "value", "--subject", "srv")
    before = Database(dsn).column(STRUCTURE)
    run("import", str(out))
    assert Database(dsn).column(STRUCTURE) == before
    lines = out.read_text().splitlines()
    rows = [row for row in map(json.loads, lines[1:-1]) if row["store"] == "memories" and "structure" in row]
    alone = [row for row in rows if row["content"] == port["content"]]
    assert len(alone) == 1 and {"replaces", "sources"} <= alone[0]["structure"].keys()
    header, unknown = json.loads(lines[0]), dict(alone[0], content="Other", structure={"kind": "rumour"})
    plain = {key: value for key, value in alone[0].items() if key != "structure"} | {"content": "V[cache]: redis"}
    partial = tmp_path / "partial.jsonl"
    partial.write_text("\n".join(json.dumps(row) for row in (header, alone[0], unknown, plain)) + "\n")
    use(second_dsn)
    capsys.readouterr()
    assert main(["import", str(partial), "--salvage", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["memories_added"], told["without_replaced"], told["without_sources"]) == (2, 1, 1)
    stored = {row.split(" | ")[1]: row for row in Database(second_dsn).column(STRUCTURE)}
    assert set(stored) == {"Port 3005", "V[cache]: redis"}
    assert " | value | SRV | active | " in stored["Port 3005"] and "Port 3000" not in stored["Port 3005"]
    assert stored["V[cache]: redis"].endswith(" | value | cache | active"), "a line of notation is read in an import"


def test_copy_brings_what_memories_say_of_themselves_also_what_changed_since(
    facts: None, run: Run, dsn: str, second_dsn: str
) -> None:
    assert run("copy", "--to", second_dsn)["verified"]
    assert Database(second_dsn).column(STRUCTURE) == Database(dsn).column(STRUCTURE)
    (constraint,) = run("facts", "list", "--theme", "sales", "--kind", "constraint")
    run("edit", constraint["ref"], "--state", "closed", "--yes")
    (nantes,) = [each for each in run("facts", "list", "--theme", "sales") if "Nantes" in each["content"]]
    add(run, "The office is by the sea", "--replaces", nantes["ref"])
    assert run("copy", "--to", second_dsn)["verified"]
    assert Database(second_dsn).column(STRUCTURE) == Database(dsn).column(STRUCTURE)


def test_a_theme_that_is_renamed_or_merged_keeps_what_its_memories_say(facts: None, run: Run, dsn: str) -> None:
    before = Database(dsn).column(STRUCTURE)
    run("themes", "rename", "sales", "shop", "--yes")
    assert Database(dsn).column(STRUCTURE) == [row.replace("sales | ", "shop | ", 1) for row in before]


def test_a_merge_keeps_what_was_said_later_of_what_both_themes_hold(run: Run, dsn: str) -> None:
    fill_theme(dsn, "sales", turns=1, memories=0, dims=DIMS)
    fill_theme(dsn, "shop", turns=1, memories=0, dims=DIMS)
    for text, where, *more in (
        ("Port 1", "sales", "--kind", "value", "--subject", "srv"),  # plain in the other theme, said there later
        ("Port 1", "shop"),
        ("Port 2", "shop"),  # and the other way round
        ("Port 2", "sales", "--kind", "value", "--subject", "db", "--pinned"),
        ("Port 3", "sales", "--kind", "value", "--subject", "queue"),  # another is current there, said later
        ("Port 4", "shop", "--kind", "value", "--subject", "Queue"),
    ):
        run("facts" if more else "add", *(["add"] if more else []), text, "--theme", where, *more)
    for really in ((), ("--yes",)):
        notes = run("themes", "merge", "sales", "shop", *really)["notes"]
        assert any(note.startswith("1 subject has a current memory in both: the one said last") for note in notes)
    assert Database(dsn).column(STRUCTURE) == [
        "shop | Port 1 | value | srv | active",
        "shop | Port 2 | value | db | active | t",
        "shop | Port 3 | value | queue | superseded",
        "shop | Port 4 | value | Queue | active | Port 3",
    ]


def test_a_merge_gives_what_is_superseded_no_place_in_the_indexes(run: Run, dsn: str) -> None:
    for theme in ("sales", "shop"):
        fill_theme(dsn, theme, turns=1, memories=0, dims=DIMS)
        run("facts", "add", "The port is 1", "--theme", theme, "--kind", "value", "--subject", "srv")
        run("facts", "add", f"The port is 2, says {theme}", "--theme", theme, "--kind", "value", "--subject", "srv")
    with psycopg.connect(dsn) as conn:
        vector = (
            "UPDATE memory_entries SET embedding = array_fill(0.1, ARRAY[%s])::vector WHERE agent_identity = 'sales'"
        )
        conn.execute(vector, (DIMS,))
        conn.execute("UPDATE memory_entries SET updated_at = '2020-01-01' WHERE state = 'superseded'")
    run("themes", "merge", "sales", "shop", "--yes")
    hidden = (
        "SELECT embedding IS NOT NULL, sig IS NULL, code IS NULL FROM memory_entries WHERE content = 'The port is 1'"
    )
    with psycopg.connect(dsn) as conn:
        assert conn.execute(hidden).fetchall() == [(False, True, True)]


def test_a_memory_that_is_restored_says_what_it_said(facts: None, run: Run, dsn: str) -> None:
    before = Database(dsn).column(STRUCTURE)
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT set_config('hermes_pgvector.keep_removed', 'on', true)")
        conn.execute("DELETE FROM memory_entries")
    assert Database(dsn).column(STRUCTURE) == []
    run("restore", "--theme", "sales")
    assert Database(dsn).column(STRUCTURE) == before
