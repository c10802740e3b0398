"""What was said in a messaging chat is in no other theme's recall, by no argument, unless the operator shares it."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.domain.theme import CHATLESS_PLATFORMS
from hermes_memory_pgvector.domain.types import Candidate, Filters, Scope, Store
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.store.backend import Backend
from hermes_memory_pgvector.store.sql import queries, query
from tests.conftest import MakeProvider
from tests.support.candidates import lexical_candidates, vector_candidates
from tests.support.databases import Databases
from tests.support.memory import called, landed, runtime_of, write_entries
from tests.support.row_security import confine_runtime_role
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.statements import every_statement
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import DIMS

TOOLS = ("recall_memory", "recall_conversation")
DM = {
    "platform": "telegram", "gateway_session_key": "agent:main:telegram:dm:4915112345678", "chat_type": "dm",
    "chat_id": "4915112345678", "user_id": "4915112345678", "session_id": "dm-1",
}  # fmt: skip
GROUP = {
    "platform": "slack", "gateway_session_key": "agent:main:slack:group:C0123", "chat_type": "group",
    "chat_id": "C0123", "user_id": "U1", "session_id": "group-1",
}  # fmt: skip
SLACK_DM = GROUP | {"gateway_session_key": "agent:main:slack:dm:D99", "chat_type": "dm", "chat_id": "D99"}
CLI = {"platform": "cli", "gateway_session_key": "", "agent_identity": "default"}
QUESTION = "Which PIN opens the vault of the Atlas project?"


def tell(make_provider: MakeProvider, mark: str, config: dict[str, Any], **speaker: Any) -> PgvectorMemoryProvider:
    """A session in which `mark` was said, put into the built-in memory, and remembered."""
    provider = make_provider(config | {"tools": ["remember"]}, **speaker)
    provider.sync_turn(f"The PIN that opens the vault of the Atlas project is {mark}-said.", f"I know {mark}-said now.")
    claimed = {"platform": "cli", "chat_type": "group"}
    provider.on_memory_write("add", "memory", f"The vault of the Atlas project has the PIN {mark}-noted", claimed)
    called(provider, "remember", {"content": f"PIN of the Atlas vault, for good: {mark}-remembered", "sync": True})
    landed(provider)
    return provider


def everything_recalled(provider: PgvectorMemoryProvider, themes: list[str], *, filtered: bool = True) -> str:
    """What any argument of the tools brings to light; of those that filter, any or none."""
    where: list[dict[str, str]] = [{}, {"scope": "all"}, {"scope": "session"}, {"scope": "current"}]
    where += [{"theme": theme} for theme in themes]
    alike = [{"scope": f"{how}{theme}"} for how, theme in itertools.product(("", "theme:"), themes)]
    more: list[dict[str, Any]] = [
        {}, {"since": "2020"}, {"explain": True}, {"role": "user"}, {"target": "memory"}, {"offset": 1},
        {"query": '"PIN that opens the vault"'}, {"query": "volt of the Atlaz projet"},
    ]  # fmt: skip
    # Of the themes by name, the first is asked for with every other argument.
    filters = more if filtered else more[:1]
    arguments = [place | args for place, args in itertools.product(where[:5], filters)] + where[5:] + alike
    answers = [
        called(provider, tool, {"query": QUESTION, "limit": 50} | each)
        for tool, each in itertools.product(TOOLS, arguments)
    ]
    return json.dumps([*answers, provider.prefetch(QUESTION)])


@pytest.mark.parametrize(
    ("messaging", "embedded"),
    [("split", False), ("split", True), ("chat", True), ("profile", True)],  # which theme it is has no part in a search
    ids=["split, by words", "split, by meaning", "chat, by meaning", "profile, by meaning"],
)
def test_need_35_a_direct_message_is_in_no_other_theme_by_no_argument(
    make_provider: MakeProvider,
    embedder: ScriptedEmbedder,
    admin_dsn: str,
    dsn: str,
    messaging: str,
    embedded: bool,
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute("CREATE EXTENSION pg_trgm")
    config = {"messaging_theme": messaging} | ({"embed_url": embedder.url} if embedded else {})
    chat = tell(make_provider, "Xq4711", config, **DM)
    tell(make_provider, "Yq4712", config, gateway_session_key="sales")
    held = Database(dsn).column(
        "SELECT agent_identity FROM conversations UNION SELECT agent_identity FROM memory_entries ORDER BY 1"
    )
    themes = sorted([*held, "@telegram/default/", "@telegram/*", "boss"], key=lambda theme: not theme.startswith("@"))
    config |= {"theme_aliases": {"boss": next((theme for theme in held if theme.startswith("@")), "default")}}

    for other in ({"gateway_session_key": "marketing"}, {"gateway_session_key": "sales"}, GROUP):
        for reach in ("agents", "all", ["default", "sales", "@telegram/*"]):
            if other is GROUP and reach == "agents":
                continue  # is refused everything
            asking = make_provider(config | {"cross_theme": reach}, **other)
            told = everything_recalled(asking, themes, filtered=reach == "all")
            mine = messaging != "chat" and other is GROUP  # whose memories, or all, are the profile's by that setting
            marks = set(re.findall(r"Xq4711-\w+", told))
            assert not mine or messaging == "profile" or marks <= {"Xq4711-noted", "Xq4711-remembered"}, (other, reach)
            assert mine or not marks, (other, reach)
            assert "@telegram/default/" not in told, (other, reach)
            assert reach != "all" or "Yq4712-said" in told

    own = everything_recalled(chat, [])
    assert set(re.findall(r"Xq4711-\w+", own)) == {"Xq4711-said", "Xq4711-noted", "Xq4711-remembered"}
    if messaging == "split":
        assert "Xq4711-said" not in everything_recalled(make_provider(config, **CLI), themes)
        assert "Xq4711-noted" in everything_recalled(make_provider(config, **CLI), []), "the profile's, by that setting"


def test_need_35_what_another_session_reads_in_before_a_chat_announces_it_is_the_chat_s(
    make_provider: MakeProvider, home: Path
) -> None:
    chat = make_provider(**DM)
    secret = "The vault of the Atlas project has the PIN Xq4711"
    write_entries(home, "The vault of the Atlas project is blue", secret)
    landed(make_provider())
    chat.on_memory_write("add", "memory", secret)
    landed(chat)
    other = everything_recalled(make_provider({"cross_theme": "all"}), ["default"])
    assert "vault of the Atlas project is blue" in other and "Xq4711" not in other
    assert "Xq4711" in everything_recalled(chat, [])


@pytest.mark.parametrize("waiting", [(), ("--no-wait",)], ids=["at once", "by an agent"])
def test_need_35_what_an_operator_says_in_the_place_of_a_memory_of_a_chat_stays_there(
    waiting: tuple[str, ...], make_provider: MakeProvider, ask: Callable[..., Any], dsn: str
) -> None:
    chat = make_provider({"tools": ["remember"], "structure": True}, **DM)
    told = called(chat, "remember", {"content": "V[atlas.pin]: Xq4711", "sync": True})
    public = called(make_provider({"tools": ["remember"]}, **CLI), "remember", {"content": "A vault.", "sync": True})
    ask("add", "V[atlas.pin]: Xq4712", "--theme", "default", "--replaces", f"m{told['id']}", *waiting)
    own = make_provider(**CLI)
    until(lambda: "Xq4712" in json.dumps(called(own, "recall_memory", {"query": QUESTION})), what="the new value")
    ask("add", "V[atlas.door]: green", "--theme", "default", "--replaces", f"m{public['id']}")

    found = everything_recalled(make_provider({"cross_theme": "all"}, gateway_session_key="sales"), ["default"])
    assert "Xq471" not in found and "green" in found


def test_need_35_no_metadata_of_a_call_says_where_a_memory_comes_from(make_provider: MakeProvider) -> None:
    """Also where the host says less of the session than the caller does."""
    direct = SLACK_DM | {"chat_type": ""}
    chat, plain = (make_provider({"tools": ["remember"]}, **where) for where in (direct, CLI | {"platform": ""}))
    for claimed in ({"chat_type": "group"}, {"platform": "cli", "profile": "coder", "source": "file"}):
        said = {"content": "The Atlas vault has the PIN Xq4711", "sync": True, "metadata": claimed}
        called(chat, "remember", said)
        called(plain, "remember", said)
    called(plain, "remember", {"content": "The Atlas vault is blue", "sync": True, "metadata": {"platform": "ios"}})

    other = make_provider({"cross_theme": "all", "shared_chats": ["slack"]}, gateway_session_key="sales")
    found = everything_recalled(other, ["default"])
    assert "Xq4711" not in found
    assert "The Atlas vault is blue" in found


def test_need_35_refusals_and_notes_do_not_tell_which_chats_there_are(make_provider: MakeProvider, dsn: str) -> None:
    tell(make_provider, "Xq4711", {"messaging_theme": "chat"}, **DM)
    (theme,) = Database(dsn).column("SELECT DISTINCT agent_identity FROM conversations")
    other = make_provider({"cross_theme": "all"})
    for tool in TOOLS:
        held, made_up = (called(other, tool, {"query": QUESTION, "theme": name}) for name in (theme, theme[:-1] + "x"))
        assert held == made_up and "`shared_chats`" in held["error"]


@pytest.mark.parametrize("embedded", [False, True], ids=["by words", "by meaning"])
def test_need_35_an_operator_shares_groups_or_all_of_a_platform(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, dsn: str, embedded: bool
) -> None:
    config: dict[str, Any] = {"embed_url": embedder.url} if embedded else {}
    tell(make_provider, "Gq1", config, **GROUP)
    tell(make_provider, "Dq2", config, **SLACK_DM)
    tell(make_provider, "Tq3", config, **DM)
    group_theme = Database(dsn).column("SELECT agent_identity FROM conversations WHERE content ~ 'Gq1'")[0]
    all_of = {"said", "noted", "remembered"}
    for shared, expected in (
        ([], set()),
        (["slack"], {f"Gq1-{what}" for what in all_of}),
        (["@slack/*"], {f"{mark}-{what}" for mark in ("Gq1", "Dq2") for what in all_of}),
        (["@slack/default/*"], {f"{mark}-{what}" for mark in ("Gq1", "Dq2") for what in all_of}),
        ([group_theme], {"Gq1-said"}),
        (["@slack/coder/*", "signal"], set()),
        (["@slack/def *"], set()),
        (["Slack", "telegram"], {f"Gq1-{what}" for what in all_of}),
    ):
        other = make_provider(config | {"shared_chats": shared})
        asked: dict[str, Any] = {"query": QUESTION, "limit": 50}
        everywhere = json.dumps([called(other, tool, asked | {"scope": "all"}) for tool in TOOLS])
        assert set(re.findall(r"\b(?:Gq1|Dq2|Tq3)-\w+", everywhere)) == expected, shared
        by_name = json.dumps(called(other, "recall_conversation", asked | {"theme": group_theme}))
        assert ("Gq1-said" in by_name) == ("Gq1-said" in expected), shared


def test_need_35_what_stands_beside_a_hit_is_looked_at_as_well(make_provider: MakeProvider, dsn: str) -> None:
    """A session that was begun at the terminal and went on in a chat, where both have one theme."""
    config = {"messaging_theme": "profile"}
    terminal = make_provider(config, **CLI, session_id="both")
    terminal.sync_turn("Where does the zeppelin of the Atlas project land next summer?", "It lands at Lake Constance.")
    landed(terminal)
    chat = make_provider(config, **DM | {"session_id": "both", "agent_identity": "default"})
    chat.sync_turn("And the PIN of its mooring mast, so that I can find it here?", "The mooring mast has the PIN 4711.")
    landed(chat)
    answer = called(make_provider(config), "recall_conversation", {"query": "zeppelin", "scope": "all", "limit": 50})
    assert "Lake Constance" in json.dumps(answer) and "mooring mast" not in json.dumps(answer)
    assert "4711" in json.dumps(called(terminal, "recall_conversation", {"query": "zeppelin", "limit": 50}))


# -- every statement

TABLES: dict[Store, str] = {"turns": "conversations", "memories": "memory_entries"}
COLUMNS: dict[Store, tuple[str, str]] = {
    "turns": ("session_id, role", "'s', 'user'"),
    "memories": ("target", "'memory'"),
}
CHUNKS: dict[Store, str] = {"turns": "conversation_chunks", "memories": "memory_chunks"}
# Sizes by which a way to search is chosen; neither a row nor a word comes out of them.
SIZES = {f"{name}_{store}{more}" for store in TABLES for name, more in (
    ("count_some", "_all"), ("estimate_rows", ""), ("estimate_matches", ""),
)}  # fmt: skip


# What they say of the turns beside a match, they say as others do that are asked of other themes, too.
OF_THE_OWN_THEME = {"vector_search_turns", "vector_search_turns_session"}
# They tell an operator which of the rows that he looks at are private.
FOR_THE_OPERATOR = {"private_memories", "private_turns"}


def _serve_other_themes() -> list[str]:
    """The statements that the scope `all` uses, or a theme that is not the session's own."""
    return sorted(
        name
        for name, text in every_statement().items()
        if name not in OF_THE_OWN_THEME | FOR_THE_OPERATOR
        and ("%(any_theme)s" in text or "%(own)s" in text or re.search("explicit scope 'all'", text))
    )


@pytest.fixture
def rows(admin_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """The runtime role's connection to one public row, and private ones of each kind, in both tables."""
    vector = Vector([1.0] + [0.0] * (DIMS - 1))
    said = [
        ("profile", {"platform": "cli"}, "public"),
        ("profile", {"platform": "telegram", "chat_type": "dm", "profile": "profile"}, "private"),
        ("profile", {"platform": "slack", "chat_type": "group"}, "private"),
        ("@telegram/profile/0123456789abcdef", {"platform": "telegram"}, "private"),
        ("@telegram/profile/0123456789abcdef", {}, "private"),
    ]
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        register_vector(admin)
        admin.execute("CREATE EXTENSION pg_trgm")
        for store, table in TABLES.items():
            for theme, metadata, word in said:
                for kept in (True, False):  # with its vector, and with the signature that `compact` leaves
                    if not kept and store == "memories":
                        continue
                    columns, values = COLUMNS[store]
                    row = admin.execute(
                        f"INSERT INTO {table} (agent_identity, content, embedding, metadata, {columns})"
                        f" VALUES (%s, %s, %s, %s, {values}) RETURNING id".encode(),
                        (theme, f"the vault opens {word}word {len(metadata)} {kept}", vector, json.dumps(metadata)),
                    ).fetchone()
                    assert row is not None
                    admin.execute(
                        f"INSERT INTO {CHUNKS[store]} (row_id, part, agent_identity, first_char, embedding, sig)"
                        " VALUES (%s, 1, %s, 0, %s, binary_quantize(%s::vector))".encode(),
                        (row[0], theme, vector, vector),
                    )
                    if not kept:
                        with admin.transaction():
                            admin.execute("SELECT set_config('hermes_pgvector.keep_sig', 'on', true)")
                            admin.execute("UPDATE conversations SET embedding = NULL WHERE id = %s", (row[0],))
        admin.execute(
            "UPDATE memory_entries SET kind = 'procedure', state = 'active', applies_when = 'the vault opens'"
        )
        admin.execute("SET ROLE hermes")
        yield admin


@pytest.mark.parametrize("confined", [False, True], ids=["", "with row-level security"])
@pytest.mark.parametrize("theme", [None, "marketing"], ids=["by its name", "all"])
def test_need_35_no_statement_gives_another_theme_what_is_private(
    rows: psycopg.Connection[Any], admin_dsn: str, theme: str | None, confined: bool
) -> None:
    """Asked for all themes, or for the profile's by its name; `theme` is that of who asks."""
    if confined:
        confine_runtime_role(admin_dsn, "all")
    given: dict[str, Any] = {
        "theme": theme or "profile", "own": theme, "any_theme": theme is not None, "shared": ["@slack/coder/%"],
        "vector": Vector([1.0] + [0.0] * (DIMS - 1)), "limit": 50, "depth": 400, "deep": 400, "large": 3000, "reach": 3,
        "lookup": 50, "lookups": [], "known": [], "signed": 1200, "walked": 2000, "small": False,
        "sessions": ["s", "dm-1", "group-1"], "from_s": [0.0] * 3, "to_s": [1e12] * 3,
        "pivot": 45, "shares": [1.0],
        "kinds": None, "target": None, "role": None, "session_id": None, "since": "-infinity", "until": "infinity",
        "restricted": True,
        "matchers": ["'vault'"], "holding": [None], "absent": [1.0], "match": "'vault'", "recent": True, "exact": True,
        "whole": False,
        "rows": 50.0, "phrase": "the vault opens", "words": ["privatewor", "publicwor"], "initials": ["p"],
        "starts": ["-infinity"], "ends": ["infinity"], "most": 500, "told_in": None, "which": "last",
        "besides": ["none"], "turns": 6,
    }  # fmt: skip
    variants: list[dict[str, Any]] = [
        {}, {"match": "'privateword' | 'publicword'"}, {"recent": False}, {"whole": True}, {"match": None},
        {"restricted": False},
    ]  # fmt: skip
    rows.execute("SET plan_cache_mode = force_generic_plan")
    silent = []
    for name in [each for each in _serve_other_themes() if each not in SIZES]:
        serves_all = "explicit scope 'all'" in queries()[name]
        if "%(any_theme)s" not in queries()[name] and serves_all != (theme is not None):
            continue
        table = TABLES["memories" if "memor" in name or name == "procedures" else "turns"]
        ids = [row[0] for row in rows.execute(f"SELECT id FROM {table}".encode())]
        public = {row[0] for row in rows.execute(f"SELECT id FROM {table} WHERE content ~ 'publicword'".encode())}
        said = []
        for variant in variants:
            found = rows.execute(query(name, own_themes=confined), given | {"ids": ids} | variant)
            columns = [column.name for column in found.description or ()]
            for row in (dict(zip(columns, values, strict=True)) for values in found.fetchall()):
                said.append(row)
                told = {row["id"]} if "id" in row else set()
                assert told | set(row.get("before") or []) | set(row.get("after") or []) <= public, (name, row)
                assert "private" not in json.dumps({**row, "word": ""}, default=str), (name, row)
                assert row.get("sampled", 0) <= len(public), (name, row)
        if not said:
            silent.append(name)
    assert silent == [], "each finds what is public"


def test_need_35_a_statement_that_serves_other_themes_asks_what_is_readable() -> None:
    """A new one is in the test above by its parameters; this is what it has to hold."""
    serving = _serve_other_themes()
    assert len(serving) > 25
    assert [name for name in serving if name not in SIZES and "%(own)s" not in queries()[name]] == []


def test_need_35_the_platforms_without_chats_are_one_list() -> None:
    (listed,) = set(re.findall(r"'\{(\"\"[\w,]*)\}'::text\[\]", queries()["fetch_turns"]))
    assert {word.strip('"') for word in listed.split(",")} == CHATLESS_PLATFORMS


# -- what is private does not take the place of what is not

NEARER = 3000


@pytest.fixture(scope="module")
def filled(databases: Databases, migrated_template: str) -> Iterator[str]:
    """An admin's conninfo of a database with 60 public rows a table, and thousands of private ones that are nearer and
    newer."""
    with databases.copy(migrated_template) as admin_dsn:
        crowd(admin_dsn)
        yield admin_dsn


def crowd(admin_dsn: str) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        for store, table in TABLES.items():
            admin.execute(f"DROP INDEX {table}_embedding_idx".encode())
            columns, values = COLUMNS[store]
            for theme, metadata, count, start in (
                ("profile", "{}", 60, 0.5),
                ("profile", '{"platform": "telegram", "chat_type": "dm"}', NEARER, 0.0),
                ("@telegram/profile/0123456789abcdef", "{}", NEARER, 0.0),
            ):
                admin.execute(
                    f"INSERT INTO {table} (agent_identity, content, embedding, metadata, {columns})"
                    " SELECT %s, 'The vault of row ' || n || %s, (SELECT array_agg(CASE WHEN d <= %s THEN"
                    " sin(d + %s + n / 100000.0) ELSE sin(d) END) FROM generate_series(1, %s) AS d)::vector, %s,"
                    f" {values} FROM generate_series(1, %s) AS n".encode(),
                    (theme, metadata, DIMS // 2, start, DIMS, metadata, count),
                )
            admin.execute(
                f"INSERT INTO {CHUNKS[store]} (row_id, part, agent_identity, first_char, embedding, sig)"
                f" SELECT id, 1, agent_identity, 0, embedding, sig FROM {table} ORDER BY id LIMIT 2000".encode()
            )
            admin.execute(
                f"CREATE INDEX {table}_embedding_idx ON {table} USING hnsw (sig bit_hamming_ops)"
                " WITH (m = 4, ef_construction = 16)".encode()
            )
            admin.execute(f"VACUUM ANALYZE {table}".encode())


@pytest.fixture
def crowded_dsn(databases: Databases, filled: str) -> Iterator[str]:
    """An admin's conninfo of a copy of it."""
    with databases.copy_of(filled) as admin_dsn:
        yield admin_dsn


@pytest.fixture
def crowded(make_provider: MakeProvider, crowded_dsn: str) -> Backend:
    """The store of an agent there."""
    backend = runtime_of(make_provider({"dsn": make_conninfo(crowded_dsn, user="hermes")})).backend
    backend.bring_up()
    return backend


@pytest.mark.parametrize(
    "where", [Scope("all", "marketing"), Scope("theme", "profile", own=False)], ids=["all", "named"]
)
def test_need_13_many_private_rows_that_are_nearer_take_no_place(
    crowded: Backend, crowded_dsn: str, where: Scope
) -> None:
    vector = [math.sin(d) for d in range(1, DIMS + 1)]
    everything = Scope(where.kind, where.theme, shared=("%",))
    for store, table in TABLES.items():
        with psycopg.connect(crowded_dsn) as admin:
            register_vector(admin)
            exact = [
                row[0]
                for row in admin.execute(
                    f"SELECT id FROM {table} WHERE agent_identity = 'profile' AND metadata = '{{}}'"
                    " ORDER BY (embedding <=> %s) + 0 LIMIT 40".encode(),
                    (Vector(vector),),
                )
            ]

        def nearest(scope: Scope, graph_rows: int, filters: Filters, store: Store = store) -> list[Candidate]:
            with crowded.connection(60) as conn:
                return vector_candidates(conn, store, scope, filters, vector, limit=40, graph_rows=graph_rows)

        public = set(exact)
        assert not public & {each.id for each in nearest(everything, 10**9, Filters())}, "others are nearer"
        narrow = Filters(role="user") if store == "turns" else Filters(target="memory")
        for graph_rows, filters in itertools.product((1000, 10**9), (Filters(), narrow)):
            found = [each.id for each in nearest(where, graph_rows, filters)]
            assert len(found) == 40 and len(public & set(found)) >= 39, (store, graph_rows, filters)


def test_need_13_many_private_rows_with_the_words_take_no_place(crowded: Backend) -> None:
    for store, kind in itertools.product(TABLES, ("all", "theme")):
        scope = Scope("all", "marketing") if kind == "all" else Scope("theme", "profile", own=False)
        with crowded.connection(60) as conn:
            found = lexical_candidates(conn, store, scope, Filters(), "vault", limit=40)
        assert len(found) == 40, (store, kind)
