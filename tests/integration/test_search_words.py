"""Recall without any embedding: identifiers, and languages that do not separate words."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled
from tests.support.stored import Database

ROWS = {
    "code": "The deploy failed with ERR_CONN_42 on the second node",
    "other code": "The deploy failed with ERR_CONN_43 on the third node",
    "path": "Secrets are rendered into /etc/atlas/prod-secrets.yaml by the agent",
    "snake": "Set max_replica_lag_ms to 250 before the failover drill",
    "camel": "The class RetryBudgetPolicy decides how often a call is repeated",
    "version": "We pinned libfoo to v2.13.7-rc1 until the autumn",
    "ticket": "See OPS-1187 for why the queue is drained by hand",
    "address": "Invoices go to billing@example.org on the first of the month",
    "chinese": "上海办公室的会议室预订系统每周五晚上维护",
    "japanese": "週次レポートは毎週金曜日に山田さんが提出します",
    "korean": "서울 사무실의 회의실 예약은 매주 금요일에 점검합니다",
    "mixed": "部署脚本 deploy_prod.sh 需要先设置 AWS_REGION",
    "accents": "Das Café am Bahnhof öffnet für Gäste um sieben",
}
QUESTIONS = [
    ("ERR_CONN_42", "code"),
    ("err_conn_42", "code"),
    ("why did we see ERR_CONN_42 yesterday?", "code"),
    ("/etc/atlas/prod-secrets.yaml", "path"),
    ("prod-secrets.yaml", "path"),
    ("secrets yaml", "path"),
    ("max_replica_lag_ms", "snake"),
    ("replica lag", "snake"),
    ("RetryBudgetPolicy", "camel"),
    ("retry budget", "camel"),
    ("v2.13.7-rc1", "version"),
    ("OPS-1187", "ticket"),
    ("ops 1187", "ticket"),
    ("billing@example.org", "address"),
    ("会议室", "chinese"),
    ("上海的会议室什么时候维护？", "chinese"),
    ("週次レポート", "japanese"),
    ("山田さんは何を提出しますか", "japanese"),
    ("회의실 예약", "korean"),
    ("部署脚本需要什么", "mixed"),
    ("what does deploy_prod.sh need?", "mixed"),
    ("AWS_REGION 设置", "mixed"),
    ("cafe am bahnhof", "accents"),
    ("ＯＰＳ－１１８７", "ticket"),
]


@pytest.fixture
def provider(make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider without an embedding endpoint that knows all rows, as memories and as turns."""
    made = make_provider()
    for row in ROWS.values():
        made.on_memory_write("add", "memory", row)
        made.sync_turn(row, f"Noted, I will keep that in mind for later, number {len(row)}.")
    landed(made)
    return made


def test_need_20_identifiers_and_cjk_phrases_find_their_row(provider: PgvectorMemoryProvider) -> None:
    missed = [
        (question, tool, recalled(provider, question, tool=tool)[:1])
        for question, row in QUESTIONS
        for tool in ("recall_memory", "recall_conversation")
        if recalled(provider, question, tool=tool)[:1] != [ROWS[row]]
    ]
    assert missed == []


def test_need_20_recall_by_words_says_so(provider: PgvectorMemoryProvider) -> None:
    answer = called(provider, "recall_memory", {"query": "ERR_CONN_42"})
    assert answer["mode"] == "lexical"
    assert {hit["similarity"] for hit in answer["results"]} == {None}


def test_need_20_what_is_put_before_a_turn_finds_them_too(provider: PgvectorMemoryProvider) -> None:
    for question, row in (("ERR_CONN_42", "code"), ("会议室维护", "chinese"), ("週次レポート", "japanese")):
        assert ROWS[row] in provider.prefetch(question)


def test_need_20_no_extension_but_vector_is_used(admin_dsn: str) -> None:
    assert Database(admin_dsn).column("SELECT extname FROM pg_extension ORDER BY 1") == ["plpgsql", "vector"]


def test_need_19_every_part_of_a_long_text_is_found_by_words(make_provider: MakeProvider) -> None:
    provider = make_provider()
    filler = "Nothing of note happened in this part of the meeting, and then again nothing. "
    text = filler * 250 + "The vault code is QUARTZ-7719. " + filler * 250 + "前回の合言葉は紫陽花でした。"
    provider.on_memory_write("add", "memory", text)
    landed(provider)
    for question, part in (("QUARTZ-7719", "QUARTZ-7719"), ("vault code", "QUARTZ-7719"), ("紫陽花", "合言葉は紫陽花")):
        (found,) = recalled(provider, question)
        assert part in found, question
