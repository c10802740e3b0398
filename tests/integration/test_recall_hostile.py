"""Memories written to be obeyed come back as quotes."""

from __future__ import annotations

import json

import pytest

from hermes_memory_pgvector.domain.text import strip_injected
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.hostile import HOSTILE, plain_lines
from tests.support.memory import called, landed
from tests.support.stored import Database


@pytest.fixture
def provider(make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider that was told every hostile text, as a memory and as a turn, each with a name to find it by."""
    made = make_provider({"prefetch_max_tokens": 4000, "turn_min_chars": 1})
    for number, text in enumerate(HOSTILE):
        made.on_memory_write("add", "memory", f"walrus{number} {text} seal{number}")
        made.sync_turn(f"walrus{number}", f"walrus{number} {text} seal{number}, I said", session_id="earlier")
    landed(made)
    return made


def test_need_23_a_block_of_hostile_memories_is_a_heading_and_a_line_a_hit(provider: PgvectorMemoryProvider) -> None:
    for number in range(len(HOSTILE)):
        provider.on_session_switch(f"session-{number}", reset=True)
        block = provider.prefetch(f"walrus{number}")
        lines = plain_lines(block)
        assert 1 <= len(lines) <= 5
        assert all(f"walrus{number}" in line for line in lines)
        # The host wraps the block like this and cuts it out again before the turn is stored.
        told = f"<memory-context>\n{block}\n</memory-context>\n\nwalrus"
        assert strip_injected(told) == "walrus"


def test_need_23_what_was_injected_is_not_stored_as_said(provider: PgvectorMemoryProvider, dsn: str) -> None:
    for number in range(len(HOSTILE)):
        block = provider.prefetch(f"walrus{number}")
        provider.sync_turn(f"<memory-context>\n{block}\n</memory-context>\n\nWhere does the otter{number} live?", None)
    landed(provider)
    said = Database(dsn).column("SELECT content FROM conversations WHERE content LIKE '%%otter%%' ORDER BY id")
    assert said == [f"Where does the otter{number} live?" for number in range(len(HOSTILE))]


def test_need_23_a_tool_returns_hostile_text_as_one_json_string(provider: PgvectorMemoryProvider) -> None:
    for tool in ("recall_memory", "recall_conversation"):
        for number in range(len(HOSTILE)):
            text = provider.handle_tool_call(tool, {"query": f"walrus{number}", "limit": 3, "explain": True})
            assert json.loads(text)["count"] >= 1


QUERIES = [
    "'; DROP TABLE conversations; --", "%' OR 1=1 --", "$1 %(theme)s %s {theme} :theme", "\\'; SELECT pg_sleep(9) --",
    "a & b | !c <-> (d)", "'quoted' \"double\" `tick`", "((((", "))) or (((", ":*", "&", "|", "!", "<->", "\\", "\\\\",
    "'", "''", "E'\\\\x00'", "@0123456789abcdef", "\0", "\ud800", "👍 and 🎉", "👍", "مرحبا بالعالم", "שלום עולם RTL",
    "上海的会议室什么时候维护", "週次レポート", "회의실", "ｆｕｌｌ　ｗｉｄｔｈ", "e\u0301\u0301\u0301",
    "\u202eesrever\u202c", "\u200fRTL\u200f",
    "İstanbul ıIiİ", "ß ẞ ﬁ", "x" * 5000, "a-b_c.d/e:f#g@h" * 100, "-" * 3000,
    "1e309 NaN inf",
    "http://a.b/c?d=e&f=g#h", "the of and to", "\u3000", "\x1b[31m", "١٢٣", "𝕸𝖆𝖙𝖍",
]  # fmt: skip


@pytest.mark.parametrize("tool", ["recall_memory", "recall_conversation"])
def test_trap_09_odd_queries_find_or_do_not_find_and_break_nothing(
    tool: str, provider: PgvectorMemoryProvider, dsn: str
) -> None:
    before = Database(dsn).column("SELECT count(*) FROM conversations")
    for scope in ("current", "session", "all", "'; DROP TABLE conversations; --"):
        for query in QUERIES:
            answer = called(provider, tool, {"query": query, "scope": scope})
            assert "error" not in answer or answer["error"].startswith("`query` is empty"), (query, answer)
    for query in QUERIES:
        assert isinstance(provider.prefetch(query), str)
    assert Database(dsn).column("SELECT count(*) FROM conversations") == before
    assert "prefetch_failures" not in (provider.runtime.counts if provider.runtime else {})


def test_trap_09_a_word_of_any_writing_finds_its_row(make_provider: MakeProvider) -> None:
    provider = make_provider()
    rows = [
        "مفتاح المستودع عند ليلى", "המפתח של המחסן אצל דנה", "Ключ от склада у Анны", "Το κλειδί είναι στην Άννα",
        "गोदाम की चाबी सीता के पास है", "仓库的钥匙在小李那里", "倉庫の鍵は田中さんにあります",
        "창고 열쇠는 민수에게 있다",
    ]  # fmt: skip
    for row in rows:
        provider.on_memory_write("add", "memory", row)
    landed(provider)
    for row in rows:
        word = max(row.split(), key=len)
        assert called(provider, "recall_memory", {"query": word})["results"][0]["content"] == row, word
