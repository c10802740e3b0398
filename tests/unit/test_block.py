"""Lines of hits: which belong together, which stand first, which replace another."""

from __future__ import annotations

import random
import re
import time
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from hermes_memory_pgvector.domain.types import Hit
from hermes_memory_pgvector.recall.block import goes_on_about, lines_of, replaced_part
from hermes_memory_pgvector.recall.changes import asks_for_value
from hermes_memory_pgvector.recall.ranking import is_question

AT = datetime(2026, 5, 3, tzinfo=UTC)


def memory(text: str, row: int = 1, *, day: int = 0) -> Hit:
    return Hit("memories", row, "marketing", "memory", None, text, AT + timedelta(days=day), 0.8)


def exchange(question: str, answer: str, row: int, *, day: int = 0) -> tuple[Hit, Hit]:
    """Both halves of an exchange, each with the other beside it."""
    at = AT + timedelta(days=day)
    asked = Hit("turns", row, "marketing", "user", f"session-{row}", question, at, 0.8)
    answered = asked._replace(id=row + 1, kind="assistant", content=answer)
    return asked._replace(around=(answered,)), answered._replace(around=(asked,))


def told(*hits: Hit) -> list[tuple[str, str]]:
    return [(line.told.content, line.beside.content if line.beside else "") for line in lines_of(hits)]


ASKED, ANSWERED = exchange("Where do violet invoices go?", "To the cellar archive in Bremen.", 10)
SAID, REPLIED = exchange("The harbour crane is greased on Mondays.", "I have noted that.", 20)


@pytest.mark.parametrize("hits", [(ASKED, ANSWERED), (ANSWERED, ASKED), (ANSWERED,), (ASKED,)])
def test_need_37_an_exchange_is_one_line_whichever_half_was_found(hits: tuple[Hit, ...]) -> None:
    assert told(*hits) == [(ANSWERED.content, ASKED.content)]


def test_need_37_a_statement_needs_no_reply_and_an_answer_what_it_answers() -> None:
    assert told(SAID) == [(SAID.content, "")]
    assert told(REPLIED) == [(REPLIED.content, SAID.content)]
    assert told(SAID, REPLIED) == [(SAID.content, REPLIED.content)]


def test_need_37_a_long_statement_is_told_whole_where_its_brief_confirmation_was_found_first() -> None:
    facts = "The fitter put in a new seal for 340 euros. " * 5
    stated, confirmed = exchange(facts, "All noted.", 40)
    assert told(confirmed, stated) == told(confirmed) == [(facts, "All noted.")]
    asked, answered = exchange(f"{facts} What was it in pounds?", "About 290 pounds.", 50)
    assert told(answered) == [(answered.content, asked.content)]


@pytest.mark.parametrize(
    "question",
    [
        "What did you think the banging was?",
        "what had you suggested for the machine",
        "you recommended something for the noise, what was it?",
        "What was your advice about the machine?",
        "Was hast du zur Waschmaschine gesagt?",
        "Wie war dein Vorschlag zur Waschmaschine?",
        "¿Qué recomendaste para la lavadora?",
        "Quel était ton conseil pour la machine ?",
        "How did we fix the washing machine?",
        "The crane stalls again, what worked last time?",
        "Der Kran steht schon wieder, was hatte da geholfen?",
        "what was the solution for the banging machine",
        "Wie haben wir das mit der Waschmaschine gelöst?",
        "¿Cómo arreglamos la lavadora?",
        "Comment a-t-on réparé la machine ?",
    ],
)
def test_need_37_a_question_for_what_the_assistant_said_gets_its_reply(question: str) -> None:
    noise, advice = exchange("The washing machine bangs again.", "Perhaps the drum bearing, have it checked.", 40)
    [line] = lines_of((noise,), question)
    assert (line.told.content, line.beside and line.beside.content) == (advice.content, noise.content)


def test_need_37_who_said_at_length_what_helped_is_quoted_with_a_short_reply() -> None:
    long = "It banged whenever it spun, at night most of all, and the neighbours have complained about that. " * 2
    found, thanks = exchange(f"{long}It was a bolt of the drum.", "Good that it is quiet again.", 40)
    [line] = lines_of((found,), "How did we fix the washing machine?")
    assert (line.told.content, line.beside and line.beside.content) == (found.content, thanks.content)
    asked, advice = exchange(long, f"{long}Check the bearing.", 40)
    [line] = lines_of((asked,), "How did we fix the washing machine?")
    assert line.told.content == advice.content


@pytest.mark.parametrize(
    "question",
    [
        "What bangs again?",
        "Can you tell me what bangs?",
        "Do you remember what bangs?",
        "Did you know what bangs?",
        "What did Ben suggest for the machine?",
        "What is the answer to what bangs?",
        "How do I reply to a letter about what bangs?",
        "What's our response time for what bangs?",
        "How is the machine? Ada's is fixed",
        "Kannst du mir sagen, was klopft?",
    ],
)
def test_need_37_a_question_to_the_assistant_about_something_else_gets_none(question: str) -> None:
    noise, _ = exchange("The washing machine bangs again.", "Perhaps the drum bearing, have it checked.", 40)
    [line] = lines_of((noise,), question)
    assert (line.told, line.beside) == (noise, None)


def test_need_37_an_answer_that_came_without_its_question_is_told_once_with_it() -> None:
    went_on = ASKED._replace(id=12, content="Thank you, I will send them there.", around=())
    at_the_end = ANSWERED._replace(around=(went_on,))
    for hits in ((at_the_end, ASKED), (ASKED, at_the_end)):
        assert told(*hits) == [(ANSWERED.content, ASKED.content)]


def test_need_37_of_what_is_found_by_its_question_alone_everything_else_comes_first() -> None:
    unanswered = ASKED._replace(id=30, around=(), content="Who greases the harbour crane?")
    assert told(unanswered, ASKED, SAID, memory("The crane is red.")) == [
        (SAID.content, ""),
        ("The crane is red.", ""),
        (unanswered.content, ""),
        (ANSWERED.content, ASKED.content),
    ]
    assert told(ASKED, ANSWERED, SAID)[0] == (ANSWERED.content, ASKED.content)


def test_need_37_repeated_questions_fold_and_yield() -> None:
    tickets = [
        half
        for number in range(8)
        for half in exchange(
            f"Ticket {4000 + number}: may we refund after {number} days?",
            f"{number} refunds were made.",
            100 + 2 * number,
        )
    ]
    policy = memory("Refunds are made within 14 days.")
    lines = told(*tickets, policy, SAID)
    assert lines[1:3] == [(policy.content, ""), (SAID.content, "")]
    assert lines[0][1].startswith("Ticket 4000")
    alone = [each._replace(around=()) for each in tickets if each.kind == "user"]
    assert told(*alone, policy) == [(policy.content, ""), (alone[0].content, "")]


def test_need_01_the_lines_of_hundreds_of_statements_take_a_moment() -> None:
    """As many are looked at where a question was asked often; the turn waits for them."""
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghij", k=6)) for _ in range(600)]
    said = [memory(f"The server is {' '.join(dice.choices(words, k=48))}", row, day=row) for row in range(550)]
    started = time.thread_time()
    assert len(lines_of(said)) == 550
    assert time.thread_time() - started < 2


@pytest.mark.parametrize(
    "said",
    [
        "The status of ticket {} is open; the desk looks after it and the next step is due on day {}",
        "The limit of queue {} is 20 at 9 a m on day {}",
        "The office opens at 9 on day 5",
    ],
)
def test_need_01_the_lines_of_hundreds_of_tickets_take_a_moment(said: str) -> None:
    started = time.thread_time()
    halves = [exchange(f"Who owns ticket {n}?", said.format(n, n % 28), 2 * n, day=n % 9) for n in range(275)]
    assert len(lines_of([half for both in halves for half in both])) == 275
    assert time.thread_time() - started < 0.6


def test_need_37_of_many_values_of_the_same_only_the_newest_stands() -> None:
    """However many there are, and whatever stands between them."""
    dice = random.Random(11)
    subjects = ["The limit is {} requests", "The stand-up is at {}", "The queue of room {} is open from 3 to 5"]
    for _ in range(200):
        texts = [dice.choice(subjects).format(dice.randrange(9)) for _ in range(12)]
        days = dice.sample(range(99), len(texts))
        said = [memory(text, row, day=days[row]) for row, text in enumerate(dict.fromkeys(texts))]
        stand = [line.told for line in lines_of(said)]
        assert not [pair for pair in permutations(stand, 2) if replaced_part(*pair)]
        gone = [hit for hit in said if hit not in stand]
        assert all(any(replaced_part(hit, newer) for newer in stand) for hit in gone)


def test_need_37_the_same_short_answer_to_another_question_is_another_line() -> None:
    crane = exchange("Who greases the harbour crane?", "Ingrid does.", 40)
    boat = exchange("Who paints the old ferry boat?", "Ingrid does.", 50, day=3)
    for hits in ((*crane, *boat), (crane[0], boat[0]), (crane[1], boat[1])):
        assert told(*hits) == [("Ingrid does.", crane[0].content), ("Ingrid does.", boat[0].content)]


@pytest.mark.parametrize(
    ("fact", "asked"),
    [
        ("The harbour crane is greased on Mondays.", "Is the harbour crane greased on Mondays?"),
        ("The stand-up is at 9:30", "The stand-up is at 10:00?"),
    ],
)
def test_need_37_a_fact_stands_before_the_question_that_asked_for_it_later(fact: str, asked: str) -> None:
    question = ASKED._replace(content=asked, around=(), at=AT + timedelta(days=2))
    for hits in ((memory(fact), question), (question, memory(fact))):
        assert told(*hits) == [(fact, ""), (asked, "")]


@pytest.mark.parametrize(
    "text", ["May we?", "Dürfen wir? 🙂", "可以吗？", "هل يمكن؟", "可以吗", "行ってもいいですか。", "Μπορούμε;"]
)
def test_need_37_what_asks_is_a_question_unless_an_assistant_asks(text: str) -> None:
    assert is_question(ASKED._replace(content=text))
    assert not is_question(ANSWERED._replace(content=text))
    assert not is_question(ASKED._replace(content=f"{text} Yes, we may."))


@pytest.mark.parametrize(
    "text",
    [
        "ALERT DiskUsage firing on db-3: 93% used. what do I do",
        "the network is down at night whom do I call",
        "which redis version runs on cache-02",
        "ok what's the code of the gate",
        "do we still use the old ferry",
        "Write the opening paragraph in the third person",
        "can you draft a letter to the landlord. Mention the boiler.",
        "give me three names for a bakery",
        "wie lange haben wir samstags offen",
        "was heißt Wechselgeld auf Englisch",
        "kannst du den Dienstplan machen",
        "Schreib mir bitte einen kurzen Text für das Schaufenster",
        "was mach ich gegen den zünsler",
        "qué hago si el horno marca error E7",
        "cuánto tarda en subir la masa",
        "Escríbeme un cartel para la puerta",
        "combien de farine pour trois pains",
        "Rédige un mot pour les voisins",
        "冰柜坏了怎么办",
        "帮我写一段文案，介绍新的抹茶卷",
        "kira ne kadar olacak",
        "kombi tamir edildi mi",
        "did anyone find the missing scanner",
        "is anybody on call tonight",
        "so who covers for the porter",
        "who killed the baron",
        "what happened on 22 October",
        "what went down on Tuesday",
        "how about friday",
        "any news from the landlord",
        "tell me again where the spill kit is",
        "convert 42 miles to km",
        "make a table of the carriers",
        "help me write a mail to the auditor",
        "Speak as the innkeeper: the party asks where the baron went.",
        "Pretend you are the dragon",
        "wer übernimmt die schicht am montag",
        "gibt es schon was vom vermieter",
        "sag mir nochmal die nummer",
        "Antworte als Wirt: die Gruppe fragt nach dem Baron",
        "mach mir eine liste der offenen rechnungen",
        "puedes hacerme un resumen",
        "où est la clé du garage",
        "peux-tu me faire un résumé",
        "toplantı saat kaçta",
        "会议几点开始",
        "谁负责税务",
        "What does this mean?\nTraceback:\n  in capture\n  in request\nGatewayTimeout",
    ],
)
def test_need_37_what_asks_without_a_question_mark_is_a_question_too(text: str) -> None:
    assert is_question(ASKED._replace(content=text))
    assert not is_question(ANSWERED._replace(content=text))
    assert not is_question(memory(text)), "a memory that orders something is a rule to keep to"


@pytest.mark.parametrize(
    "text",
    [
        "When I was in Rome I lost my passport",
        "What we need is a bigger boat",
        "Redis is the cache of the shop, which is why it runs twice",
        "Ask Karim, who is the neighbour",
        "Should you need me, my number is 7714",
        "Do the dishes on Monday",
        "Did the dishes and paid the plumber",
        "did it already, moved to friday",
        "Do it before Friday",
        "had it checked on Monday, all fine",
        "What was great was the pasta",
        "what annoyed me on Tuesday was the bus",
        "What comes next I do not know",
        "What speed we drive depends on the road",
        "How long we stay depends on the weather",
        "Give Ben 5 ml at 21:00",
        "write down the code 4711",
        "Write the date in ISO format from now on",
        "set GATEWAY_TIMEOUT_S=8 on payments-api, looks stable",
        "Wann wir kommen, sage ich noch",
        "Wie gesagt, Lena kommt samstags",
        "habe ich schon bezahlt",
        "no sé qué hacer con el horno viejo",
        "qué bien quedó el cartel",
        "Comment out the line that logs the cart",
        "Escribe siempre la fecha con puntos",
        "Schreib die Uhrzeit immer mit Doppelpunkt",
        "Her ne kadar pahalı olsa da aldık",
        "Had someone fix the gate on Monday",
        "Who plays the druid is up to Tom",
        "Who knows, maybe it rains",
        "Any milk will do",
        "Any idea is welcome",
        "Act now or the discount is gone",
        "Make a right at the mill",
        "Create access for Ben was done",
        "I gave the key to Kim",
        "Wer zuerst kommt, mahlt zuerst",
        "Wer weiß, vielleicht regnet es",
        "Gibt es nicht mehr, sagt der Händler",
        "Sag das nicht weiter",
        "Quand il pleut, on reste ici",
        "Qui vivra verra",
        "谁都可以来",
    ],
)
def test_need_37_what_states_something_is_no_question_whatever_it_begins_with(text: str) -> None:
    assert not is_question(ASKED._replace(content=text))


@pytest.mark.parametrize(
    ("older", "newer", "part"),
    [
        ("The stand-up is at 9:30.", "The stand-up is at 10:00.", "9:30"),
        ("The backup runs on Friday", "The backup now runs on Monday", ""),  # more than a value has changed
        ("The backup runs on Friday at night", "The backup runs on Monday at night", "Friday"),
        ("Postgres listens on port 5432.", "Postgres listens on port 6432.", "5432"),
        ("Das Treffen ist am 3. Mai", "Das Treffen ist am 5. Mai", "3"),
        ("The limit is 20 requests", "the limit is 35 requests", "20"),
        ("Ticket 12 is open", "Ticket 13 is open", ""),
        ("The team has ticket 12 in review", "The team has ticket 13 in review", ""),
        ("Server 3 is in room 5", "Server 3 is in room 6", ""),
        ("We met on 3 May", "We met on 5 May", ""),  # two events
        ("It was at 9", "It was at 10", ""),
        ("It is on Monday", "It is on Friday", ""),  # of whatever was spoken
        ("Note that the rent is 900 euros", "Note that the rent is 950 euros", "900"),
        ("This server is at 54 %", "This server is at 60 %", "54"),
        ("She will call at 5", "She will call at 6", ""),
        ("Das ist am Montag", "Das ist am Freitag", ""),
        ("The ticket for that is OPS-4412", "The ticket for that is OPS-4431", ""),
        ("There is a concert on 5 December", "There is a concert on 12 December", ""),
        ("Ben has a match on Saturday", "Ben has a match on Sunday", ""),
        ("The stand-up is a call at 9:30", "The stand-up is a call at 10:00", "9:30"),
        ("Ben hat einen Termin am Montag", "Ben hat einen Termin am Freitag", ""),
        ("We have lost 3:1 on Saturday", "We have lost 3:1 on Sunday", ""),
        ("Lena hat am Montag gearbeitet", "Lena hat am Freitag gearbeitet", ""),
        ("Frau Mohn hat 3 Kilo bestellt", "Frau Mohn hat 4 Kilo bestellt", ""),
        ("Der Laden hat bis 18 Uhr geöffnet", "Der Laden hat bis 19 Uhr geöffnet", "18"),
        ("Das Lager hat 40 Kilo", "Das Lager hat 25 Kilo", "40"),
        ("The crane is red", "The crane is blue", ""),  # maybe both
        ("The shop opens at 9 am", "The shop opens at 10:30 pm", "9 am"),
        ("The review is on 3 May 2026", "The review is on 14 June 2026", "3 May"),
        ("The API listens on port 8080", "The API listens on port 8081 in staging", ""),  # two of them
        ("The API needs Python 3.11", "The API needs Node 20", ""),
        ("Our server has 8 cores", "Our server has 16 GB", ""),
        ("The price is 5 euros for adults", "The price is 3 euros for children", ""),
        ("Entry is on Friday", "Entry is on Monday for members", ""),
        ("The limit is 20", "The limit is 20", ""),
        ("The freezer is at -18 degrees", "The freezer is at -20 degrees", "-18"),
        ("The rent is 1,299 euros", "The rent is 1,349 euros", "1,299"),
        ("The hearing is on November 18 at 9:15", "The hearing is on November 25 at 13:00", "18 at 9:15"),
        ("The stand-up is on Mondays at 9", "The stand-up is on Tuesdays at 10:30", "Mondays at 9"),
        ("The library is open from 9 to 17", "The library is open from 8 to 16", "9 to 17"),
        ("The bus is at 9 to Bonn and at 10 to Jena", "The bus is at 11 to Bonn and at 12 to Jena", ""),
        ("The review is on Dec 4", "The review is on Jan 8", "Dec 4"),
        ("The meeting is at noon", "The meeting is at 2 pm", "noon"),
        ("The lease is until 3 May 2026", "The lease is until 3 May 2027", "2026"),
        ("The phone of the vet is 020 7946 0018", "The phone of the vet is 020 7946 0199", "020 7946 0018"),
        ("The cat weighs 4.1 kg", "The cat weighs 4.6 kg", "4.1"),
        ("The lessons start at 9", "The lessons start at 10", "9"),
        ("Test run 12 has failed", "Test run 13 has failed", ""),
        (
            "Der Termin von Lukas ist am 12. Mai um 15 Uhr",
            "Der Termin von Lukas ist am 26. Mai um 16:30 Uhr",
            "12 Mai um 15",
        ),
        ("Die Praxis ist von 8 bis 12 Uhr geöffnet", "Die Praxis ist von 9 bis 13 Uhr geöffnet", "8 bis 12"),
        ("Die Sprechstunde ist montags um 9", "Die Sprechstunde ist dienstags um 10", "montags um 9"),
        ("Die Miete beträgt 980 Euro", "Die Miete beträgt 1.020 Euro", "980"),
        ("Die Katze wiegt 4,1 Kilo", "Die Katze wiegt 4,6 Kilo", "4,1"),
        ("Frau Mohn hat am Montag um 9 gearbeitet", "Frau Mohn hat am Freitag um 8 gearbeitet", ""),
        ("5", "6", ""),
    ],
)
def test_need_37_only_another_value_of_the_same_replaces(older: str, newer: str, part: str) -> None:
    assert replaced_part(memory(older), memory(newer, day=2)) == part
    assert replaced_part(memory(older, day=2), memory(newer)) == "", "never the newer by the older"
    assert replaced_part(memory(older), memory(newer, day=2)._replace(theme="sales")) == ""


@pytest.mark.parametrize("reverse", [False, True])
def test_need_37_of_what_contradicts_the_newer_stands_first_and_says_what_it_replaced(reverse: bool) -> None:
    older, newer = memory("The stand-up is at 9:30.", 1), memory("The stand-up is at 10:00.", 2, day=2)
    hits = [older, SAID, newer]
    first, second = lines_of(hits[::-1] if reverse else hits)
    assert first.told == newer and first.replaced == ("9:30", older.at)
    assert second.told == SAID and second.replaced is None


def test_need_37_of_several_older_values_the_last_one_is_named_as_replaced() -> None:
    first, second, third = (
        memory(f"The rent is {rent} euros.", row, day=row) for row, rent in enumerate((900, 980, 1040))
    )
    for hits in permutations((first, second, third)):
        (line,) = lines_of(hits)
        assert line.told == third and line.replaced == ("980", second.at)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The rent is 980 euros.", "The rent is 1040 euros."),
        ("The tuner is called Albers and comes by tram.", "The tuner is called Albers and he comes by tram."),
    ],
)
def test_need_37_what_was_told_at_the_time_that_is_asked_about_stays(before: str, after: str) -> None:
    older, newer = memory(before, 1), memory(after, 2, day=60)
    then = older._replace(told_then=True)
    assert then in [line.told for line in lines_of([then, newer], "What did I say of it on 3 May 2026?")]
    assert [line.told for line in lines_of([then, newer], "What is it?")] == [newer]


def confirmed(said: str, reply: str, row: int, *, day: int = 0, coverage: float = 0.5) -> tuple[Hit, Hit]:
    """An exchange in which the assistant confirms a statement, the assistant's half as the better match."""
    asked, answered = exchange(said, reply, row, day=day)
    return answered._replace(coverage=coverage), asked._replace(coverage=coverage)


def test_need_37_a_newer_value_replaces_the_older_one_also_where_its_confirmation_was_found_first() -> None:
    older = confirmed("The stand-up is at 9:30.", "Noted: half past nine.", 10)
    newer = confirmed("The stand-up is at 10:00.", "Moved, ten sharp.", 20, day=2)
    for hits in ((*older, *newer), (*newer, *older)):
        (line,) = lines_of(hits)
        assert line.told == newer[0] and line.replaced == ("9:30", older[0].at)
    at_length = "I have put it on the calendar of everybody who takes part. " * 4
    longer = confirmed("The stand-up is at 9:30.", f"{at_length}The room has a new projector.", 10)
    assert len(lines_of((*longer, *newer))) == 2, "a long reply says more than what it confirms"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The password of the guild is cold hearth.", "The password of the guild is warm ashes now."),
        ("The deadline of the thesis is 15 May.", "Got an extension: the deadline of the thesis is 12 June."),
        ("The fee for a visit is 40 euros.", "Sorry, I was wrong: the fee for a visit is 45 euros, since March."),
        ("The piano tuner is Mr. Lund.", "Mr. Lund cancelled!! Our new piano tuner is Ms. Berg."),
        ("Der Code der Haustür ist 4471.", "Der Code der Haustür ist ab Mai ein anderer."),
        (
            "Limits: up to 5,000 the team lead, above that the director.",
            "Limits: up to 7,500 the team lead, above that the director.",
        ),
        ("Le code de l'immeuble est 4812.", "Le code de l'immeuble est 5107."),
        ("La riunione con il notaio è il 3 dicembre alle 10.", "La riunione con il notaio è il 9 dicembre alle 15."),
    ],
)
def test_need_17_of_what_is_said_of_the_same_the_newer_stands_first(older: str, newer: str) -> None:
    before, after = memory(older), memory(newer, 2, day=2)
    for hits in ((before, SAID, after), (after, SAID, before)):
        hits = tuple(hit._replace(coverage=0.5) for hit in hits)
        assert [text for text, _ in told(*hits)] == [newer, SAID.content, older]
    replies = confirmed(older, "Noted.", 10), confirmed(newer, "All right.", 20, day=2)
    assert [line.told.content for line in lines_of([*replies[0], *replies[1]])] == ["All right.", "Noted."]


def test_need_17_the_order_stays_where_the_older_fits_better_or_is_of_something_else() -> None:
    older, newer = memory("The oak door has the code 4471."), memory("The oak door has a squeak.", 2, day=2)
    words = older._replace(coverage=0.9), newer._replace(coverage=0.4)
    beside = older._replace(coverage=0.5), newer._replace(coverage=0.5, score=0.4)  # what stands beside it matches
    by_endpoint = tuple(hit._replace(coverage=0.5, rerank_rank=rank) for rank, hit in enumerate((older, newer), 1))
    far = older, newer  # without a word of the question
    about_others = memory("The kitchen's budget is 900 euros."), memory("The cellar's budget is 200 euros.", 2, day=2)
    anything = memory("We are in the new house."), memory("We are getting a dog.", 2, day=2)
    for hits in (
        words,
        beside,
        by_endpoint,
        far,
        *(tuple(hit._replace(coverage=0.5) for hit in pair) for pair in (about_others, anything)),
    ):
        assert [text for text, _ in told(*hits)] == [hit.content for hit in hits]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "When is the piano lesson of Ada?",
            "The piano lesson of Ada is on Wednesdays at 4",
            "Piano has moved, Ada now goes on Fridays",
        ),
        ("What's our rate limit?", "We have a limit of 250 calls a minute", "we upgraded, the limit is 1000 calls now"),
        ("Who is the contact for Halden?", "The contact is Sven", "Sven left, the new contact of Halden is Kirsten"),
        (
            "Which dose of lisinopril do I take?",
            "I take 20 mg of lisinopril",
            "The doctor lowered my lisinopril to 10 mg",
        ),
        ("When is the call with Halden?", "The Halden call is at 2", "Peter moved the call with Halden to 3"),
        ("Wann muss ich zum Zahnarzt?", "Zahnarzt am 14. November", "Der Zahnarzt wurde auf Dezember verschoben"),
        ("¿Quién me trae la harina?", "La harina la trae Molinos", "Hemos cambiado, la harina viene de Albufera"),
        ("Dans quelle chambre est ma mère ?", "Ma mère est en chambre 318", "Ma mère a changé de chambre : 402"),
        ("Was kostet die Klavierstunde?", "Die Klavierstunde kostet 30 Euro", "Die Klavierstunde kostet jetzt 35 Euro"),
        ("Wer liefert uns das Mehl?", "Das Mehl liefert uns Molinos", "Unser neuer Lieferant für Mehl ist Albufera"),
        ("Wie ist das Passwort?", "Das Passwort ist corn-4", "Unser neues Passwort ist wheat-9"),
        ("Wo steht das Klavier?", "Das Klavier steht im Saal", "Wir haben kein Klavier mehr"),
        ("Who tunes the piano?", "The piano tuner is Lund", "Lund can't tune the piano any more because of his back"),
    ],
)
def test_need_17_what_says_that_something_changed_stands_before_what_was_so(
    question: str, older: str, newer: str
) -> None:
    before, after = (
        memory(older)._replace(coverage=0.9, score=0.9),
        memory(newer, 2, day=2)._replace(coverage=0.4, score=0.7),
    )

    def order(*hits: Hit, asked: str = question) -> list[str]:
        return [line.told.content for line in lines_of(hits, asked)]

    assert order(before, SAID, after) == [newer, older, SAID.content]
    far = after._replace(score=0.3)
    by_endpoint = tuple(hit._replace(rerank_rank=rank) for rank, hit in enumerate((before, after), 1))
    for hits in ((before, far), (before._replace(at=after.at, id=3), after), by_endpoint):
        assert order(*hits) == [older, newer]
    assert order(before, after, asked="What about the harbour crane?") == [older, newer]
    assert order(before, after, asked=f"{question[:-1]} as it was before?") == [older, newer]


@pytest.mark.parametrize(
    "said",
    [
        "Ada is at the piano right now",
        "That is enough of the piano for now",
        "The piano stays in the hall",
        "Das Klavierkonzert mit Ada am Piano findet am Montag statt.",
        "The piano is out of tune. Ada lives in Ghent now.",
        "Where do you have the piano now?",
        "Nothing has changed about the piano",
        "The moved piano belongs to Ada",
        "Tuning the piano took over two hours",
        "The piano is no longer than a table",
        "Do not put any more books on the piano",
        "The New York piano shop opens at nine",
        "Every now and again Ada tunes the piano",
        "I am not sure but the piano was tuned in May",
        "If the piano is moved, it has to be tuned",
        "Bis jetzt steht das Piano im Saal",
        "Ada ist gerade jetzt am Piano",
        "Das Piano kostet nicht mehr als 900 Euro",
        "Das mit dem Piano wurde nicht verschoben",
        "Am Piano hat sich nichts geändert",
        "Por ahora el piano está en la sala",
        "Hasta ahora el piano está en la sala",
        "Ada está ahora mismo con el piano",
        "Lo del piano no ha cambiado",
        "Jusqu'à maintenant le piano est dans la salle",
        "Rien n'a changé pour le piano",
    ],
)
def test_need_17_what_says_of_no_change_keeps_its_place(said: str) -> None:
    older, newer = memory("The piano of Ada is by Förster"), memory(said, 2, day=2)
    assert [line.told for line in lines_of((older, newer), "Who makes such a piano?")] == [older, newer]


def test_need_17_no_more_than_something_says_of_no_change() -> None:
    older = memory("Das Klavier von Ada ist von Förster")
    newer = memory("Das Klavier kostet keinen Euro mehr als sonst", 2, day=2)
    assert [line.told for line in lines_of((older, newer), "Von wem ist das Klavier?")] == [older, newer]


@pytest.mark.parametrize(
    ("question", "asked_for", "others"),
    [
        ("What is the wifi password?", "The wifi password is corn-4", "The netflix password was changed to wheat-9"),
        ("what's the office gate code", "The office gate code is 1234", "The garage gate code is now 9999"),
        ("What is the password of the wifi?", "The wifi password is corn-4", "The password of netflix is now wheat-9"),
        ("Wie ist das WLAN-Passwort?", "Das WLAN-Passwort ist corn-4", "Das Netflix-Passwort ist jetzt weizen-9"),
        ("¿Cuál es la contraseña del wifi?", "La contraseña del wifi es maíz", "La contraseña de netflix ahora es 9"),
        (
            "Quel est le mot de passe du wifi ?",
            "Le mot de passe du wifi est 4",
            "Le mot de passe de netflix a changé : 9",
        ),
        ("What is my e-mail address?", "My e-mail address is a@b.example", "Ada's address has changed to Elm Street 4"),
    ],
)
def test_need_17_what_changed_of_another_thing_does_not_come_first(question: str, asked_for: str, others: str) -> None:
    older, newer = memory(asked_for), memory(others, 2, day=2)
    assert [line.told for line in lines_of((older, newer), question)] == [older, newer]


@pytest.mark.parametrize(
    ("question", "older", "newer", "reply"),
    [
        (
            "Where does the committee meet?",
            "The committee meets in the hall",
            "committee got pushed, Ada can't, the library, same hour",
            "Updated: the library.",
        ),
        ("Wer setzt uns den Ofen?", "Den Ofen setzt Herr Lang", "Ofen doch von Frau Berg.", "Geändert: Frau Berg."),
        ("¿Dónde ensaya el coro?", "El coro ensaya en la sala", "El coro, en la iglesia", "Cambiado: en la iglesia."),
        ("Who is the dentist?", "The dentist is Dr. Lund", "the dentist left", "Okay, I've moved it to Dr. Berg."),
    ],
)
def test_need_17_what_the_assistant_noted_as_a_change_stands_before_what_was_so(
    question: str, older: str, newer: str, reply: str
) -> None:
    before = memory(older)._replace(coverage=0.9, score=0.9)

    def order(answer: str) -> list[str]:
        halves = (hit._replace(score=0.7) for hit in exchange(newer, answer, 10, day=2))
        one, other = ([line.told is before for line in lines_of((before, half), question)] for half in halves)
        assert one == other, "whichever half was found"
        return ["older" if is_older else "newer" for is_older in one]

    assert order(reply) == ["newer", "older"]
    assert order("Noted.") == ["older", "newer"]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        (
            "How much is the deposit for a party?",
            "A party pays a deposit of 15 a head",
            "two groups did not come, so the deposit is 20 a head",
        ),
        ("how long is a pupil's lease", "The lease of a pupil is 8 hours", "pupil scope full again, lease cut to 2h"),
        ("What's the code for the gate?", "Gate code 2580", "code on the gate is 7719 since the break-in"),
        ("Wann ist das Laternenfest?", "Laternenfest am 11. um 17 Uhr", "bei Sturm das Laternenfest am 13. drinnen"),
        ("¿Cuánto cuesta la cuota?", "La cuota es de 48 euros", "la cuota sube a 52 en enero"),
        ("Combien coûte une nuit ?", "95 euros la nuit", "en famille on a dit 102 la nuit"),
    ],
)
def test_need_17_where_a_number_or_a_time_is_asked_for_the_one_said_last_stands_first(
    question: str, older: str, newer: str
) -> None:
    """Who changes a price need not say that it is new."""
    before = memory(older)._replace(coverage=0.9, score=0.9)

    def is_first(said: str, asked: str = question, score: float = 0.7) -> bool:
        halves = (hit._replace(score=score) for hit in exchange(said, "Noted.", 10, day=2))
        one, other = (lines_of((before, half), asked)[0].told is not before for half in halves)
        assert one == other, "whichever half was found"
        return one

    assert is_first(newer)
    assert not is_first(newer, score=0.3)
    assert not is_first(newer, asked="What did the deposit, lease, code, Laternenfest, cuota or nuit do before?")
    assert not is_first(re.sub(r"\S*\d\S*", "fair", newer)), "it states no number"


def test_need_17_what_only_has_a_number_pushes_the_answer_down_by_one_line_at_most() -> None:
    rent = memory("The rent of the flat is 900 euros a month")._replace(coverage=0.9, score=0.9)
    paid = [
        memory(f"Paid the rent of the flat for month {number} at the bank", number, day=number)._replace(score=0.7)
        for number in range(2, 9)
    ]
    shown = [line.told for line in lines_of((rent, *paid), "How much is the rent of the flat?")]
    assert shown.index(rent) <= 1
    for asked in ("Can you review my code?", "What is our code style?", "How do I number the pages of the flat?"):
        assert not asks_for_value(asked), asked


@pytest.mark.parametrize(
    ("question", "older", "said", "reply"),
    [
        (
            "Which import order do we have?",
            "Import order: standard library, then others, then ours",
            "ruff complains about the import order",
            "Changed the import order.",
        ),
        ("Where is the deploy script?", "The deploy script is in ops/bin", "deploy script has a typo", "Corrected."),
        (
            "Which database does the billing service use?",
            "The billing service uses Postgres",
            "add a health check to the billing service",
            "Done. Updated the billing service, tests pass.",
        ),
    ],
)
def test_need_17_work_that_the_assistant_reports_as_done_changes_nothing_that_was_so(
    question: str, older: str, said: str, reply: str
) -> None:
    before = memory(older)._replace(coverage=0.9, score=0.9)
    for half in exchange(said, reply, 10, day=2):
        assert lines_of((before, half._replace(score=0.7)), question)[0].told is before


def test_need_17_a_name_in_common_does_not_make_two_texts_about_the_same() -> None:
    older, newer = memory("Jamal has played the cello since school"), memory("Jamal moved to Split", 2, day=2)
    assert [line.told for line in lines_of((older, newer), "Does Jamal still play?")] == [older, newer]
    newer = newer._replace(content="User's friend Jamal moved to Split")
    assert [line.told for line in lines_of((older, newer), "does jamal still play?")] == [older, newer]
    paid = memory("Das Klavier hat 900 Euro gekostet"), memory("Das Klavier ist jetzt beim Stimmer", 2, day=2)
    assert [line.told for line in lines_of(paid, "Was habe ich für das Klavier bezahlt?")] == list(paid)


def test_need_01_long_questions_are_compared_in_a_moment() -> None:
    """As whoever pastes the report of each day has them: "... Is anything odd in it?"."""
    report = " ".join(f"value of the sensor {name}" for name in map(str, permutations("abcdefg")))[:90_000]
    asked = [
        exchange(f"Report {day}: {report} Is anything odd in it?", f"No, not on {day}.", day) for day in range(550)
    ]
    started = time.thread_time()
    assert told(*(question for question, _ in asked))
    assert time.thread_time() - started < 5


def test_need_17_what_corrects_an_exchange_belongs_to_it_and_stands_right_behind_it() -> None:
    asked, answered = exchange("The raffle of the club made 684.", "684, noted.", 10)
    other, _ = exchange("The club meets on Fridays.", "On Fridays.", 20)
    corrected = asked._replace(id=12, content="No, I meant 648, typo.", at=AT + timedelta(minutes=1))
    said, reply = corrected._replace(around=(answered,)), answered._replace(around=(asked, corrected))
    elsewhere = corrected._replace(id=32, around=(answered._replace(id=31),))
    assert list(goes_on_about((other, said, elsewhere), (other, asked))) == [said]
    assert list(goes_on_about((), (reply,))) == [corrected], "it stands beside what was found"
    assert not list(goes_on_about((said,), (other,)))
    for hits in ((asked, other, said), (other, asked, said)):
        lines = [line.told for line in lines_of(hits)]
        assert lines.index(said) == lines.index(asked) + 1


def test_need_37_to_a_question_for_what_helped_belongs_what_takes_up_the_advice() -> None:
    asked, reply = exchange("The label printer prints blanks", "The labels may be in upside down. Calibrate it.", 10)
    found = asked._replace(id=12, content="upside down. doh, thanks", around=(reply,))
    other = found._replace(content="The printer stands in room 4 now")
    for question in ("printer prints blanks again, what was it?", "how did we fix the label printer"):
        assert list(goes_on_about((found,), (asked,), question)) == [found]
        assert not list(goes_on_about((other,), (asked,), question))
        lines = lines_of((asked, found), question)
        assert [line.told.content for line in lines] == [reply.content, found.content]
    assert not list(goes_on_about((found,), (asked,), "Where is the label printer?"))


def test_need_37_only_what_goes_on_about_an_exchange_is_moved_behind_it() -> None:
    asked, reply = exchange("The label printer prints blanks", "The labels may be in upside down.", 10)
    beside = asked._replace(id=12, content="No, I meant the other printer", around=(reply,))
    asked = asked._replace(around=(*asked.around, beside))
    boiler, bled = exchange("The boiler hums at night", "Bleed the radiators first.", 20)
    door, oiled = exchange("The garage door squeaks", "Oil its hinges.", 30)
    lines = lines_of((asked, boiler, door), "how did we fix the label printer")
    assert [line.told.content for line in lines] == [reply.content, bled.content, oiled.content]


def test_need_17_what_says_that_a_day_is_off_stands_before_what_was_said_of_it_first() -> None:
    choir, dentist = memory("Choir is on Wednesday too."), memory("The dentist is on Wednesday at nine.", 2, day=1)
    off = memory("The dentist on Wednesday is cancelled.", 3, day=4)
    lines = lines_of((choir, dentist, off), "What do I have on Wednesday?")
    assert [line.told for line in lines] == [choir, off, dentist]


def test_need_37_of_an_error_that_was_pasted_without_a_word_the_reply_is_told() -> None:
    pasted, helped = exchange("Error: the harbour crane is offline", "Press the green button at its foot.", 10)
    assert told(pasted) == [(helped.content, pasted.content)]
    long = pasted._replace(
        content="Traceback (most recent call last):\n" + '  File "crane.py"\n' * 20 + "CraneError: 7"
    )
    assert told(long) == [(long.content, helped.content)]
    explained = long._replace(content=f"{long.content}\n\nIt went away when I pressed the green button.")
    assert told(explained) == [(explained.content, "")]
    at_length = explained._replace(
        content=f"{explained.content} It took me all day to find that out." + " It is green." * 80
    )
    assert told(at_length) == [(at_length.content, "")]
