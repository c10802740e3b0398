"""Several passes before a turn: what answers, and the end of the session before."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.hostile import plain_lines
from tests.support.memory import landed
from tests.support.scripted_embedder import ScriptedEmbedder

SEVERAL = {"prefetch_passes": "several", "turn_min_chars": 1, "prefetch_deadline_s": 8.0}
CRANE = "The harbour crane is greased on Mondays by Ingrid"
ASK_CRANE = "When is the harbour crane greased?"
WEATHER = "Any rain expected near Lisbon this weekend, would you say?"


def talk(provider: PgvectorMemoryProvider, session: str, *subjects: str) -> None:
    for subject in subjects:
        provider.sync_turn(f"Let us speak about {subject} for a while.", f"{subject}: gladly.", session_id=session)
    landed(provider)


def subjects_in(block: str) -> list[str]:
    """What the lines speak about, in their order."""
    lines = plain_lines(block) if block else []
    known = ("apples", "bridges", "clocks", "dykes", "crane")
    return [next((subject for subject in known if subject in line), line) for line in lines]


@pytest.fixture
def provider(make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider whose last session spoke about three things, after an older one."""
    made = make_provider(SEVERAL, session_id="session-1")
    talk(made, "session-0", "dykes")
    talk(made, "session-1", "apples", "bridges", "clocks")
    made.on_memory_write("add", "memory", CRANE)
    landed(made)
    return made


def test_the_first_message_of_a_session_gets_the_end_of_the_one_before(provider: PgvectorMemoryProvider) -> None:
    provider.on_session_switch("session-2", parent_session_id="session-1", reset=True)
    block = provider.prefetch(ASK_CRANE)
    assert subjects_in(block) == ["crane", "bridges", "clocks"], "what answers; then the last turns, oldest first"
    assert 'user said] "Let us speak about clocks' in block
    assert provider.prefetch(WEATHER) == "", "only the first message"


def test_it_is_the_parent_where_one_is_named_else_who_spoke_last(
    make_provider: MakeProvider, provider: PgvectorMemoryProvider
) -> None:
    named = make_provider(SEVERAL, session_id="session-3", parent_session_id="session-0")
    assert subjects_in(named.prefetch(WEATHER)) == ["dykes"]
    unnamed = make_provider(SEVERAL, session_id="session-4")
    assert subjects_in(unnamed.prefetch(WEATHER)) == ["bridges", "clocks"]


def test_need_04_the_session_before_is_one_of_the_same_theme(
    make_provider: MakeProvider, provider: PgvectorMemoryProvider
) -> None:
    for parent in ("session-1", ""):
        other = make_provider(
            SEVERAL, session_id=f"sales-{parent}", gateway_session_key="sales", parent_session_id=parent
        )
        assert other.prefetch(WEATHER) == ""


def test_more_than_one_session_before(make_provider: MakeProvider, provider: PgvectorMemoryProvider) -> None:
    two = SEVERAL | {"prefetch_recent_sessions": 2, "prefetch_recent_turns": 2}
    assert subjects_in(make_provider(two, session_id="session-9").prefetch(WEATHER)) == ["dykes", "clocks"]
    talk(provider, "session-10", "apples")
    later = make_provider(two, session_id="session-11", parent_session_id="session-0")
    assert subjects_in(later.prefetch(WEATHER)) == ["dykes", "apples"], "the parent, and the one that spoke last"
    three = make_provider(two | {"prefetch_recent_sessions": 20, "prefetch_recent_turns": 1}, session_id="session-12")
    assert subjects_in(three.prefetch(WEATHER)) == ["dykes", "clocks", "apples"]


def test_a_session_that_goes_on_gets_no_session_before(
    make_provider: MakeProvider, provider: PgvectorMemoryProvider
) -> None:
    for reason in ("compression", "branch", "resume"):
        provider.on_session_switch(f"session-{reason}", parent_session_id="session-1", reason=reason)
        assert provider.prefetch(WEATHER) == "", reason
    restarted = make_provider(SEVERAL, session_id="session-1", parent_session_id="session-0")
    assert restarted.prefetch(WEATHER) == "", "a session with turns of its own has begun, whichever process began it"


@pytest.mark.parametrize(
    ("settings", "subjects"),
    [
        ({"prefetch_recent_turns": 1}, ["clocks"]),
        ({"prefetch_recent_turns": 0}, []),
        ({"prefetch_passes": "one"}, []),
        ({"prefetch_limit": 1}, ["bridges", "clocks"]),
        ({"prefetch_limit": 0}, []),
    ],
)
def test_how_many_turns_is_a_setting(
    settings: dict[str, Any], subjects: list[str], make_provider: MakeProvider, provider: PgvectorMemoryProvider
) -> None:
    fresh = make_provider(SEVERAL | settings, session_id="session-5")
    assert subjects_in(fresh.prefetch(WEATHER)) == subjects


def test_need_08_nothing_stands_there_twice_and_the_budget_is_hard(
    make_provider: MakeProvider, provider: PgvectorMemoryProvider
) -> None:
    asked = "Let us speak about clocks and bridges again"
    block = make_provider(SEVERAL, session_id="session-6").prefetch(asked)
    assert len(set(plain_lines(block))) == len(plain_lines(block))
    assert block.count("speak about clocks") == 1
    small = make_provider(SEVERAL | {"prefetch_max_tokens": 80}, session_id="session-7").prefetch(asked)
    assert small and estimate_tokens(small) <= 80


def test_need_09_politeness_gets_nothing(make_provider: MakeProvider, provider: PgvectorMemoryProvider) -> None:
    fresh = make_provider(SEVERAL, session_id="session-8")
    assert fresh.prefetch("Thanks!") == ""
    assert subjects_in(fresh.prefetch(WEATHER)) == ["bridges", "clocks"]


def test_what_answers_stands_in_the_order_of_one_pass(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    config = SEVERAL | {"embed_url": embedder.url, "min_similarity": 0.0}
    provider = make_provider(config)
    rare = f"An inventory of unrelated things, among them the QX-7731 code. {'Boxes and barrels. ' * 12}"
    for text in (rare, *(f"the harbour crane was greased again, {n} times" for n in range(8))):
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    asked = "When was the harbour crane greased, QX-7731?"
    one = make_provider(config | {"prefetch_passes": "one"}, session_id="session-2").prefetch(asked)
    assert one and provider.prefetch(asked) == one
