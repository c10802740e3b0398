"""What is searched for before a message is answered: the user's own words, unless there is nothing to look for."""

from __future__ import annotations

from collections import Counter

from ..capture.turn_filter import is_trivial_query, only_goes_on, own_words
from ..config.settings import Settings
from ..domain.pasted_lines import what_stands_out
from ..domain.text import both_ends, clean, flatten_within, strip_injected
from ..domain.theme import SessionThemes
from .recall_tools import QUESTION_MAX_CHARS
from .session_context import Policy


def question_in(message: object, max_chars: int) -> str:
    """Return the user's own words in a message, as they are searched for; of a long one, both ends."""
    asked = strip_injected(clean(flatten_within(message, max_chars)[0]))
    return own_words(both_ends(asked, QUESTION_MAX_CHARS))


def sought_before_turn(
    message: object, settings: Settings, policy: Policy, place: SessionThemes, counts: Counter[str]
) -> tuple[str, str]:
    """Return what is searched for before a message is answered, and why nothing is; "" if something is."""
    if settings.prefetch_limit == 0:
        return "", "recall before a turn is off (setting `prefetch_limit` is 0)"
    if policy.silences(place, counts):
        return "", "sessions of this theme recall nothing (setting `recall_off`)"
    text = question_in(message, policy.keep.max_chars)
    if is_trivial_query(text):
        return text, "there is nothing to look for in this message: it only greets, thanks or agrees"
    if only_goes_on(text):
        return text, "there is nothing to look for in this message: it only goes on with what was just done or said"
    if is_trivial_query(what_stands_out(text)):
        return text, "there is nothing to look for in this message: its lines are all alike"
    return text, ""
