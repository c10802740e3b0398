"""The title of a session."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.domain.titles import TITLE_CHARS, title_of


@pytest.mark.parametrize(
    ("messages", "title"),
    [
        (["Hello there! Please plan the trip to Lisbon. We are four people."], "Plan the trip to Lisbon"),
        (
            ["Good morning, how are you?", "Is Python 3.12 slower than 3.11?"],
            "Is Python 3.12 slower than 3.11?",
        ),
        (["Hi!", "Thanks", "Review the pull request of Tom"], "Review the pull request of Tom"),
        (["Hallo zusammen, bitte übersetze den Brief"], "Übersetze den Brief"),
        (["Upgrade to version 2.3 of the API, please."], "Upgrade to version 2.3 of the API, please"),
        (["\n  # Task\n\nWrite the quarterly report\n"], "Write the quarterly report"),
        (["请帮我翻译这封信。谢谢！"], "请帮我翻译这封信"),
        (["Hi!"], "Hi!"),
        (["Hi, how are you?"], "Hi, how are you?"),
        (["???", ""], ""),
        ([], ""),
    ],
)
def test_it_is_the_first_sentence_that_says_something(messages: list[str], title: str) -> None:
    assert title_of(messages) == title


def test_a_long_one_is_cut_between_words() -> None:
    title = title_of(["Compare the three offers for the new roof with each other and with what others paid"])
    assert title == "Compare the three offers for the new roof with each other…"
    assert len(title_of(["x" * 300])) == TITLE_CHARS
