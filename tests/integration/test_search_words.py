"""Recall without any embedding: identifiers, and languages that do not separate words."""

from __future__ import annotations

import random
import time
from itertools import count, islice
from pathlib import Path
from string import ascii_lowercase
from typing import LiteralString

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import MakeProvider
from tests.support.aged import age
from tests.support.embedded import BIN_DIR
from tests.support.local_models import link_model
from tests.support.memory import called, landed, recalled
from tests.support.model_files import MODEL_NAME
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database

ROWS = {
    "code": "The deploy failed with ERR_CONN_42 on the second node",
    "other code": "The deploy failed with ERR_CONN_43 on the third node",
    "path": "Secrets are rendered into /etc/atlas/prod-secrets.yaml by the agent",
    "snake": "Set max_replica_lag_ms to 250 before the failover drill",
    "camel": "The class RetryBudgetPolicy decides how often a call is repeated",
    "version": "We pinned libfoo to v2.13.7-rc1 until the autumn",
    "ticket": "See OPS-1187 for why the queue is drained by hand",
    "mail": "Invoices go to billing@example.org on the first of the month",
    "chinese": "上海办公室的会议室预订系统每周五晚上维护",
    "japanese": "週次レポートは毎週金曜日に山田さんが提出します",
    "korean": "서울 사무실의 회의실 예약은 매주 금요일에 점검합니다",
    "mixed": "部署脚本 deploy_prod.sh 需要先设置 AWS_REGION",
    "without blanks": "系统报错ERR_CONN_77错误，需要重启nginx服务器，2031年8月已修复",
    "name of two words": "The page was rewritten in ReactJS last winter",
    "accents": "Das Café am Bahnhof öffnet für Gäste um sieben",
    "flag": "Run the importer with --dry-run first, then with --max-rows=500",
    "emoji": "The pipeline that posts a 🦜 into the channel is broken",
    "hebrew": "פגישת הצוות נדחתה ליום שלישי",
    "arabic": "اجتماع الفريق يوم الثلاثاء في الساعة العاشرة",
    "thai": "การประชุมทีมเลื่อนไปวันอังคาร",
    "russian": "Встреча команды перенесена на вторник",
    "single": "黒い猫は三階に住んでいます",
    "folders": "Rates are computed in src/pricing/discount_policies.py since the audit",
    "soft hyphens": "Die Donau\u00addampf\u00adschiff\u00adfahrt ruht im Januar",
    "unseen": "\ufeffQuarterly figures come by p\u200bneumatic post",
    "sharp s": "Die Straße am Fluss ist wegen der Größe des Krans gesperrt",
    "greek": "Η οδός Ερμού είναι κλειστή σήμερα",
    "ampersand": "Bills of AT&T are paid by R&D",
    "flag sign": "The 🇩🇪 brochure has a ⭐ on its cover",
    "file": "The proxy reads /srv/atlas/proxy-limits.toml when it starts",
    "brackets": "The new signature is Optional<Voucher> in the Java client",
    "nick": "<annika> the ferry was cancelled again",
    "acronym": "The importer died with an SQLIntegrityException and a JSONDecodeError",
    "unit": "Mum takes ibuprofen 600mg at 7pm after the meal",
    "unit apart": "The parcel to Tromsø weighs 12 kg",
    "address": "The form is at https://forms.example.org/apply?ref=77134&lang=fi",
    "below zero": "The vaccines are kept at -23 degrees",
    "strokes": "Łukasz and Bjørn met Đặng in Gdańsk",
    "dotless": "Işıl lives in Ağrı",
    "harakat": "موعد محمّد يوم الإثنين",
    "niqqud": "הַסֵּפֶר עַל הַמַּדָּף",
    "initials": "IT is on the fourth floor, the WHO poster hangs beside it",
    "plural initials": "The PDFs of the audit were printed",
    "commit": "The websockets came back with 8d41e0b7c2f94d3aa1b6fe0c5d7a2b3c4d5e6f70",
    "short commit": "Quotes are slow since c0ffee1, says the bisection",
    "hyphens": "Part XK-4471 is ordered at 555-0142 or by e-mail",
    "price": "The chair by the window was $2,349.00 new",
    "apostrophe": "Наша кав'ярня зачинена",
    "non-joiner": "من می\u200cنویسم",
    "keyboards": "خانه علي است",
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
    ("billing@example.org", "mail"),
    ("会议室", "chinese"),
    ("上海的会议室什么时候维护？", "chinese"),
    ("週次レポート", "japanese"),
    ("山田さんは何を提出しますか", "japanese"),
    ("회의실 예약", "korean"),
    ("部署脚本需要什么", "mixed"),
    ("what does deploy_prod.sh need?", "mixed"),
    ("AWS_REGION 设置", "mixed"),
    ("ERR_CONN_77", "without blanks"),
    ("ERR_CONN_77怎么办", "without blanks"),
    ("nginx", "without blanks"),
    ("what happened in 2031?", "without blanks"),
    ("React", "name of two words"),
    ("reactjs", "name of two words"),
    ("cafe am bahnhof", "accents"),
    ("ＯＰＳ－１１８７", "ticket"),
    ("--dry-run", "flag"),
    ("what was dry run for?", "flag"),
    ("--max-rows", "flag"),
    ("budget policy class", "camel"),
    ("RETRYBUDGETPOLICY", "camel"),
    ("🦜", "emoji"),
    ("הצוות", "hebrew"),
    ("اجتماع الفريق", "arabic"),
    ("ประชุม", "thai"),
    ("встреча", "russian"),
    ("猫", "single"),
    ("Donaudampfschifffahrt", "soft hyphens"),
    ("quarterly", "unseen"),
    ("pneumatic", "unseen"),
    ("STRASSE", "sharp s"),
    ("grosse", "sharp s"),
    ("GRÖSSE", "sharp s"),
    ("ΟΔΟΣ", "greek"),
    ("AT&T", "ampersand"),
    ("r&d", "ampersand"),
    ("🇩🇪", "flag sign"),
    ("⭐", "flag sign"),
    ("policies", "folders"),
    ("pricing", "folders"),
    ("discount policy", "folders"),
    ("limits", "file"),
    ("budget policies", "camel"),
    ("voucher", "brackets"),
    ("annika", "nick"),
    ("exceptions", "acronym"),
    ("decode error", "acronym"),
    ("600 mg", "unit"),
    ("mg", "unit"),
    ("7 pm", "unit"),
    ("12kg", "unit apart"),
    ("77134", "address"),
    ("23", "below zero"),
    ("\u221223", "below zero"),
    ("Lukasz", "strokes"),
    ("bjorn", "strokes"),
    ("Dang", "strokes"),
    ("TROMSØ", "unit apart"),
    ("Isil", "dotless"),
    ("AĞRI", "dotless"),
    ("محمد", "harakat"),
    ("الاثنين", "harakat"),
    ("הספר", "niqqud"),
    ("where do I find IT?", "initials"),
    ("the WHO", "initials"),
    ("pdf", "plural initials"),
    ("8d41e0b", "commit"),
    ("did we roll back 8D41E0B7C2?", "commit"),
    ("c0ffee1d9a2b3c4d5e6f708192a3b4c5d6e7f809", "short commit"),
    ("what was c0ffee1d9?", "short commit"),
    ("XK4471", "hyphens"),
    ("5550142", "hyphens"),
    ("email", "hyphens"),
    ("2349", "price"),
    ("кавʼярня", "apostrophe"),
    ("می\u200cنویسم", "non-joiner"),
    ("مینویسم", "non-joiner"),
    ("علی", "keyboards"),
]


def _as_admin(admin_dsn: str, statement: LiteralString) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as connection:
        connection.execute(statement)


def _has_trigrams(admin_dsn: str) -> bool:
    """Whether this Postgres brings pg_trgm, as the one of the package does and others may not."""
    found = Database(admin_dsn).column("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
    assert found or BIN_DIR
    return bool(found)


def _add_trigrams(admin_dsn: str) -> bool:
    """Add pg_trgm to the database, and tell whether it is there now."""
    if there := _has_trigrams(admin_dsn):
        _as_admin(admin_dsn, "CREATE EXTENSION pg_trgm")
    return there


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


LONG_END = "the last line says PERIWINKLE-4410"


def test_need_19_what_stands_far_into_a_text_is_found(make_provider: MakeProvider) -> None:
    """Past 60,000 characters as well, and whatever the text is made of."""
    provider = make_provider()
    filler = " ".join(f"entry{number} of the ledger was read" for number in range(12_000))  # 400,000 characters
    provider.on_memory_write(
        "add", "memory", f"{filler} then the marmalade was sold, {filler} 合言葉は紫陽花です。{LONG_END}"
    )
    landed(provider)
    for question, part in (("PERIWINKLE-4410", LONG_END), ("marmalade", "marmalade"), ("紫陽花", "紫陽花")):
        (found,) = recalled(provider, question)
        assert part in found, question


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"{number:08x}-{number * 7919 % 2**32:08x}" for number in range(60_000)),  # more than a tsvector holds
        "a." * 100_000,
        "x" * 200_000,
        "\ufdfa" * 20_000,
        "".join(chr(0x4E00 + number * 7919 % 0x5000) for number in range(200_000)),
        "'\\:*&|!()." * 20_000,
        "1a" * 500_000,
        "a_b-" * 50_000,
        "\uff41\uff3f" * 50_000,
        "a_\u0301" * 50_000,
        "@1a" * 20_000,
        "./" * 100_000,
        "1.2.3-" * 30_000,
    ],
    ids=[
        "identifiers", "dots", "one word", "ligatures", "cjk", "signs", "digits and letters",
        "underscores", "wide underscores", "underscores with accents", "addresses", "paths", "versions",
    ],
)  # fmt: skip
def test_need_19_any_long_text_is_stored(text: str, admin_dsn: str, make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", text)
    landed(provider)
    assert Database(admin_dsn).column("SELECT content = %s FROM memory_entries", text) == [True]


@pytest.mark.parametrize("sign", ["_", "/", "."])
def test_need_20_a_name_of_hundreds_of_characters_is_found(sign: str, make_provider: MakeProvider) -> None:
    name = sign.join(f"walrus{number}" for number in range(100))
    provider = make_provider()
    provider.on_memory_write("add", "memory", f"It stands in src/harbour.py::{name}, at the end.")
    provider.on_memory_write("add", "memory", "A walrus swims.")
    landed(provider)
    for question in (name, f"What is {name}?", "walrus99", "walrus7"):
        (found, *_) = recalled(provider, question)
        assert name in found, question


# -- phrases ---------------------------------------------------------------------------------------------------------

SCATTERED = [f"The green harbour has a light, number {n}, and a green light is in the harbour" for n in range(60)]


def test_need_20_a_quoted_phrase_comes_first(make_provider: MakeProvider) -> None:
    provider = make_provider()
    rows = ["Nothing but a light harbour green here, as it was", "Signs: 会议室 and ERR_CONN_42 near /etc/atlas/x.yaml"]
    for row in [*rows, *SCATTERED]:
        provider.on_memory_write("add", "memory", row)
    landed(provider)
    for marks in ('"{}"', "“{}”", "„{}“", "«{}»", "「{}」"):
        asking = make_provider(session_id=f"session of {marks}")
        for phrase, row in (
            ("Light  Harbour", rows[0]),
            ("light harbour GREEN", rows[0]),
            ("会议室", rows[1]),
            ("ERR_CONN_42", rows[1]),
            ("/etc/atlas/x.yaml", rows[1]),
        ):
            question = f"is the green light in the green harbour {marks.format(phrase)}, number 7 or 8?"
            answer = recalled(asking, question)
            assert answer[0] == row, question
            assert len(answer) > 10, "the other words still find what they find"
        question = f"where was it that I read {marks.format('light harbour green')} last week?"
        assert rows[0] in asking.prefetch(question), question


def test_need_20_unbalanced_quotes_are_harmless(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", SCATTERED[0])
    landed(provider)
    for question in ('green "harbour', 'a 5" and a 6" light', '"', '""', '" "', "“green", '"*:&|"', "'harbour"):
        found = recalled(provider, question)
        known = any(word in question for word in ("green", "harbour", "light"))
        assert found == ([SCATTERED[0]] if known else []), question


def test_need_20_a_phrase_of_another_theme_stays_there(make_provider: MakeProvider) -> None:
    other = make_provider(gateway_session_key="sales")
    other.on_memory_write("add", "memory", "The orange lighthouse keeper")
    landed(other)
    provider = make_provider()
    provider.on_memory_write("add", "memory", "An orange was given to the keeper of a lighthouse")
    landed(provider)
    assert recalled(provider, '"orange lighthouse keeper"') == ["An orange was given to the keeper of a lighthouse"]
    assert recalled(provider, '"orange lighthouse keeper"', scope="all")[0] == "The orange lighthouse keeper"


# -- slips -----------------------------------------------------------------------------------------------------------

SLIPS = {
    "the zepelin over the lake": "A zeppelin was seen over the meadow",
    "when is the calender cleaned": "The calendar on the wall is from 1987",
    "accomodation": "Accommodation was booked in Bergen",
    "lgihthouse": "The lighthouse keeper retires in May",
    "Kühlschrnak": "Der Kühlschrank im zweiten Stock ist leer",
}


def test_need_20_a_misspelt_word_finds_its_row_with_pg_trgm(make_provider: MakeProvider, admin_dsn: str) -> None:
    provider = make_provider()
    for row in SLIPS.values():
        provider.on_memory_write("add", "memory", row)
        provider.sync_turn(row, f"Noted, I will keep that in mind for later, number {len(row)}.")
    landed(provider)
    before = {question: recalled(provider, question)[:1] for question in SLIPS}
    assert not any(before[question] == [row] for question, row in SLIPS.items())
    slips_are_known = _add_trigrams(admin_dsn)
    for question, row in SLIPS.items():
        for tool in ("recall_memory", "recall_conversation"):
            assert (recalled(provider, question, tool=tool)[:1] == [row]) == slips_are_known, question
    zeppelin = SLIPS["the zepelin over the lake"]
    assert (recalled(provider, "zepelin", scope="all")[:1] == [zeppelin]) == slips_are_known


def test_need_01_words_made_to_resemble_each_other_take_no_time(make_provider: MakeProvider, admin_dsn: str) -> None:
    """The rows, the middle of the question, and its ends, whose longest words are looked at."""
    _add_trigrams(admin_dsn)
    provider = make_provider()
    chance = random.Random(1)

    def ending(letters: int) -> str:
        return "".join(chance.choices("bcdfghjklmnpqrtvwxz", k=letters))

    provider.on_memory_write("add", "memory", " ".join(f"consultabc{ending(6)}" for _ in range(3000)))
    landed(provider)
    short = " ".join(ending(3) for _ in range(43))
    middle = " ".join(f"consultabc{ending(6)}" for _ in range(90))
    started = time.monotonic()
    assert provider.prefetch(f"consultabcd consultabcf {short} {middle} {short} consultabcg consultabch") == ""
    assert time.monotonic() - started < 10


def test_need_20_a_misspelt_time_is_that_time(make_provider: MakeProvider, admin_dsn: str) -> None:
    slips_are_known = _add_trigrams(admin_dsn)
    provider = make_provider()
    told = {
        "The kitchen gets green tiles from Bologna this summer.": 1,
        "The dentist is on Thursday at nine in the Calle Real.": 9,
        "It rained all day yesterday, so the garden house is wet.": 20,
    }
    for text, days in told.items():
        provider.sync_turn(text, None, session_id=f"session-of-{days}")
    landed(provider)
    for text, days in told.items():
        age(admin_dsn, text, days=days)
    first, *_ = told
    assert recalled(provider, "What did we talk about yesterday?", tool="recall_conversation")[0] == first
    misspelt = recalled(provider, "What did we talk about yesterdya?", tool="recall_conversation")
    assert misspelt[:1] == ([first] if slips_are_known else [])


def test_need_20_longer_words_do_not_hide_the_one_that_is_meant(make_provider: MakeProvider, admin_dsn: str) -> None:
    slips_are_known = _add_trigrams(admin_dsn)
    provider = make_provider()
    row = "The lighthouse keeper retires in May"
    for text in (row, "Jobs: " + " ".join(f"lgihthouse{letter}job" for letter in ascii_lowercase)):
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    assert recalled(provider, "lgihthouse") == ([row] if slips_are_known else [])


@pytest.mark.parametrize("tool", ["recall_memory", "recall_conversation"])
def test_need_20_the_vector_of_a_misspelt_question_is_that_of_what_is_meant(
    tool: str, make_provider: MakeProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> None:
    if not _add_trigrams(admin_dsn):
        return
    provider = make_provider({"embed_url": embedder.url})
    row = "The calendar of the company hangs beside the lessons"
    for text in (row, "The kettle of the office stands in the kitchen"):
        provider.on_memory_write("add", "memory", text)
        provider.sync_turn(text, "Noted.", session_id="earlier")
    landed(provider)
    best = called(provider, tool, {"query": "where are the lesons of the compny?", "explain": True})["results"][0]
    straight = called(provider, tool, {"query": "where are the lessons of the company?", "explain": True})["results"][0]
    assert best["explain"]["question"] == "where are the lessons of the company?"
    assert row in best["content"] and best["similarity"] == straight["similarity"]
    assert "question" not in straight["explain"]


def test_need_20_a_word_that_only_resembles_another_one_is_looked_for_as_well(
    home: Path, make_provider: MakeProvider, admin_dsn: str
) -> None:
    _add_trigrams(admin_dsn)
    link_model(home)
    patient = {"recall_deadline_s": 30.0, "prefetch_deadline_s": 8.0}
    provider = make_provider({"embed_url": f"local:{MODEL_NAME}"} | patient)
    rows = {
        "Where do I keep my diary?": "My journal is in the bottom drawer of the desk.",
        "Which physician do I see?": "Dr. Weber is my family doctor, his surgery is on Elm Street.",
        "What did the lawyer say?": "The attorney advised us to settle.",
    }
    alike = ["Dairy gives me a stomach ache.", "Tom is a physicist at the university.", "There is a layer of paint."]
    for row in (*rows.values(), *alike):
        provider.on_memory_write("add", "memory", row)
    landed(provider)
    for question, row in rows.items():
        assert row in provider.prefetch(question), question
        assert row in recalled(provider, question, limit=3), question


def test_need_20_a_word_that_exists_is_taken_for_none_that_does_not(
    home: Path, make_provider: MakeProvider, admin_dsn: str
) -> None:
    """The stem of "applying" resembles that of "application", but there is no "appliation"."""
    _add_trigrams(admin_dsn)
    link_model(home)
    provider = make_provider({"embed_url": f"local:{MODEL_NAME}", "recall_deadline_s": 30.0})
    provider.on_memory_write("add", "memory", "We are applying for the grant of the river trust.")
    landed(provider)
    query = {"query": "What should the application not mention?", "explain": True}
    (found,) = called(provider, "recall_memory", query)["results"]
    assert "question" not in found["explain"]


def test_need_20_a_common_word_is_mended_that_the_theme_does_not_hold(
    home: Path, make_provider: MakeProvider, admin_dsn: str
) -> None:
    """What answers says it in other words, so none of its words resembles the one that is misspelt."""
    _add_trigrams(admin_dsn)
    link_model(home)
    patient = {"recall_deadline_s": 30.0, "prefetch_deadline_s": 8.0}
    provider = make_provider({"embed_url": f"local:{MODEL_NAME}"} | patient)
    rows = {
        "Which instrumnet do I play?": "I have been learning the cello since January.",
        "What food am I alergic to?": "I cannot eat anything with peanuts.",
        "Do buyesr from Tokyo pay less?": "Customers in Japan get a discount.",
    }
    for row in rows.values():
        provider.on_memory_write("add", "memory", row)
    landed(provider)
    for question, row in rows.items():
        assert row in provider.prefetch(question), question
        assert recalled(provider, question, limit=1) == [row], question
    explained = called(provider, "recall_memory", {"query": "Which instrumnet do I play?", "explain": True})
    assert explained["results"][0]["explain"]["question"] == "Which instrument do I play?"


def test_need_20_a_word_that_memories_or_turns_hold_is_not_misspelt(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> None:
    _add_trigrams(admin_dsn)
    provider = make_provider({"embed_url": embedder.url})
    provider.on_memory_write("add", "memory", "The marina opens in April")
    provider.sync_turn("The marine biologist called about the seals.", "Noted.", session_id="earlier")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    provider.prefetch("Who is the marine biologist?")
    assert any("marine biologist" in str(body) for body in embedder.bodies)
    assert not any("marina biologist" in str(body) for body in embedder.bodies)


def test_need_20_the_embedded_postgres_knows_slips(postgres: EmbeddedServer) -> None:
    admin = postgres.ensure().admin
    found = Database(admin).column("SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm'")
    assert bool(found) == _has_trigrams(admin)


def test_need_20_names_and_words_that_exist_are_no_slips(make_provider: MakeProvider, admin_dsn: str) -> None:
    slips_are_known = _add_trigrams(admin_dsn)
    provider = make_provider()
    for row in ("The deploy failed with ERR_CONN_42", "Biking takes an hour", "A table stands in the hall"):
        provider.on_memory_write("add", "memory", row)
    landed(provider)
    assert recalled(provider, "ERRCONN43") == []
    assert recalled(provider, "hiking") == [], "another word, not a slip"
    assert recalled(provider, "cable") == []
    other = make_provider(gateway_session_key="sales")
    assert recalled(other, "tabel") == [], "words of other themes are not looked at"
    assert recalled(provider, "tabel") == (["A table stands in the hall"] if slips_are_known else [])


# -- languages -------------------------------------------------------------------------------------------------------


def test_need_20_a_theme_has_its_language(make_provider: MakeProvider, admin_dsn: str) -> None:
    config = {"text_languages": ["berlin*=german", "raw=simple"]}
    row = "Die Häuser am Ufer wurden über Nacht geöffnet; the running kept them busy all day long"
    for theme in ("berlin-support", "raw", "london"):
        provider = make_provider(config, gateway_session_key=theme)
        provider.on_memory_write("add", "memory", row)
        provider.sync_turn(row, "Noted, I will keep that in mind for the time being.")
        landed(provider)
        for tool in ("recall_memory", "recall_conversation"):
            assert recalled(provider, "Haus", tool=tool)[:1] == ([row] if theme == "berlin-support" else []), theme
            assert recalled(provider, "runs", tool=tool)[:1] == ([row] if theme == "london" else []), theme
            assert recalled(provider, "Häuser", tool=tool)[:1] == [row], theme
            assert recalled(provider, "hauser", tool=tool)[:1] == [row], theme
        assert recalled(provider, "über") == ([] if theme == "berlin-support" else [row]), (
            "a word without weight in German"
        )
        assert len(recalled(provider, "Haus", scope="all")) >= 1, "across themes in every language that is set"
    languages = Database(admin_dsn).column(
        "SELECT DISTINCT agent_identity || ' ' || text_language FROM conversations ORDER BY 1"
    )
    assert languages == ["berlin-support german", "london english", "raw simple"]


@pytest.mark.parametrize("language", ["german", "arabic", "hindi"])
def test_need_19_marks_that_stand_alone_are_stored_in_any_language(make_provider: MakeProvider, language: str) -> None:
    """What Arabic fills a line with, and vowel marks without a letter, are words of which folding leaves nothing."""
    rows = ["الموعد ـ يوم الثلاثاء ـــ في المكتب", "العقد \u064b محفوظ في الخزانة", "תשובה \u05bf נכונה", "ــ"]
    provider = make_provider({"text_language": language})
    for row in rows:
        provider.on_memory_write("add", "memory", row)
    landed(provider)
    for question, row in (("الثلاثاء", rows[0]), ("الخزانة ـ", rows[1]), ("נכונה", rows[2])):
        assert recalled(provider, question)[:1] == [row], question
    assert provider.runtime is not None
    assert provider.runtime.backend.counts()["memories"] == len(rows)


def test_need_20_a_phrase_is_found_across_themes_of_several_languages(make_provider: MakeProvider) -> None:
    config = {"text_languages": ["berlin*=german", "raw=simple"]}
    scattered = "The running stopped, the houses with open windows were empty, and nobody was at home"
    rows = {
        "london": "We saw houses with running water and open windows",
        "berlin-support": "Die Häuser mit offenen Fenstern stehen leer",
    }
    for theme, row in rows.items():
        provider = make_provider(config, gateway_session_key=theme)
        for text in (row, *(f"{scattered}, number {n}" for n in range(5))):
            provider.on_memory_write("add", "memory", text)
        landed(provider)
    asked = make_provider(config)
    for phrase, theme in (("houses with running water", "london"), ("Häuser mit offenen Fenstern", "berlin-support")):
        question = f'which empty houses stopped running at home, nobody said "{phrase}"'
        assert recalled(asked, question, scope="all")[0] == rows[theme], phrase


def test_need_20_a_theme_changes_its_language_by_one_statement(make_provider: MakeProvider, admin_dsn: str) -> None:
    row = "Die Häuser am Ufer sind gelb"
    provider = make_provider()
    provider.on_memory_write("add", "memory", row)
    landed(provider)
    german = make_provider({"text_language": "german"})
    assert recalled(german, "Haus") == []
    _as_admin(admin_dsn, "UPDATE memory_entries SET text_language = 'german' WHERE agent_identity = 'marketing'")
    assert recalled(german, "Haus") == [row]


# -- how much of a text the words are --------------------------------------------------------------------------------

ADVICE = (
    "Here is how much a deposit for a flat in Ghent may matter when you plan a move. First compare "
    "neighbourhoods, noise, transport, schools, parks and shops. Then ask the landlord about heating, insulation, "
    "windows, repairs, furniture, parking, bicycles, pets, visitors and subletting. Keep receipts, photographs "
    "and letters in one folder, translate the contract, and let a lawyer or a tenants' union read it. Register at "
    "the town hall, insure your belongings, transfer electricity, water and internet, and forward your mail. "
    "Finally plan the day itself: boxes, helpers, a van, lunch."
)
QUOTE = "The deposit for the flat in Ghent is 1,400 euros"


def test_need_20_a_short_statement_stands_before_a_long_answer_with_every_word(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.sync_turn(QUOTE, ADVICE, session_id="a")
    landed(provider)
    asked = "How much is the deposit for the flat in Ghent?"
    assert recalled(provider, asked, tool="recall_conversation") == [QUOTE], "of an exchange what fits best"


def test_need_20_among_long_notes_the_one_that_holds_more_of_the_question_comes_first(
    make_provider: MakeProvider,
) -> None:
    """Where all texts are long, length tells less: the shorter note with two of the words is no better answer."""
    provider = make_provider()
    counted = count()

    def note(words: int, *held: str) -> str:
        filler = ("".join(chr(ord("b") + number // 20**place % 20) for place in range(5)) for number in counted)
        return " ".join([*held, *islice(filler, words)])

    answer = note(115, "ferry", "timetable", "harbour")
    pairs = ("ferry", "timetable"), ("ferry", "harbour"), ("timetable", "harbour")
    for text in (answer, *(note(60, *held) for held in pairs)):
        provider.on_memory_write("add", "memory", text)
    for _ in range(16):
        provider.on_memory_write("add", "memory", note(60))
    landed(provider)
    assert recalled(provider, "ferry timetable harbour")[0] == answer


def test_need_20_a_word_of_most_rows_says_little(make_provider: MakeProvider) -> None:
    provider = make_provider()
    for number in range(60):
        provider.on_memory_write("add", "memory", f"The harbour office noted arrival {number} at the harbour gate")
    provider.on_memory_write("add", "memory", "A sextant lies in the drawer of the chief mate")
    landed(provider)
    assert "sextant" in recalled(provider, "Where in the harbour is the sextant?")[0]


def test_need_20_words_that_share_a_character_are_related(make_provider: MakeProvider) -> None:
    """Pairs alone do not tell which of two rows with one pair in common is about the same."""
    provider = make_provider()
    provider.on_memory_write("add", "memory", "他昨天在公园打了排球")
    provider.on_memory_write("add", "memory", "他昨天在公园写了日记")
    landed(provider)
    assert recalled(provider, "公园里谁玩球")[0] == "他昨天在公园打了排球"


CAT = "我家里有一只橘猫，名字叫团团，今年三岁了"


@pytest.mark.parametrize("scope", ["theme", "session", "all"])
def test_need_20_a_shared_character_finds_its_row_among_hundreds(make_provider: MakeProvider, scope: str) -> None:
    """No pair of the question stands in the row, as in a small theme."""
    provider = make_provider({"cross_theme": "all"})
    for number in range(200):
        provider.sync_turn(f"第{number}次会议讨论了明年的预算和计划安排", "", session_id="s")
    provider.sync_turn(CAT, "", session_id="s")
    landed(provider)
    asked = {"session": {"session_id": "s"}, "all": {"scope": "all"}, "theme": {}}[scope]
    assert recalled(provider, "他养猫吗", tool="recall_conversation", **asked)[0] == CAT


# -- words that no row holds -------------------------------------------------------------------------------------------


def test_need_20_pairs_that_cross_words_do_not_hide_what_matches(provider: PgvectorMemoryProvider) -> None:
    """Every second pair of a question in Chinese or Japanese is half of one word and half of the next."""
    assert ROWS["chinese"] in provider.prefetch("请问我们上海的会议室到底是什么时候维护的？")
    assert ROWS["japanese"] in provider.prefetch("山田さんは週次レポートをいつも何曜日に提出しますか")
    assert provider.prefetch("请问北京今天的天气怎么样，需要带雨伞吗？") == ""


def test_need_19_the_question_after_a_pasted_log_counts(provider: PgvectorMemoryProvider) -> None:
    log = "\n".join(
        f"2024-05-01T12:00:{n % 60:02d} worker-{n:06d} INFO request-{n * 7919:08x} done" for n in range(2_000)
    )
    asked = "Why is the queue drained by hand since OPS-1187?"
    for pasted in (f"{log}\n{asked}", f"{asked}\n{log}"):
        assert len(pasted) > 100_000
        assert recalled(provider, pasted)[0] == ROWS["ticket"]
    assert ROWS["ticket"] in provider.prefetch(pasted)


def test_need_19_a_short_name_in_the_middle_of_a_message_counts(provider: PgvectorMemoryProvider) -> None:
    """A message of a paragraph or two has more words than a question, and each of them may be what it is about."""
    provider.on_memory_write("add", "memory", "Ines keeps bees.")
    provider.on_memory_write("add", "memory", "The brochure describes the harbour.")
    landed(provider)
    message = (
        "Good morning! The presentation yesterday went considerably better than expected, and everybody seemed "
        "satisfied, especially with the photographs that we had selected together on Wednesday afternoon. Before we "
        "continue with preparations for the exhibition: I met Ines, who wondered whether something could be arranged "
        "around Christmas. Perhaps somebody remembers what she mentioned. Otherwise, please summarise the remaining "
        "decisions, estimate realistic expenses, and suggest a timetable that leaves sufficient space for unforeseen "
        "difficulties and corrections."
    )
    assert called(provider, "recall_memory", {"query": message})["results"][0]["content"] == "Ines keeps bees."


# -- other languages than that of the theme's stems --------------------------------------------------------------------

HOUSEHOLD = (
    "Frau Özdemir von nebenan gießt die Blumen und leert den Briefkasten",
    "neuer kuehlschrank: Liebherr CNsdc 5223, 899 euro bei Expert, lieferung am montag",
    "Der Türöffner vom Hoftor ist bei Somfy bestellt, er kommt in drei Wochen",
    "Wir haben den Stromanbieter gewechselt, das waren einmal 36 Cent",
    "El alquiler del local sube a 1.150 euros desde enero, antes eran 1.080",
    "Hemos contratado a Nerea para los sábados, 9 euros la hora, empieza el 14",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wer gießt die Blumen, wenn wir weg sind?", 0),
        ("Welchen Kühlschrank haben wir da eigentlich gekauft?", 1),
        ("wo haben wir denn den tueroeffner her, der noch kommt", 2),
        ("¿Cuánto pagamos de alquiler desde que empezó el año en enero?", 4),
        ("¿Cuánto es lo que gana Nerea?", 5),
    ],
)
def test_need_39_words_that_build_a_sentence_hide_no_line(
    make_provider: MakeProvider, question: str, answer: int
) -> None:
    provider = make_provider()
    for text in HOUSEHOLD:
        provider.sync_turn(text, None, session_id="before")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    assert HOUSEHOLD[answer] in provider.prefetch(question)


def test_need_39_they_bring_no_line_either(make_provider: MakeProvider) -> None:
    provider = make_provider()
    for text in HOUSEHOLD:
        provider.sync_turn(text, None, session_id="before")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    for question in ("Was haben wir einmal bei den anderen gemacht?", "Wie ist das denn mit dem Drachen von damals?"):
        assert provider.prefetch(question) == ""
