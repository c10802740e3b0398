"""What the text of every statement shows: whose rows it reads, and that it is used."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from tests.support.statements import every_statement, sql_files

_TABLES = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(memory_entries|memory_history|memory_chunks|conversations|conversation_chunks|hermes_\w+|\{table\})"
)
_FILTER = re.compile(r"agent_identity\s*=\s*%\(theme\)s|VALUES\s*\([^;]*%\(themes?\)s|unnest\(%\(themes?\)[sb]")


def test_need_04_every_statement_is_filtered_by_theme_or_says_why_not() -> None:
    for name, statement in every_statement().items():
        if (reason := re.search(r"^-- exempt: (.+)", statement, re.MULTILINE)) is not None:
            assert len(reason[1]) > 10, name
            continue
        assert _TABLES.search(statement), f"{name}: a statement without tables is exempt and says so"
        assert "agent_identity" in statement, name
        assert _FILTER.search(statement), f"{name} is not filtered by theme"


def test_need_04_only_what_must_be_is_exempt() -> None:
    """A new exemption is a decision: this list is where it is taken."""
    assert {name for name, statement in every_statement().items() if "-- exempt:" in statement} <= {
        "set_timeouts", "settle_session", "session_types", "session_path", "set_path",  # touch no table
        "has_own_themes", "lock_theme", "set_timeouts_only", "keep_settings", "read_question",  # touch no table
        "note_actor_everywhere", "lock_home",  # touch no table
        "is_confined", "themes_of_role",  # touch no table
        "copy_turns",  # each row names its theme
        "forget_operations", "forget_tombstones", "record_space", "read_space", "hold_space",  # no stored text
        "count_all",
        "list_themes", "count_some", "recent_growth", "relation_sizes", "partial_index_rows", "database_bytes",
        "recent_growth_spread", "relation_sizes_spread",
        "themes_of_home", "themes_of_clients",  # names and counts for the operator
        "themes_of_home_spread", "themes_of_clients_spread",
        "record_maintenance", "read_maintenance",
        "due_themes_memories", "due_themes_turns", "cold_themes_turns",  # names of themes
        "sample_texts", "no_vectors",
        "take_over_mirrored", "mirror_difference", "dropped_since",  # this host's own file
        "hold_removals", "withdraw_removals", "entries_of_files", "inherit_mirrored", "forget_inherited",
        "entries_read",  # digests of a home's own file
        "incarnation",  # a time and the number of a table
        "held_removals", "count_held_removals", "keep_held", "removed_memories", "restore_memory",  # for the operator
        "keep_undecided",
        "forget_removed_texts",
        "lock_arrivals", "try_hold_space", "new_numbers", "draw_numbers",  # touch no stored text
        "numbers_noted", "used_numbers_memories", "used_numbers_turns",  # numbers
        "database_identity", "may_write_history", "may_write_log",
        "proposals",  # for the operator
        "themes_with_traces", "hot_themes", "hot_themes_spread",  # names for the operator
        "theme_sizes", "largest_themes", "likely_largest_themes", "growth", "growth_spread",  # names and counts
        "list_all_history", "texts_after", "private_memories", "private_turns",  # by number
        "own_columns", "begin_moves", "end_moves", "keys_without_theme",  # touch no table
        "move_history",  # its function names the theme
        "distribution_state", "distributed_tables", "partial_writers",  # the catalogue
        "server_clock",  # touches no table
        "read_clock", "try_upkeep", "retention_state",  # counts and times
        "oldest_turns", "oldest_turns_own", "oldest_turns_spread",  # names and times
        "server_identity", "server_system", "server_migrations",  # which server this is
        "primary_position", "replica_position", "replica_timeline",
        "note_actor", "forget_history",  # touch no stored text of today
        "history_of_memory", "show_memory", "show_turn", "rows_of_memories", "rows_of_turns", "structures",  # by number
        "beside_memories", "beside_turns",  # by number
        "count_facts", "count_episodes", "last_vacuum", "last_compression",  # totals and times for the operator
        "theme_names", "theme_names_spread", "session_themes_of_turns", "session_themes_of_memories",
        "session_themes_of_history",  # names for the operator
        "readable_themes", "themes_holding_turns", "themes_holding_memories",  # names of what may be read
        "themes_of_memories", "themes_of_turns", "done_since", "log_end", "moment",  # names and times for the operator
        "history_end",  # a number
        "foreign_schema", "foreign_columns", "foreign_count",  # names and counts for the operator
        "predecessor_memories", "predecessor_turns", "predecessor_turns_without_parents",  # another program's tables
        "mem0_points", "hindsight_documents", "hindsight_facts", "next_old_memories", "next_old_turns",
        "written_since_upgrade",  # counts for the operator
        "old_relations", "old_writers", "old_themes", "count_old_rows", "last_old_id",  # names and counts of these
        "begin_upgrade", "note_upgrade", "note_old_memories", "note_old_turns", "go_on_with_ids", "drop_hnsw_indexes",
        "missing_indexes", "missing_keys", "missing_triggers", "disabled_triggers", "unlogged_tables",
        "other_collation", "who_could_replace", "functions_astray",
        "functions_out_of_reach",  # the catalogue
        "invalid_indexes", "own_rights", "lacking_rights", "versions", "themes_of_roles",  # touch no stored text
        "theme_moves", "noted_entries", "folded_words",  # names, and digests of this host's own file
        "look_at_server", "newer_extension", "last_number", "highest_number", "hold_numbers", "set_last_number",
        "unnumbered_tables", "sample_next", "appraise",
        "texts_with_vectors",  # as a change of the model does, a few
        # a change of the model embeds the texts of every theme, as an administrator
        "dependents_of_vectors", "begin_reembed", "note_reembed", "end_reembed", "define_keep_next",
        "make_room_for_vectors", "last_id_of", "row_without_next", "count_next", "rows_without_next",
        "clear_next_chunks", "fill_next", "index_hnsw",
        "index_hnsw_full", "is_former_index",
        "index_theme_sig_next", "index_theme_code_next", "index_pending_next", "index_chunks_sig_next",
        "index_chunks_code_next", "index_cold_next", "hide_next", "switch_to_next",
        "codes_are_missing", "fill_codes", "index_codes", "index_signatures", "signatures_are_apart",
        "replace_signatures", "words_are_read", "end_of_rows", "read_words", "note_words_read",
        "record_switch", "drop_next", "lock_stored_tables",
        "walk_vectors", "walk_timeline", "plan_for_values", "plan_as_before", "plan_as_recall",  # touch no stored text
        "lost_vector_columns", "add_vector_columns",
        "has_graph", "has_own_graph", "theme_indexes", "index_hnsw_theme",  # the catalogue
        "existing_indexes", "hnsw_before", "hnsw_index_state", "build_progress",
        "compact_sizes", "count_cold", "keep_signatures", "calibrate_signatures", "signature_scale",
        "vector_search_turns_cold",  # as vector_search_turns_walk_sig
        "vector_search_memories_all", "vector_search_turns_all",  # the explicit scope 'all'
        "vector_search_memories_all_filtered", "vector_search_turns_all_filtered",
        "vector_search_memories_walk_sig", "vector_search_turns_walk_sig",
        "vector_search_memories_walk_embedding", "vector_search_turns_walk_embedding",
        "chunk_search_memories_all", "chunk_search_turns_all",
        "estimate_matches_memories", "estimate_matches_turns",
        "count_some_memories_all", "count_some_turns_all",
        "query_terms_memories_all", "query_terms_turns_all", "lexical_search_memories_all", "lexical_search_turns_all",
    }  # fmt: skip


def test_need_04_every_statement_is_used_and_no_other_sql_reads_stored_text() -> None:
    package = Path(str(files("hermes_memory_pgvector")))
    texts_of = {path: list(_texts(ast.parse(path.read_text(encoding="utf-8")))) for path in package.rglob("*.py")}
    # All in one pattern: to make one of each text for each statement takes minutes.
    words = {text for texts in texts_of.values() for text in texts if not re.search(r"\s", text)}
    used = re.compile("|".join(sorted(words)))
    assert [name for name in every_statement() if not used.fullmatch(name)] == []
    texts = [text for path, texts in texts_of.items() if path.parent.name == "store" for text in texts]
    reads = [
        text for text in texts if re.search(r"(?:FROM|INTO|UPDATE|JOIN)\\? (?:memory_entries|conversations)", text)
    ]
    assert reads == [], "SQL on stored text stands in a file of statements"


def test_need_44_no_update_decides_by_a_function_that_is_not_immutable() -> None:
    """Citus refuses such functions in the CASE of what changes distributed rows."""
    for name, statement in every_statement().items():
        _, _, changes = statement.partition(" SET ")
        decided = " ".join(re.findall(r"\bCASE\b.*?\bEND\b", changes, re.DOTALL))
        assert not re.search(
            r"\b(?:now|(?:clock|statement|transaction)_timestamp|to_jsonb|concat|concat_ws|format|jsonb_build_\w+)\(",
            decided,
        ), name


def test_every_fragment_is_used() -> None:
    named = re.findall(r"^-- (?:fragment|own themes): (\w+)", _sources("fragments.sql", "store/queries"), re.MULTILINE)
    used = Counter(re.findall(r"\b(\w+)\(", re.sub(r"^--.*$", "", _sources("*.sql", "."), flags=re.MULTILINE)))
    assert named and [name for name in named if not used[name]] == []


def test_no_two_statements_have_one_name() -> None:
    """All files of a folder are one dictionary: of two that clash, one would silently be gone."""
    named = Counter(re.findall(r"^-- name: (\w+)", _statements(), re.MULTILINE))
    assert [name for name, times in named.items() if times > 1] == []
    assert set(named) == set(every_statement())


def test_no_two_purposes_share_a_lock_of_the_database() -> None:
    """Advisory locks are numbers: an import would hold up the upkeep, or a migration an agent."""
    in_sql = re.findall(r"pg_(?:try_)?advisory\w*lock(\w*)\((\d+)", _statements())
    in_code = re.findall(
        r"^(?:_LOCK\w*|MIGRATION_LOCK) = (\d+)(?!.*as the statement)", _sources("*.py", "store"), re.MULTILINE
    )
    exclusive = [number for kind, number in in_sql if kind != "_shared"]
    assert [number for number, times in Counter([*exclusive, *in_code]).items() if times > 1] == []
    assert not {number for kind, number in in_sql if kind == "_shared"} & {*exclusive, *in_code}


def _statements() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sql_files())


def _sources(pattern: str, folder: str) -> str:
    place = Path(str(files("hermes_memory_pgvector").joinpath(folder)))
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(place.rglob(pattern)))


def _texts(tree: ast.AST) -> Iterator[str]:
    """Every string of a module as a pattern; what an f-string puts in matches anything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w*" for p in node.values]
            if any(part not in (r"\w*", "_") for part in parts):
                yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.escape(node.value)
