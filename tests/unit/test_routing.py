"""A database that is spread over machines by theme: which of our statements it can send to one of them."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from hermes_memory_pgvector.store.sql import queries, query
from tests.support.routing import read
from tests.support.statements import ROOT, every_statement, package_of

# What works where themes are spread over machines: what agents ask, and these commands.
SPREAD = ("", *(f"{ROOT}.admin.{feature}" for feature in ("common", "compact", "reembed", "transfer")))
# Their statements that are not held to one theme in every table, and why that is so. A new one is a decision; one that
# was changed so that it can be routed has to leave the list.
ACROSS_THEMES = {
    "housekeeping": {
        "forget_history", "forget_operations", "forget_removed_texts", "forget_tombstones", "keep_undecided",
        "due_themes_memories", "due_themes_turns", "cold_themes_turns", "no_vectors", "count_all",
        "count_cold",
    },
    "this host's own memory files, whichever theme owns an entry": {
        "find_memory", "hold_removals", "mirror_difference", "take_over_mirrored",
        "withdraw_removals", "restore_memory", "inherit_mirrored", "forget_inherited", "dropped_since",
    },
    "the explicit scope 'all'": {
        "vector_search_memories_all", "vector_search_memories_all_filtered", "vector_search_memories_walk_sig",
        "vector_search_memories_walk_embedding",
        "vector_search_turns_all", "vector_search_turns_all_filtered", "vector_search_turns_walk_sig",
        "vector_search_turns_walk_embedding", "vector_search_turns_cold",
        "chunk_search_memories_all", "chunk_search_turns_all", "estimate_matches_memories", "estimate_matches_turns",
        "count_some_memories_all", "count_some_turns_all", "query_terms_memories_all", "query_terms_turns_all",
        "lexical_search_memories_all", "lexical_search_turns_all", "theme_names",
        "theme_names_spread", "readable_themes", "themes_holding_turns", "themes_holding_memories",
    },
    "the operator's: import, export, copy": {
        "entries_read", "noted_entries", "known_memories", "missing_turns", "themes_with_traces",
        "highest_numbers", "used_numbers_memories", "used_numbers_turns",
        "predecessor_memories", "predecessor_turns", "predecessor_turns_without_parents",
    },
    "the operator's: rows by their numbers, a change of the model, and what is shown of all themes": {
        "rows_of_memories", "rows_of_turns", "beside_memories", "beside_turns", "structures", "private_memories",
        "private_turns", "session_themes_of_turns", "session_themes_of_memories", "session_themes_of_history",
        "add_vector_columns", "hide_next", "lock_stored_tables", "sample_texts", "list_themes", "themes_of_clients",
        "themes_of_clients_spread", "themes_of_home", "themes_of_home_spread", "retention_state", "count_some",
        "recent_growth", "recent_growth_spread", "count_held_removals",
    },
}  # fmt: skip


def sent(name: str) -> str:
    """The statement as a spread database gets it: what recall and sessions ask is said of one theme."""
    folder = files("hermes_memory_pgvector").joinpath("store", "queries")
    asked = "".join(folder.joinpath(file).read_text(encoding="utf-8") for file in ("recall.sql", "sessions.sql"))
    one_theme = f"-- name: {name}\n" in asked or name == "known_vectors"
    return query(name, one_theme=one_theme, package=package_of(name)).decode()


def test_every_other_statement_is_held_to_one_theme_in_each_of_its_tables() -> None:
    across = {name for package in SPREAD for name in queries(package) if not read(sent(name)).is_routed}
    assert across == set().union(*ACROSS_THEMES.values())


def test_no_statement_changes_the_theme_of_a_row() -> None:
    for name, text in every_statement().items():
        # Functions of triggers have to cope with whoever does it by hand.
        text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
        for assignments in re.findall(r"\bSET\b(.*?)(?:\bWHERE\b|\bFROM\b|;|$)", text, re.DOTALL):
            assert not re.search(r"\bagent_identity\s*=[^=]", assignments), name


def test_no_statement_that_resolves_a_conflict_asks_for_the_time() -> None:
    """Where tables are spread, a conflict is resolved by what is given, not by functions."""
    for name, text in every_statement().items():
        for resolution in re.findall(r"ON CONFLICT.*", text, re.DOTALL):
            assert not re.search(r"\bnow\(\)|_timestamp\b", resolution), name


def test_no_statement_of_an_agent_looks_up_in_a_table_what_a_list_holds() -> None:
    """Citus joins a list with a table, but takes no EXISTS of the table for each of the list."""
    listed = re.compile(r"\bFROM unnest\((?:[^()]|\([^()]*\))*\)\s+AS \w+ ?\([^()]*\)\s+WHERE (?:NOT )?EXISTS")
    folder = files("hermes_memory_pgvector").joinpath("store", "queries")
    for name in re.findall(r"^-- name: (\w+)", folder.joinpath("writing.sql").read_text("utf-8"), re.MULTILINE):
        assert not listed.search(sent(name)), name


def test_no_trigger_writes_a_case_that_citus_passes_on_wrongly() -> None:
    """Of `CASE expression WHEN value` in a written row Citus makes `CASE WHEN value`, once it knows the expression."""
    folder = files("hermes_memory_pgvector").joinpath("migrations")
    functions = [
        function
        for file in folder.iterdir()
        if file.name.endswith(".sql")
        for function in re.findall(r"RETURNS trigger.*?AS (\$\w*\$.*?\$\w*\$)", file.read_text("utf-8"), re.DOTALL)
    ]
    assert functions
    for function in functions:
        function = re.sub(r"--.*", "", function)
        assert not re.search(r"\b(?:INSERT INTO|UPDATE)\b[^;]*\bCASE (?!WHEN\b)", function), function


@pytest.mark.parametrize(
    ("statement", "unbound"),
    [
        ("SELECT id FROM conversations WHERE agent_identity = %(theme)s AND ts > %(at)s;", ()),
        ("SELECT id FROM conversations WHERE id = %(id)s;", ("conversations",)),
        ("SELECT id FROM conversations WHERE (agent_identity = %(theme)s OR %(any)s);", ("conversations",)),
        ("SELECT id FROM conversations WHERE CASE WHEN agent_identity = %(theme)s THEN true END;", ("conversations",)),
        ("SELECT id FROM conversations WHERE agent_identity || '' = %(theme)s;", ("conversations",)),
        ("SELECT 1 FROM conversations AS c JOIN memory_chunks AS k ON k.row_id = c.id "
         "WHERE c.agent_identity = %(theme)s;", ("memory_chunks",)),
        ("WITH a AS (SELECT id FROM conversations WHERE agent_identity = %(theme)s) "
         "SELECT 1 FROM a JOIN conversations AS c ON c.id = a.id;", ("conversations",)),
        ("INSERT INTO memory_chunks (row_id, agent_identity) SELECT id, %(theme)s FROM unnest(%(ids)s) AS id;", ()),
        ("DELETE FROM hermes_mirror AS f USING entry WHERE f.agent_identity = entry.agent_identity;", ()),
    ],
)  # fmt: skip
def test_the_reading_of_a_statement(statement: str, unbound: tuple[str, ...]) -> None:
    assert read(statement).unbound == unbound
