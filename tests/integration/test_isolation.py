"""Themes never mix: neither in tools, nor in what is put before a turn, nor in any statement."""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, results, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.statements import every_statement, sql_files
from tests.support.stored import Database

THEMES = ("marketing", "sales", "support")
CHAT = "agent:main:telegram:dm:4915112345678"


def _fill(make_provider: MakeProvider, config: dict[str, object]) -> dict[str, PgvectorMemoryProvider]:
    """A provider a theme; each has stored the same sentences with its own colour in them."""
    fleet = {theme: make_provider(config, gateway_session_key=theme, session_id=f"{theme}-1") for theme in THEMES}
    for theme, provider in fleet.items():
        provider.on_memory_write("add", "memory", f"The Atlas budget is owned by {theme}")
        provider.on_memory_write("add", "user", f"The Atlas user works in {theme}")
        provider.sync_turn(
            f"Who owns the Atlas budget in {theme}, remind me?", f"The Atlas budget is owned by {theme}, as I said."
        )
    for provider in fleet.values():
        landed(provider)
    return fleet


@pytest.mark.parametrize("embedded", [False, True], ids=["by words", "by meaning"])
def test_need_04_themes_never_mix(make_provider: MakeProvider, embedder: ScriptedEmbedder, embedded: bool) -> None:
    fleet = _fill(make_provider, {"embed_url": embedder.url} if embedded else {})
    question = "Who owns the Atlas budget?"
    for theme, provider in fleet.items():
        for tool, count in (("recall_memory", 2), ("recall_conversation", 1)):
            for scope in (None, "current", theme, theme.upper(), f"theme:{theme}"):
                found = recalled(provider, question, tool=tool, scope=scope)
                assert len(found) == count and all(theme in text for text in found), (tool, scope, found)
        block = provider.prefetch(question)
        assert f"owned by {theme}" in block
        assert not any(other in block for other in THEMES if other != theme)
        assert len(recalled(provider, question, target="user")) == 1
    assert recalled(fleet["sales"], question, tool="recall_conversation", scope="session") == recalled(
        fleet["sales"], question, tool="recall_conversation"
    )
    assert make_provider(gateway_session_key="newcomer").prefetch(question) == ""


@pytest.mark.parametrize("embedded", [False, True], ids=["by words", "by meaning"])
def test_need_04_another_theme_is_read_only_by_an_explicit_argument(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, embedded: bool
) -> None:
    fleet = _fill(make_provider, {"embed_url": embedder.url} if embedded else {})
    for tool, each in (("recall_memory", 2), ("recall_conversation", 1)):
        found = recalled(fleet["marketing"], "Who owns the Atlas budget?", tool=tool, scope="sales")
        assert len(found) == each and all("sales" in text for text in found)
        answer = called(fleet["marketing"], tool, {"query": "Who owns the Atlas budget?", "scope": "all", "limit": 50})
        assert answer["scope"] == "all"
        assert sorted(hit["theme"] for hit in results(answer)) == sorted(THEMES * each)
        assert recalled(fleet["marketing"], "Who owns the Atlas budget?", tool=tool, scope="nobody") == []


@pytest.mark.parametrize(
    ("cross_theme", "key", "offered", "not_offered"),
    [
        ("agents", "sales", ["current", "session", "all,", "theme's name"], []),
        (
            "agents",
            "agent:main:telegram:dm:4915112345678",
            ["current", "session"],
            ["all", "theme's name", "name of a theme"],
        ),
        ("none", "sales", ["current", "session"], ["all", "theme's name", "name of a theme"]),
        (["marketing"], "sales", ["current", "session", "theme's name"], ["all"]),
        ("all", "agent:main:telegram:dm:4915112345678", ["current", "session", "all,", "theme's name"], []),
    ],
)
def test_need_04_the_tools_offer_the_scopes_that_the_session_may_use(
    make_provider: MakeProvider, cross_theme: object, key: str, offered: list[str], not_offered: list[str]
) -> None:
    platform = "telegram" if "telegram" in key else "cli"
    provider = make_provider({"cross_theme": cross_theme}, gateway_session_key=key, platform=platform)
    for schema in provider.get_tool_schemas():
        arguments = schema["parameters"]["properties"]
        told = json.dumps(arguments["scope"])
        assert all(word in told for word in offered) and not any(word in told for word in not_offered), told
        for word in arguments["scope"].get("enum", ["current", "session", *(["all"] if "all," in told else [])]):
            assert "error" not in called(provider, schema["name"], {"query": "Atlas", "scope": word})
        empty = called(provider, schema["name"], {"query": "Atlas", "scope": " "})["error"]
        assert not any(word in empty for word in not_offered), empty


def test_need_04_a_theme_called_all_is_a_theme_of_its_own(make_provider: MakeProvider) -> None:
    named_all, sales = make_provider(gateway_session_key="all"), make_provider(gateway_session_key="sales")
    named_all.on_memory_write("add", "memory", "Atlas of everybody")
    sales.on_memory_write("add", "memory", "Atlas of sales")
    landed(named_all)
    landed(sales)
    assert recalled(named_all, "atlas") == ["Atlas of everybody"]
    assert recalled(sales, "atlas", scope="theme:all") == ["Atlas of everybody"]


def test_need_04_a_client_cannot_claim_a_chat_by_sending_its_key(make_provider: MakeProvider, dsn: str) -> None:
    speakers = {
        "chat": {"platform": "telegram"},
        "header": {"platform": "api_server"},
        "other platform": {"platform": "signal"},
        "other profile": {"platform": "telegram", "agent_identity": "writer"},
    }
    config = {"messaging_theme": "chat"}
    for name, kwargs in speakers.items():
        provider = make_provider(config, gateway_session_key=CHAT, **kwargs)
        provider.on_memory_write("add", "memory", f"Atlas, said by the {name}")
        provider.sync_turn(f"Do you know the Atlas, asks the {name} politely?", f"Yes, {name}, I do know it.")
        landed(provider)
    for name, kwargs in speakers.items():
        provider = make_provider(config, gateway_session_key=CHAT, **kwargs)
        assert recalled(provider, "atlas") == [f"Atlas, said by the {name}"]
        said = recalled(provider, "atlas", tool="recall_conversation")
        assert said and all(name in text for text in said)
    themes = Database(dsn).column("SELECT DISTINCT agent_identity FROM conversations")
    assert len(themes) == len(speakers)
    chat = next(theme for theme in themes if theme.startswith("@telegram/default/"))
    assert recalled(make_provider(gateway_session_key=chat), "atlas") == [], "a leading @ is reserved"


def test_trap_07_no_phone_number_of_a_chat_is_stored_or_logged(
    make_provider: MakeProvider, dsn: str, records: Callable[[int], list[str]], home: Path
) -> None:
    known = {"user_id": "4915112345678", "chat_id": "4915112345678@lid", "user_name": "4915112345678"}
    session = {"session_id": "dm-+4915112345678", "parent_session_id": "alice4915112345678@example.com"}
    provider = make_provider(
        {"allowed_themes": ["nobody"]}, gateway_session_key=CHAT, platform="telegram", **known, **session
    )
    said = known | {"from": "+4915112345678", "at": {"chat": CHAT}}
    provider.on_memory_write("add", "memory", "Atlas is brown", said)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.sync_turn("Which colour did we choose for the Atlas project?", "It is blue, as ever since last May.")
    landed(provider)
    rows = Database(dsn).column(
        "SELECT to_jsonb(m)::text FROM memory_entries AS m UNION ALL SELECT to_jsonb(c)::text FROM conversations AS c"
    )
    assert len(rows) == 4 and not any("4915112345678" in row for row in rows)
    assert not any("4915112345678" in line for line in records(logging.DEBUG))
    assert "4915112345678" not in json.dumps(runtime_of(provider).stats())
    digest = hashlib.sha256(b"4915112345678").hexdigest()[:16]
    for table in ("memory_entries", "conversations"):
        query = f"SELECT count(*) FROM {table} WHERE metadata @> jsonb_build_object('user', '{digest}')"
        assert Database(dsn).column(query) == [2], "the same person's rows can be found"


def test_trap_07_no_address_of_a_session_key_is_stored_or_logged(
    make_provider: MakeProvider, dsn: str, records: Callable[[int], list[str]]
) -> None:
    for key in ("alice@example.com", "customer/+491701234567"):
        provider = make_provider({"allowed_themes": ["nobody"]}, gateway_session_key=key)
        provider.on_memory_write("add", "memory", "Atlas is blue")
        provider = make_provider(gateway_session_key=key)
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
        assert recalled(make_provider(gateway_session_key=key.upper()), "atlas") == ["Atlas is blue"]
        assert recalled(make_provider(), "atlas", theme=key) == ["Atlas is blue"]
    rows = Database(dsn).column("SELECT to_jsonb(m)::text FROM memory_entries AS m")
    assert rows and not any("alice" in text or "1701234" in text for text in [*rows, *records(logging.DEBUG)])


def test_need_04_keys_that_differ_in_case_and_blanks_are_one_theme(make_provider: MakeProvider) -> None:
    writer = make_provider(gateway_session_key="  Team\tBlue ")
    writer.on_memory_write("add", "memory", "Atlas is blue")
    landed(writer)
    assert recalled(make_provider(gateway_session_key="team blue"), "atlas") == ["Atlas is blue"]
    assert recalled(make_provider(gateway_session_key="team-blue"), "atlas") == []


_TABLES = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(memory_entries|memory_history|memory_chunks|conversations|conversation_chunks|hermes_\w+|\{table\})"
)
_FILTER = re.compile(r"agent_identity\s*=\s*%\(theme\)s|VALUES\s*\([^;]*%\(themes?\)s|unnest\(%\(themes?\)[sb]")


@pytest.mark.parametrize("name", sorted(every_statement()))
def test_need_04_every_statement_is_filtered_by_theme_or_says_why_not(name: str) -> None:
    statement = every_statement()[name]
    if (reason := re.search(r"^-- exempt: (.+)", statement, re.MULTILINE)) is not None:
        assert len(reason[1]) > 10
        return
    assert _TABLES.search(statement), "a statement without tables is exempt and says so"
    assert "agent_identity" in statement
    assert _FILTER.search(statement), f"{name} is not filtered by theme"


def test_need_04_only_what_must_be_is_exempt() -> None:
    """A new exemption is a decision: this list is where it is taken."""
    assert {name for name, statement in every_statement().items() if "-- exempt:" in statement} <= {
        "set_timeouts", "settle_session", "session_path", "set_path",  # touch no table
        "has_own_themes", "lock_theme", "set_timeouts_only", "keep_settings", "read_question",  # touch no table
        "copy_turns",  # each row names its theme
        "forget_operations", "forget_tombstones", "record_space", "read_space", "hold_space",  # no stored text
        "count_all",
        "list_themes", "count_some", "recent_growth", "relation_sizes", "partial_index_rows", "database_bytes",
        "recent_growth_spread", "relation_sizes_spread",
        "themes_of_home", "themes_of_clients",  # names and counts for the operator
        "record_maintenance", "read_maintenance",
        "due_themes_memories", "due_themes_turns", "cold_themes_turns",  # names of themes
        "sample_texts", "no_vectors",
        "take_over_mirrored", "mirror_difference", "forget_mirrored",  # this host's own file
        "hold_removals", "withdraw_removals", "entries_of_files",
        "server_start",  # a time
        "held_removals", "count_held_removals", "keep_held", "removed_memories", "restore_memory",  # for the operator
        "keep_undecided",
        "forget_removed_texts",
        "lock_arrivals", "try_hold_space", "new_memory_ids", "database_identity",  # touch no stored text
        "may_write_history", "may_write_log",
        "proposals",  # for the operator
        "themes_with_traces", "hot_themes",  # names for the operator
        "theme_sizes", "largest_themes", "likely_largest_themes", "growth", "growth_spread",  # names and counts
        "list_all_history", "texts_after", "private_memories", "private_turns",  # by number
        "own_columns", "begin_moves", "end_moves", "keys_without_theme",  # touch no table
        "move_history",  # its function names the theme
        "distribution_state", "distributed_tables", "nodes_with_shards",  # the catalogue
        "read_clock", "try_upkeep", "oldest_turns", "oldest_turns_own", "retention_state",  # names, counts and times
        "server_identity", "server_system", "server_migrations",  # which server this is
        "primary_position", "replica_position", "replica_timeline",
        "note_actor", "forget_history",  # touch no stored text of today
        "history_of_memory", "show_memory", "show_turn", "rows_of_memories", "rows_of_turns", "structures",  # by number
        "beside_memories", "beside_turns",  # by number
        "count_facts", "count_episodes", "last_vacuum", "last_compression",  # totals and times for the operator
        "theme_names", "theme_names_spread", "session_themes",  # names for the operator
        "themes_of_memories", "themes_of_turns", "done_since", "log_end", "moment",  # names and times for the operator
        "foreign_schema", "foreign_columns", "foreign_count",  # names and counts for the operator
        "predecessor_memories", "predecessor_turns", "predecessor_turns_without_parents",  # another program's tables
        "mem0_points", "hindsight_documents", "hindsight_facts", "next_old_memories", "next_old_turns",
        "written_since_upgrade",  # counts for the operator
        "old_relations", "old_writers", "old_themes", "count_old_rows", "last_old_id",  # names and counts of these
        "begin_upgrade", "note_upgrade", "note_old_memories", "note_old_turns", "go_on_with_ids", "drop_hnsw_indexes",
        "invalid_indexes", "own_rights", "lacking_rights", "versions", "themes_of_roles",  # touch no stored text
        "theme_moves", "noted_elsewhere",  # names, and digests of this host's own file
        "look_at_server", "newer_extension", "sequence_and_rows", "advance_sequence", "sample_next", "appraise",
        # a change of the model embeds the texts of every theme, as an administrator
        "dependents_of_vectors", "begin_reembed", "note_reembed", "end_reembed", "define_keep_next",
        "make_room_for_vectors", "last_id_of", "row_without_next", "count_next", "rows_without_next",
        "clear_next_chunks", "fill_next", "index_hnsw",
        "index_hnsw_full", "is_former_index",
        "index_theme_sig_next", "index_theme_code_next", "index_pending_next", "index_chunks_sig_next",
        "index_chunks_code_next", "index_cold_next", "hide_next", "switch_to_next",
        "codes_are_missing", "fill_codes", "index_codes", "index_signatures", "signatures_are_apart",
        "replace_signatures", "words_are_read", "blocks_of", "read_words", "note_words_read",
        "record_switch", "drop_next", "lock_stored_tables",
        "walk_vectors", "walk_timeline", "plan_for_values", "plan_as_before", "plan_as_recall",  # touch no stored text
        "has_graph", "has_own_graph", "theme_indexes", "index_hnsw_theme",  # the catalogue
        "hnsw_index_state", "build_progress",
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
