"""The part of a long text that answers."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.recall.excerpt import excerpt

FILLER = "Nothing of note happened in this part of the meeting, and then what was said was said again. "


def hidden(sentence: str, place: float, chars: int = 41_000) -> str:
    """A long text with the sentence at a share of its length."""
    count = chars // len(FILLER)
    before = round(count * place)
    return FILLER * before + sentence + " " + FILLER * (count - before)


@pytest.mark.parametrize("place", [0.0, 0.1, 0.37, 0.5, 0.99, 1.0])
@pytest.mark.parametrize(
    ("sentence", "question"),
    [
        ("The vault code is QUARTZ-7719.", "what was the vault code?"),
        ("The vault code is QUARTZ-7719.", "QUARTZ-7719"),
        ("Deploying needs the variable AWS_REGION.", "which variable do deployments need?"),
        ("Das Café am Bahnhof öffnet um sieben.", "wann oeffnet das cafe am bahnhof"),
        ("上海办公室的会议室每周五维护。", "会议室什么时候维护？"),
        ("山田さんが週次レポートを提出します。", "週次レポート"),
        ("서울 사무실은 매주 금요일에 점검합니다.", "서울 사무실 점검"),
        ("Пароль от сейфа лежит у Анны.", "пароль от сейфа"),
        ("كلمة السر محفوظة عند ليلى.", "كلمة السر"),
        ("तिजोरी की चाबी अलमारी में रखी है।", "तिजोरी की चाबी कहाँ है?"),
        ("รหัสตู้นิรภัยคือ 7719", "รหัสตู้นิรภัย"),
    ],
)
def test_need_19_the_sentence_that_answers_is_shown_whole(sentence: str, question: str, place: float) -> None:
    text = hidden(sentence, place)
    for max_chars in (300, 600, 6000):
        assert sentence in excerpt(text, question, max_chars), max_chars


def test_need_19_a_rare_word_counts_more_than_common_ones() -> None:
    text = hidden("Elbe.", 0.6)
    assert "Elbe." in excerpt(text, "what happened in the meeting, and what was said of Elbe?", 300)


@pytest.mark.parametrize("question", ["How hot do I bake the croissants?", "How long do the croissants bake?"])
def test_need_19_a_word_beside_the_subject_of_the_whole_text_tells_where_the_answer_is(question: str) -> None:
    text = f"The recipe of the croissants: {FILLER * 30}Bake them at 195 degrees for 22 minutes. {FILLER * 30}"
    assert "195 degrees for 22 minutes" in excerpt(text, question, 240)


@pytest.mark.parametrize("max_chars", [240, 600, 1000])
@pytest.mark.parametrize(
    ("line", "question", "answer"),
    [
        (
            "Day {0}: run {2} km easy, do {1} squats, eat {3} eggs, focus {0}F.",
            "What was the focus on day {}?",
            "focus {}F",
        ),
        ("Tag {0}: {2} km laufen, {1} Kniebeugen, {3} Eier, Ziel {0}Z.", "was war das ziel an tag {}", "Ziel {}Z"),
        ("- 2.{0}: fixed {2} bugs in {1} files, {3} new options, code {0}C.", "Which code came with 2.{}?", "code {}C"),
        ("第{0}天：跑{2}公里，做{1}个深蹲，吃{3}个鸡蛋，重点是{0}甲。", "第{}天的重点是什么？", "重点是{}甲"),
    ],
)
def test_need_19_of_a_numbered_list_the_item_that_is_asked_for_is_shown(
    line: str, question: str, answer: str, max_chars: int
) -> None:
    plan = "\n".join(line.format(day, day % 7 + 1, day % 5 + 3, day % 4 + 2) for day in range(1, 31))
    for day in (3, 5, 9, 12, 28):
        assert answer.format(day) in excerpt(f"The plan:\n{plan}", question.format(day), max_chars), day


def test_need_19_a_word_that_only_builds_the_question_is_not_what_it_is_about() -> None:
    text = f"{FILLER * 9}Ask us how you can be of help. {FILLER * 9}Pay the rent by transfer. {FILLER * 9}"
    assert "by transfer" in excerpt(text, "How can you pay?", 240)


def test_need_19_of_places_as_good_the_first_is_shown() -> None:
    """A word is explained where it is first met; later it may stand in a table."""
    sentence = "For nearly sorted data use timsort, which finds the natural runs."
    text = hidden(sentence, 0.5) + FILLER * 5 + "| timsort | n | n/2 |"
    assert sentence in excerpt(text, "timsort", 400)


def test_need_19_the_sentence_is_found_among_many_thousand_words_of_the_question() -> None:
    text = hidden("The vault code is QUARTZ-7719.", 0.71, chars=1_000_000)
    assert "QUARTZ-7719" in excerpt(text, "what was said of the vault code in this part of the meeting", 600)


def test_need_19_a_long_question_about_a_long_text_takes_a_moment() -> None:
    dice = random.Random(7)
    words = ["".join(dice.choices("abcdefghijklmnop", k=8)) for _ in range(900)]
    text = " ".join(dice.choices(words, k=110_000))
    started = time.thread_time()
    assert len(excerpt(text, " ".join(words), 6000)) <= 6000
    assert time.thread_time() - started < 10


def test_need_01_a_page_of_long_texts_is_cut_within_a_moment() -> None:
    """A tool cuts each of its results, and what stands around them, more than once, after its deadline was kept."""
    dice = random.Random(7)
    text = " ".join(dice.choices(FILLER.split(), k=18_000))
    started = time.thread_time()
    for number in range(60):
        excerpt(text, f"what was said again in the meeting of which nothing happened, part {number}", 300)
    assert time.thread_time() - started < 1.5


@pytest.mark.parametrize("place", [0, 500, 900])
def test_trap_14_of_the_part_that_meaning_has_found_the_sentence_with_the_words_is_shown(place: int) -> None:
    other = "Who leaves last locks the vault. " * 40
    part = (FILLER * 15)[:place] + "The vault code is QUARTZ-7719. " + (FILLER * 15)[: 1100 - place]
    found = excerpt(other + part + other, "what opens the vault, which code", 240, near=len(other))
    assert "QUARTZ-7719" in found


def test_trap_14_the_part_that_meaning_has_found_is_shown_from_its_beginning_where_no_word_stands_in_it() -> None:
    text = FILLER * 20 + "Ingrid greases the crane. " + FILLER * 20
    near = text.index("Ingrid")
    assert excerpt(text, "zebra", 240, near=near).startswith("…Ingrid")
    assert len(excerpt(text, "zebra", 240, near=len(text) - 5)) <= 240


def test_a_short_text_is_given_as_it_is() -> None:
    assert excerpt("  two\nlines ", "anything", 600) == "  two\nlines "


@pytest.mark.parametrize("question", ["", "?", "🎉", "zebra"])
def test_without_a_word_of_the_question_it_is_the_beginning(question: str) -> None:
    text = hidden("The vault code is QUARTZ-7719.", 0.5)
    found = excerpt(text, question, 600)
    assert found.endswith("…") and text.startswith(found[:-1])


def test_what_is_left_out_is_marked_on_either_side() -> None:
    text = hidden("The vault code is QUARTZ-7719.", 0.5)
    found = excerpt(text, "vault code", 600)
    assert found.startswith("…") and found.endswith("…")
    assert excerpt(hidden("The vault code is QUARTZ-7719.", 1.0), "vault code", 600).startswith("…")


@given(
    st.text(st.sampled_from("ab1 \n_äß会議\U0001f389\u0301\u200b"), max_size=900),
    st.text(st.sampled_from("ab1 \n_äß会議\U0001f389\u0301\u200b"), max_size=40),
    st.integers(10, 700),
)
def test_an_excerpt_is_a_piece_of_the_text_and_never_too_long(text: str, question: str, max_chars: int) -> None:
    found = excerpt(text, question, max_chars)
    assert len(found) <= max_chars
    assert found.removeprefix("…").removesuffix("…") in text
    assert (found == text) == (len(text) <= max_chars)
