"""Messages that ask several things are split into questions that can be searched by themselves; others are not."""

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
        "How are you? Where is the spare key?",
        "Hallo, wie geht es dir? Wo liegt der Ersatzschlüssel?",
        "Where is the spare key? Do you know? Right?",
        "Where is the spare key? In the drawer?",
        "Where did I leave the bike that I bought? Was it locked?",
        "What does https://example.org/?page=2 show?",
        "What?? Really?? Why???",
        "A? B? C? D? Where is the key? Who has the car? When is lunch? What is the code?",
        "Where is the spare key? " + "The roof leaks. " * (MAX_CHARS // 15) + "When is the rent due?",
        "",
        "?",
    ],
)
def test_a_message_that_asks_one_thing_stays_whole(text: str) -> None:
    assert questions_in(text) == (text,)
