"""Which language a question is in, and what of it is not searched for."""

from __future__ import annotations

import re
import time

import pytest

from hermes_memory_pgvector.domain.function_words import (
    language_of,
    stating_words,
    telling_words,
    without_function_words,
)


@pytest.mark.parametrize(
    ("text", "language", "rest"),
    [
        ("Wer gießt die Blumen, wenn wir weg sind?", "de", "gießt Blumen weg"),
        ("Was kostet die Zahnspange?", "de", "kostet Zahnspange"),
        ("Wo haben wir den Türöffner bestellt?", "de", "Türöffner bestellt"),
        ("wie viel muessen wir fuer strom nachzahlen", "de", "strom nachzahlen"),
        ("¿Cuánto pagamos de alquiler a partir de enero?", "es", "pagamos alquiler partir enero"),
        ("cuanto gana Nerea", "es", "gana Nerea"),
        ("Combien est-ce que nous payons pour le parking ?", "fr", "Combien payons parking"),
        ("Quanto paghiamo per il parcheggio?", "it", "paghiamo parcheggio"),
        ("Quem tem a chave da garagem?", "pt", "chave garagem"),
        ("Hoeveel betalen we voor de garage?", "nl", "betalen garage"),
    ],
)
def test_need_39_words_that_only_build_a_sentence_are_left_out(text: str, language: str, rest: str) -> None:
    assert language_of(text) == language
    assert re.findall(r"\w+", without_function_words(text)) == rest.split()


@pytest.mark.parametrize(
    "text",
    [
        "Who waters the flowers when we are away?",
        "What did Ben say about the war in the van?",
        "die cast prices",
        "Los Angeles hotel",
        "Where is Van Gogh's picture?",
        "menu",
        "git rebase --onto main feature",
        "谁对青霉素过敏？",
        "",
    ],
)
def test_english_and_other_texts_are_left_as_they_are(text: str) -> None:
    assert language_of(text) == ""
    assert without_function_words(text) == text


def test_a_quoted_phrase_and_a_question_of_nothing_else_are_whole() -> None:
    assert without_function_words("Wer hat „das ist mein“ gesagt?") == "Wer hat „das ist mein“ gesagt?"
    assert without_function_words("Und was war das denn?") == "Und was war das denn?"


def test_what_tells_something() -> None:
    assert list(telling_words("HR 88, BP 130/80, K 4.2")) == ["hr", "88", "bp", "130/80", "k", "4.2"]
    assert not list(telling_words("Wie geht es dir heute? Thanks!"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I'm vegan now", {"i", "m", "vegan"}),
        ("We don't have a car", {"we", "have", "car"}),
        ("our rent is 1280", {"our", "rent", "is", "1280"}),
        ("open our calendar", {"open", "calendar"}),
        ("Is it raining", {"raining"}),
        ("where is the spare key", {"spare", "key"}),
        ("wann ist der Termin", {"termin"}),
        ("Ik ben zwanger", {"ik", "ben", "zwanger"}),
        ("try that once more", {"once"}),
        ("Meine Katze ist krank", {"meine", "katze", "ist", "krank"}),
    ],
)
def test_what_states_something(text: str, words: set[str]) -> None:
    assert stating_words(text) == words


def test_need_19_a_long_text_takes_no_time() -> None:
    started = time.thread_time()
    without_function_words("wenn wir " * 200_000)
    assert time.thread_time() - started < 5
