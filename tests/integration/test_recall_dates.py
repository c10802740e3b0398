"""Questions that name a time: what was told then comes first, whatever else it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes_memory_pgvector.domain.types import Hit
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.relevance import worth_showing
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.aged import age, in_order
from tests.support.databases import Databases
from tests.support.local_models import link_model
from tests.support.memory import landed, recalled, runtime_of
from tests.support.model_files import MODEL_NAME
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

TURNS = "recall_conversation"
# By how many days ago a session was, what it was about: nothing that a question for the day has a word of.
SUBJECTS = {
    40: ("badminton club", "company picnic", "garden fence"),
    21: ("card games", "red wine", "leaking roof"),
    20: ("mountain hike", "sourdough bread", "piano lessons"),
    19: ("night trains", "tax forms", "chess openings"),
    5: ("garage door", "herbal teas", "Latin verbs"),
}


def on(days: int, form: str) -> str:
    return f"{datetime.now(UTC) - timedelta(days=days):{form}}".replace(" 0", " ")


def told(subject: str) -> str:
    return f"Nowadays my {subject} keeps me busy from dawn to dusk."


WITHOUT_VECTOR = "SELECT count(*) FROM conversations WHERE embedding IS NULL"


@pytest.fixture(scope="module")
def filled(
    databases: Databases, migrated_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Databases with the sessions, without vectors and with them."""
    home = tmp_path_factory.mktemp("filled")
    with ScriptedEmbedder(dims=DIMS) as embedder, ExitStack() as stack:
        made = {"words": stack.enter_context(databases.copy(migrated_template))}
        made["meaning"] = stack.enter_context(databases.copy(migrated_template))
        for kind, admin_dsn in made.items():
            section = {"dsn": admin_dsn, "dims": DIMS, "embed_url": embedder.url if kind == "meaning" else ""}
            provider = PgvectorMemoryProvider(section)
            provider.initialize(
                "session-1", hermes_home=str(home), platform="api_server", gateway_session_key="marketing"
            )
            for days, subjects in SUBJECTS.items():
                for subject in subjects:
                    provider.sync_turn(told(subject), None, session_id=f"session-of-{days}")
            landed(provider)
            if kind == "meaning":
                stored = Database(admin_dsn)
                until(lambda stored=stored: stored.column(WITHOUT_VECTOR) == [0], what="the vectors")
            close_all()
            for days, subjects in SUBJECTS.items():
                for place, subject in enumerate(subjects):
                    age(admin_dsn, told(subject), days=in_order(days, place))
        yield made


@pytest.fixture(params=["words", "meaning"])
def kind(request: pytest.FixtureRequest) -> str:
    """How the provider searches."""
    return str(request.param)


@pytest.fixture
def admin_dsn(
    request: pytest.FixtureRequest, databases: Databases, migrated_template: str, filled: dict[str, str]
) -> Iterator[str]:
    """A new database, which holds the sessions for a test that asks the provider that remembers them."""
    if "provider" in request.fixturenames:
        source = databases.copy_of(filled[request.getfixturevalue("kind")])
    else:
        source = databases.copy(migrated_template)
    with source as made:
        yield made


@pytest.fixture
def provider(kind: str, make_provider: MakeProvider, embedder: ScriptedEmbedder) -> PgvectorMemoryProvider:
    """A provider that remembers the sessions, with and without an embedding endpoint."""
    return make_provider({"embed_url": embedder.url} if kind == "meaning" else {})


@pytest.mark.parametrize(
    "question",
    [
        "What did we speak about on %d %B %Y?",
        "What were the topics on %Y-%m-%d?",
        "Worum ging es am %d.%m.%Y?",
        "%Y年%m月%d日我们聊了什么？",
    ],
)
def test_need_39_what_was_spoken_of_on_a_day(question: str, provider: PgvectorMemoryProvider) -> None:
    found = recalled(provider, on(20, question), tool=TURNS, limit=6)
    assert {told(subject) for subject in SUBJECTS[20]} <= set(found[:4])


@pytest.mark.parametrize(
    "question",
    [
        "What did we talk about on %d %B %Y?",
        "On %B %d, %Y we talked a lot. What topics did we discuss?",
        "Worüber haben wir am %d.%m.%Y gesprochen?",
        "De quoi avons-nous parlé le %d/%m/%Y ?",
        "%Y年%m月%d日我们聊了什么？",
    ],
)
def test_need_39_words_about_talking_find_no_talk_of_another_day(
    question: str, provider: PgvectorMemoryProvider, dsn: str
) -> None:
    besides = (
        "We talked a lot about the topics that we discuss: what we said was talk about talk.",
        "Wir haben viel gesprochen, und worüber wir gesprochen haben, das war das Thema.",
        "Nous avons beaucoup parlé de ce dont nous avons parlé.",
        "我们聊了什么？我们聊了我们聊了什么。",
    )
    for text in besides:
        provider.sync_turn(text, None, session_id="session-of-19")
    landed(provider)
    for text in besides:
        age(dsn, text, days=19)
    found = recalled(provider, on(20, question), tool=TURNS, limit=6)
    assert {told(subject) for subject in SUBJECTS[20]} == set(found[:3])


def test_need_39_before_a_question_for_a_day_stands_what_was_said_then(provider: PgvectorMemoryProvider) -> None:
    provider.on_session_switch("another", parent_session_id="", reset=True)
    block = provider.prefetch(on(20, "What did we talk about on %d %B %Y?"))
    assert all(told(subject) in block for subject in SUBJECTS[20])
    assert not any(told(subject) in block for days in (5, 40) for subject in SUBJECTS[days])
    assert provider.prefetch(on(20, "I was in town on %d %B %Y.")) == ""
    assert provider.prefetch(on(30, "What did we talk about on %d %B %Y?")) == "", "nothing was said then"


@pytest.mark.parametrize(
    "question",
    [
        "What did I find on %d %B %Y?",
        "what happened on %d %B %Y",
        "Was habe ich am %d.%m.%Y gefunden?",
        "Qu'est-ce que j'ai trouvé le %d/%m/%Y ?",
        "¿Qué encontré el %d/%m/%Y?",
        "Which letter did I write to my bank on %d %B %Y?",
    ],
)
def test_need_39_what_was_told_on_a_day_need_not_be_near_to_a_question_for_it(
    question: str, provider: PgvectorMemoryProvider
) -> None:
    provider.on_session_switch("another", parent_session_id="", reset=True)
    block = provider.prefetch(on(20, question))
    assert all(told(subject) in block for subject in SUBJECTS[20])
    assert not any(told(subject) in block for days in (5, 40) for subject in SUBJECTS[days])
    assert not provider.prefetch(on(30, question)), "nothing was said then"


@pytest.mark.parametrize(
    "question",
    [
        "Who won the boat race on %d %B %Y?",
        "What did I find in %B %Y?",
        "I slept badly on %d %B %Y, what can I do about it?",
        "My plane was late on %d %B %Y, how do I claim compensation?",
        "Translate this for me: Am %d.%m.%Y war ich im Kino",
        "Could you shorten this text that I wrote on %d %B %Y?",
        "What was the weather on %d %B %Y?",
        "How do I convert %Y-%m-%d to a unix timestamp?",
        "The log says %Y-%m-%d 12:00:01 ERROR disk full, what should I do?",
        "Is %d %B %Y a holiday?",
        "Is %d %B %Y over?",
    ],
)
def test_need_09_a_question_about_something_else_gets_nothing_of_its_day(
    question: str, provider: PgvectorMemoryProvider
) -> None:
    provider.on_session_switch("another", parent_session_id="", reset=True)
    assert not provider.prefetch(on(20, question))


def test_need_09_a_day_without_a_year_may_be_the_next_one(provider: PgvectorMemoryProvider, dsn: str) -> None:
    coming = (datetime.now(UTC).replace(day=1) + timedelta(days=40)).replace(day=1)
    last = coming.replace(year=coming.year - 1)
    provider.sync_turn(told("night ferry"), None, session_id="session-of-last-year")
    landed(provider)
    age(dsn, told("night ferry"), days=(datetime.now(UTC) - last).days)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    assert not provider.prefetch(f"When do we leave on {coming:%B} 1?")
    assert told("night ferry") in provider.prefetch(f"What did I find on {last:%B} 1, {last.year}?")


def test_need_39_what_names_the_day_itself_was_perhaps_said_on_another(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, dsn: str
) -> None:
    config = {"embed_url": embedder.url}
    made = make_provider(config)
    paid, books = (
        "Yesterday I paid the deposit of the cabin.",
        f"The books go back to the library by {on(9, '%-d %B')}.",
    )
    glasses = "Tomorrow I get my new glasses."
    other = f"The garage door is repaired on {on(13, '%-d %B')}."
    for number, text in enumerate((paid, books, glasses, other)):
        made.sync_turn(text, None, session_id=f"session-of-{number}")
    landed(made)
    for text, days in ((paid, 3), (books, 20), (glasses, 8), (other, 20)):
        age(dsn, text, days=days)
    for number, (days, text) in enumerate(((4, paid), (9, books), (7, glasses))):
        asking = make_provider(config, session_id=f"asking-{number}")
        block = asking.prefetch(on(days, "What did I do on %-d %B?"))
        assert text in block and len(block.splitlines()) == 2, block
    assert not make_provider(config, session_id="asking-9").prefetch(on(11, "What did I do on %-d %B?"))


@pytest.mark.parametrize("question", ["What do I have tomorrow?", "was steht morgen an?", "anything on tomorrow"])
def test_need_39_what_was_told_of_tomorrow_answers_a_question_for_it(
    question: str, make_provider: MakeProvider, embedder: ScriptedEmbedder, dsn: str
) -> None:
    """Also among many other rows, which have as little in common with the question."""
    config = {"embed_url": embedder.url}
    made = make_provider(config)
    tuner = "The tuner looks at the piano tomorrow at eleven."
    glasses = f"I fetch the glasses on {on(-1, '%-d %B %Y')}."
    harbour = f"The visit of the harbour office is on {on(-1, '%A')}."
    others = [f"The crane number {number} of the harbour was greased." for number in range(40)]
    told_before = {tuner: 0, glasses: 30, harbour: 3, tuner.replace("tuner", "plumber"): 2} | dict.fromkeys(others, 4)
    for number, text in enumerate(told_before):
        made.sync_turn(text, None, session_id=f"session-of-{number}")
    landed(made)
    for text, days in told_before.items():
        age(dsn, text, days=days)
    block = make_provider(config, session_id="asking").prefetch(question)
    assert len(block.splitlines()) == 4, block
    assert all(text in block for text in (tuner, glasses, harbour)), block


def test_need_09_a_message_that_asks_nothing_of_a_day_gets_nothing_of_it(
    home: Path, make_provider: MakeProvider, dsn: str
) -> None:
    link_model(home)
    config = {"embed_url": f"local:{MODEL_NAME}", "prefetch_deadline_s": 8.0}
    made = make_provider(config)
    tuner = "The tuner comes tomorrow at eleven."
    others = [
        "I like green tea.",
        "The harbour crane is greased by two people.",
        "Choir is in the chapel.",
        "The boiler makes a noise.",
        "My keys are in the coat.",
    ]
    for number, text in enumerate((tuner, *others)):
        made.sync_turn(text, "Noted.", session_id=f"session-of-{number}")
    landed(made)
    for text in others:
        age(dsn, text, days=3)
    assert tuner in make_provider(config, session_id="asking").prefetch("What do I have tomorrow?")
    assert not make_provider(config, session_id="saying").prefetch("remind me tomorrow to water the plants")


def test_need_19_many_texts_that_are_full_of_dates_are_not_read_for_longer_than_a_turn_waits(
    make_provider: MakeProvider,
) -> None:
    text = "Yesterday I paid on Monday last week the deposit of 3 May and 4 May 2026. " * 5
    at = datetime.now(UTC) - timedelta(days=300)
    hits = [
        Hit("turns", number, "team", "user", "s-1", f"{text}{number}", at, None, told_then=number == 1)
        for number in range(1, 2001)
    ]
    runtime, question = runtime_of(make_provider()), on(2, "What did I do on %-d %B?")
    started = time.thread_time()
    shown = worth_showing(runtime.searcher, hits, question, runtime.settings, time.monotonic() + 0.1)
    assert time.thread_time() - started < 2
    assert shown[0].id == 1, "what is known to be of that day is shown in any case"


def test_need_39_what_was_said_some_hours_ago(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    for hours in (0, 1, 2, 4, 8, 30):
        provider.sync_turn(told(f"piano {hours}"), None, session_id=f"session-{hours}")
    landed(provider)
    for hours in (0, 1, 2, 4, 8, 30):
        age(dsn, told(f"piano {hours}"), days=hours / 24)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    block = provider.prefetch("What did we talk about two hours ago?")
    assert [hours for hours in (0, 1, 2, 4, 8, 30) if told(f"piano {hours}") in block] == [2]
    found = recalled(provider, "What did we discuss in the last 12 hours?", tool=TURNS, limit=5)
    assert set(found) == {told(f"piano {hours}") for hours in (0, 1, 2, 4, 8)}


def test_need_39_what_was_said_between_two_days_or_since_one(provider: PgvectorMemoryProvider) -> None:
    provider.on_session_switch("another", parent_session_id="", reset=True)
    asked = f"What did we talk about between {on(22, '%-d %B')} and {on(20, '%-d %B')}?"
    found = recalled(provider, asked, tool=TURNS, limit=6)
    assert set(found) == {told(subject) for days in (20, 21) for subject in SUBJECTS[days]}
    found = recalled(provider, on(19, "What have we talked about since %Y-%m-%d?"), tool=TURNS, limit=6)
    assert set(found) == {told(subject) for days in (5, 19) for subject in SUBJECTS[days]}


GERMAN_DAYS = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")


def test_need_39_what_was_said_from_one_weekday_to_another(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    for days in range(1, 12):
        provider.sync_turn(told(f"piano {days}"), None, session_id=f"session-{days}")
    landed(provider)
    for days in range(1, 12):
        age(dsn, told(f"piano {days}"), days=days)
    german = [GERMAN_DAYS[(datetime.now(UTC) - timedelta(days=days)).weekday()] for days in (4, 2)]
    for question in (
        f"What did we talk about between {on(4, '%A')} and {on(2, '%A')}?",
        f"What did we talk about from {on(4, '%A')} to {on(2, '%A')}?",
        "Worüber haben wir von {} bis {} gesprochen?".format(*german),
    ):
        provider.on_session_switch(question, parent_session_id="", reset=True)
        block = provider.prefetch(question)
        assert [days for days in range(1, 12) if f"piano {days} " in block] == [2, 3, 4], question
        found = recalled(provider, question, tool=TURNS, limit=3)
        assert set(found) == {told(f"piano {days}") for days in (2, 3, 4)}


def test_need_39_another_day_is_asked_for_in_the_same_session(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    for days in range(1, 7):
        provider.sync_turn(told(f"piano {days}"), None, session_id=f"session-{days}")
    landed(provider)
    for days in range(1, 7):
        age(dsn, told(f"piano {days}"), days=days)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    for days, question in (
        (5, on(5, "What did we talk about on %A?")),
        (3, on(3, "And on %A?")),
        (1, "What about yesterday?"),
        (2, "And the day before yesterday?"),
    ):
        block = provider.prefetch(question)
        assert [each for each in range(1, 7) if f"piano {each} " in block] == [days], question


def test_need_39_a_plan_for_a_weekday_was_said_on_any_day(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    plan = f"On {on(3, '%A')} I have to see the dentist in Mill Street."
    for text, days in ((plan, 20), (told("piano"), 3), (told("garden fence"), 3)):
        provider.sync_turn(text, None, session_id=f"session-{days}")
        landed(provider)
        age(dsn, text, days=days)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    question = f"What did I say I have to do on {on(3, '%A')}?"
    assert plan in provider.prefetch(question)
    assert recalled(provider, question, tool=TURNS)[0] == plan


def test_need_39_what_was_said_earlier_today(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.sync_turn(told("piano"), None, session_id="session-of-today")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    assert told("piano") in provider.prefetch("What did we talk about today?")
    assert provider.prefetch("What are we going to do today?") == ""


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did we talk about last time?", 5),
        ("Can you summarize our previous session?", 5),
        ("Worum ging es beim letzten Mal?", 5),
        ("上次我们聊了什么？", 5),
        ("Do you remember what we talked about during our first conversation?", 40),
        ("Worum ging es in unserem ersten Gespräch?", 40),
    ],
)
def test_need_39_what_was_spoken_of_in_the_last_or_the_first_session(
    question: str, days: int, provider: PgvectorMemoryProvider
) -> None:
    provider.on_session_switch("another", parent_session_id="", reset=True)
    provider.sync_turn(told("present session"), None, session_id="another")
    landed(provider)
    found = recalled(provider, question, tool=TURNS, limit=6)
    assert {told(subject) for subject in SUBJECTS[days]} == set(found[:3])
    block = provider.prefetch(question)
    assert all(told(subject) in block for subject in SUBJECTS[days])
    assert told("present session") not in block


@pytest.mark.parametrize(
    "message", ["Where did we leave off?", "Let's continue where we left off.", "¿Dónde lo dejamos?"]
)
def test_need_39_where_the_last_session_ended(message: str, provider: PgvectorMemoryProvider, dsn: str) -> None:
    steps = [told(f"step {number}") for number in range(20)]
    for step in steps:
        provider.sync_turn(step, None, session_id="session-of-2")
    landed(provider)
    for number, step in enumerate(steps):
        age(dsn, step, days=in_order(2, number))
    provider.on_session_switch("another", parent_session_id="", reset=True)
    block = provider.prefetch(message)
    assert all(step in block for step in steps[-5:-1])
    assert not any(step in block for step in steps[:14])


def test_need_39_a_last_time_with_a_subject_is_no_session(provider: PgvectorMemoryProvider) -> None:
    provider.on_session_switch("another", parent_session_id="", reset=True)
    (found, *_) = recalled(provider, "What did we say about sourdough bread last time?", tool=TURNS)
    assert found == told("sourdough bread")
    assert provider.prefetch("This is the first time that we talk.") == ""


@pytest.mark.parametrize("question", ["What did we talk about?", "everything", "all the topics", "聊了什么"])
def test_need_39_the_limits_of_a_call_are_a_time_as_well(question: str, provider: PgvectorMemoryProvider) -> None:
    day = on(20, "%Y-%m-%d")
    found = recalled(provider, question, tool=TURNS, since=day, until=day)
    assert set(found) == {told(subject) for subject in SUBJECTS[20]}
    assert set(recalled(provider, question, tool=TURNS, since="30d")) >= set(found)


@pytest.mark.parametrize("question", ["everything", "What did I tell you?", "What did you remember today?"])
def test_need_39_the_memories_of_a_time_newest_first(
    question: str, provider: PgvectorMemoryProvider, dsn: str, make_provider: MakeProvider
) -> None:
    facts = [f"The {color} shed has {color} doors" for color in ("amber", "beige", "coral", "denim")]
    for fact in facts:
        provider.on_memory_write("add", "memory", fact)
    landed(provider)
    for place, fact in enumerate(facts):
        age(dsn, fact, days=30 if fact == facts[-1] else place / 10_000)

    found = recalled(provider, question, since="1d")

    assert found == facts[:3]
    assert recalled(make_provider(gateway_session_key="sales"), question, since="1d") == []


def test_need_39_what_was_spoken_of_in_a_long_time(provider: PgvectorMemoryProvider) -> None:
    month = datetime.now(UTC) - timedelta(days=40)
    found = recalled(provider, f"What did we talk about in {month:%B %Y}?", tool=TURNS)
    assert {told(subject) for subject in SUBJECTS[40]} <= set(found)


def test_need_39_without_a_year_it_is_the_last_such_day(provider: PgvectorMemoryProvider, dsn: str) -> None:
    longer_ago = [
        f"Years ago my {subject} was all I thought of." for subject in ("stamp album", "tree house", "old bike")
    ]
    for text in longer_ago:
        provider.sync_turn(text, None, session_id="session-of-old")
    landed(provider)
    for text in longer_ago:
        age(dsn, text, days=20 + 365)
    found = recalled(provider, on(20, "What did we speak about on %d %B?"), tool=TURNS, limit=6)
    assert {told(subject) for subject in SUBJECTS[20]} <= set(found[:4])


@pytest.mark.parametrize("limits", [{"role": "assistant"}, {"since": on(6, "%Y-%m-%d")}, {"scope": "session"}])
def test_need_39_what_a_filter_leaves_out_stays_out(limits: dict[str, str], provider: PgvectorMemoryProvider) -> None:
    found = recalled(provider, on(20, "What did we speak about on %d %B %Y?"), tool=TURNS, **limits)
    assert not {told(subject) for subject in SUBJECTS[20]}.intersection(found)


def test_need_39_the_day_itself_comes_before_the_days_around_it(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    reports = {
        days: f"Report {days}: the harbour crane was greased and tried by Ingrid." for days in (18, 19, 20, 21, 22)
    }
    for days, report in reports.items():
        provider.sync_turn(report, None, session_id=f"session-of-{days}")
    landed(provider)
    for days, report in reports.items():
        age(dsn, report, days=days)
    found = recalled(provider, on(20, "What did the crane report of %d %B %Y say?"), tool=TURNS)
    assert found[0] == reports[20]


def test_need_04_a_day_is_one_of_the_own_theme(provider: PgvectorMemoryProvider, make_provider: MakeProvider) -> None:
    other = make_provider(gateway_session_key="sales")
    assert recalled(other, on(20, "What did we speak about on %d %B %Y?"), tool=TURNS) == []


def test_need_39_after_new_the_last_time_is_the_session_before(provider: PgvectorMemoryProvider) -> None:
    provider.on_session_switch("another", parent_session_id="session-of-5", reset=True, reason="new_session")
    block = provider.prefetch("What did we talk about last time?")
    assert all(told(subject) in block for subject in SUBJECTS[5])
    assert not any(told(subject) in block for subject in SUBJECTS[20])


def test_need_39_a_branch_belongs_to_the_present_conversation(provider: PgvectorMemoryProvider) -> None:
    provider.on_session_switch("branch", parent_session_id="session-of-5", reason="branch")
    block = provider.prefetch("What did we talk about last time?")
    assert all(told(subject) in block for subject in SUBJECTS[19])
    assert not any(told(subject) in block for subject in SUBJECTS[5])


def test_need_39_the_last_session_of_another_theme_may_have_the_id_of_the_asking_one(
    provider: PgvectorMemoryProvider, make_provider: MakeProvider
) -> None:
    other = make_provider(gateway_session_key="sales", session_id="session-of-5")
    (*found, _) = recalled(other, "What did we talk about last time?", tool=TURNS, scope="marketing", limit=3)
    assert set(found) < {told(subject) for subject in SUBJECTS[5]}


@pytest.mark.parametrize("question", ["What did we talk about last time?", "Where did we leave off?"])
def test_need_39_sessions_at_the_same_time_are_told_apart(question: str, make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(session_id="asking")
    said = [(f"{session}-{number}", session) for number in range(3) for session in ("asking", "third", "last")]
    for place, (name, session) in enumerate(said):
        provider.sync_turn(told(name), None, session_id=session)
        landed(provider)
        age(dsn, told(name), days=in_order(1, place))
    found = recalled(provider, question, tool=TURNS, limit=3)
    assert set(found) == {told(f"last-{number}") for number in range(3)}
