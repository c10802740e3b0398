"""What of a message is searched for: each of several questions by itself, and no small talk."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.recall.questions import MAX_CHARS, questions_in


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("Where is the spare key? And when is the rent due?", 2),
        ("Hey! Where is the spare key?  What did the plumber cost?\n", 2),
        ("Wo liegt der Ersatzschlüssel? Und wie lautet das Passwort vom Router?", 2),
        ("¿Dónde está la llave? ¿Cuánto costó el fontanero?", 2),
        ("上司是做什么工作的呢？另外，论坛的地点是什么？", 2),
        ("Where is the spare key? When is the rent due? Who repairs the roof? Thanks!", 3),
        ("Where is the spare key? What did Ingrid say about her brother?", 2),
        ("Where is the spare key? Who's Anna?", 2),
        ("Where is the spare key??! When is the rent due?!", 2),
    ],
)
def test_each_question_of_a_message_is_found(text: str, questions: int) -> None:
    assert len(questions_in(text)) == questions
    assert text not in questions_in(text)


def test_what_is_said_besides_is_looked_for_with_the_whole_message() -> None:
    text = "We fly to Lisbon in May. Which hotel did I like? What did the flight cost?"
    assert questions_in(text) == (text, "Which hotel did I like?", "What did the flight cost?")
    ordered = "Where is the spare key? When is the rent due? Put the answers into a table."
    assert questions_in(ordered)[0] == ordered


def test_a_question_that_refers_back_belongs_to_the_one_before_it() -> None:
    asked = questions_in("Who repairs the roof? What is his number? When is the rent due?")
    assert asked == ("Who repairs the roof? What is his number?", "When is the rent due?")


@pytest.mark.parametrize(
    "text",
    [
        "Where is the spare key?",
        "Where is the spare key? In the drawer?",
        "Where is the spare key?! In the drawer?!",
        "Where did I leave the bike that I bought? Was it locked?",
        "What does https://example.org/?page=2 show?",
        "What?? Really?? Why???",
        "Whales? Bees? Cats? Dogs? Where is the key? Who has the car? When is lunch? What is the code?",
        "Where is the spare key? " + "The roof leaks. " * (MAX_CHARS // 15) + "When is the rent due?",
        "",
        "?",
    ],
)
def test_a_message_that_asks_one_thing_stays_whole(text: str) -> None:
    assert questions_in(text) == (text,)


@pytest.mark.parametrize(
    "message",
    [
        "Hi there, quick question: {}",
        "Hello Hermes, how are you? {}",
        "Hi again, I hope you had a good weekend! {} Thanks a lot, that would really help me.",
        "So, um, can you remind me: {}",
        "Do you remember {}",
        "{} Thanks in advance!",
        "Sag mal, {}",
        "Hallo, wie geht es dir? {}",
        "{} Do you know? Right?",
        "Por favor, {}",
    ],
)
def test_small_talk_around_a_question_is_not_searched_for(message: str) -> None:
    (asked,) = questions_in(message.format("where is the spare key?"))
    assert asked == "where is the spare key?"


def test_both_questions_lose_what_is_said_around_them() -> None:
    text = "Hi! Can you tell me where the spare key is? And do you remember when the rent is due? Thank you so much!"
    assert questions_in(text) == ("where the spare key is?", "when the rent is due?")


@pytest.mark.parametrize(
    "text",
    [
        "Thanks!",
        "Hello",
        "How are you?",
        "Last weekend, where did we eat?",
        "Today, where did we eat?",
        "In May, where did we eat?",
        "Where did we eat, in May?",
        "This May, where did we eat?",
        "Last May, where did we eat?",
        "id, name, time, status",
        "The cake was great, thanks to Anna.",
        "What is the plan?",
        "plan, budget, deadline",
        "Well water tests of the last years",
        "We hope this plan works. Who wrote it?",
        "Hello world program, why does it fail?",
        "Can you tell me about it?",
        "My life plan: retire at sixty",
        "War, famine and plague in the notes",
        "hi, " * 200 + "where is the key?",
    ],
)
def test_what_may_be_meant_stays(text: str) -> None:
    assert questions_in(text) == (text,)
