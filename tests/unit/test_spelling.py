"""Which words of a question are misspelt, and what is meant by them."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.store.spelling import (
    common_words_meant,
    is_slip,
    misspellable,
    other_umlauts,
    respelt,
    spellings,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("zepelin", "zeppelin"),
        ("calender", "calendar"),
        ("lgihthouse", "lighthouse"),
        ("tabel", "table"),
        ("budet", "budget"),
        ("aepplication", "application"),
        ("appoitnmetn", "appointment"),
        ("apointmment", "appointment"),
    ],
)
def test_slips(written: str, meant: str) -> None:
    assert is_slip(written, meant)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("cable", "table"),
        ("hike", "bike"),
        ("harbor", "labour"),
        ("stair", "stars"),
        ("state", "stage"),
        ("state", "states in"),
        ("stages", "stages"),
        ("event", "even"),
        ("port", "part"),
        ("apoitnmetn", "appointment"),
        ("calandra", "calendar"),
    ],
)
def test_other_words_are_no_slips(written: str, meant: str) -> None:
    assert not is_slip(written, meant)


def test_only_words_may_be_misspelt() -> None:
    found = misspellable(["calend", "err_conn_42", "v2", "the", "会议", "abcd"], "The calender of ERR_CONN_42 abcd")
    assert found == {"calend": ("calend", "calender")}


@pytest.mark.parametrize(
    ("term", "written", "lexeme", "meant"),
    [
        ("leson", "lesons", "lesson", "lessons"),
        ("compni", "compny", "compani", "company"),
        ("challng", "challnge", "challeng", "challenge"),
        ("studei", "studeis", "studi", "studis"),
        ("zepelin", "zepelin", "zeppelin", "zeppelin"),
    ],
)
def test_the_word_that_is_meant_has_the_ending_that_was_written(
    term: str, written: str, lexeme: str, meant: str
) -> None:
    best = spellings(term, (term, written), ["other", lexeme])[0]
    assert (best.lexeme, {each.meant for each in spellings(term, (term, written), [lexeme])}) >= (lexeme, {meant})


def test_the_fewest_errors_are_the_likeliest() -> None:
    found = spellings("appoitnmetn", ("appoitnmetn",), ["appointment", "appointmetn"])
    assert found[0].meant == "appointmetn"
    assert {each.meant for each in found} == {"appointmetn", "appointment"}


def test_a_question_is_written_with_the_words_that_are_meant() -> None:
    text = "Where do the Lesons of the Zépelin, of lesons, start?"
    assert respelt(text, {"lesons": "lessons", "zepelin": "zeppelin"}) == (
        "Where do the lessons of the zeppelin, of lessons, start?"
    )
    assert respelt(text, {}) is text


_WORDS = (
    *("the", "of", "we", "did", "is", "where", "which", "like", "cat", "sleep", "tricks", "tracks", "restaurant"),
    *("empire", "expired"),
)
_COMMON = {word: rank for rank, word in enumerate(_WORDS)}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Which restarant did we like?", {"restarant": "restaurant"}),
        ("Restarant: where did we like the cat", {"restarant": "restaurant"}),
        ("Where did we like the trcks of the cat", {"trcks": "tricks"}),  # and not "tracks", a rarer word
        ("Where did Trcks sleep", {}),  # a name
        ("Where did the cats sleep", {}),
        ("Where did we like the muffin", {}),
        ("Where did the cat expire", {}),  # what is known with an ending is known without it
        ("Welches restarant mochten wir", {}),  # in another language
        ("Where is restarant_7 of the cat", {}),
        ("Where is restarant.example of the cat", {}),
    ],
)
def test_a_common_word_may_be_meant(text: str, meant: dict[str, str]) -> None:
    unheld = {"restarant", "trcks", "cats", "muffin", "expire", "welches", "mochten"}
    assert common_words_meant(text, unheld, _COMMON.get) == meant
    assert common_words_meant(text, (), _COMMON.get) == {}


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("Welchen Kühlschrank haben wir gekauft?", {"Kühlschrank": "Küehlschrank"}),
        ("wo ist der tueroeffner", {"tueroeffner": "turoffner"}),
        ("Wann ist die neue Steuer fällig?", {"fällig": "fäellig"}),
        ("why is the queue of the blue printer true", {}),
    ],
)
def test_need_39_umlauts_may_be_typed_as_two_letters(text: str, others: dict[str, str]) -> None:
    assert other_umlauts(text) == others
