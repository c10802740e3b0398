"""In which language a theme's words are stemmed."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.config.loading import load
from hermes_memory_pgvector.domain.theme import Languages


def test_a_theme_has_its_own_language_or_the_default() -> None:
    languages = Languages("spanish", ["Berlin Support=german", "logs*=simple", "logs-eu=french"])
    assert languages.of("berlin support") == "german"
    assert languages.of("logs") == languages.of("logs-eu") == "simple", "the first that fits"
    assert languages.of("berlin") == languages.of("x") == "spanish"
    assert languages.all == ("spanish", "german", "simple", "french")


def test_a_theme_may_hold_the_sign_itself() -> None:
    assert Languages("english", ["a=b=german"]).of("a=b") == "german"


@pytest.mark.parametrize("wrong", ["german", "berlin=klingon", "=german", ["berlin=german", "x"], {"berlin": 1}])
def test_what_is_no_language_of_a_theme_is_said_and_left_out(wrong: object) -> None:
    loaded = load({"text_languages": wrong}, {})
    assert loaded.settings.text_languages == ()
    (warning,) = loaded.warnings
    assert "expected a list of theme=language" in warning


def test_languages_come_from_the_environment_as_well() -> None:
    loaded = load({}, {"HERMES_PGVECTOR_TEXT_LANGUAGES": "berlin=german, madrid=spanish"})
    assert loaded.settings.text_languages == ("berlin=german", "madrid=spanish")
    assert loaded.warnings == ()


def test_an_unknown_default_is_said() -> None:
    loaded = load({"text_language": "klingon"}, {})
    assert loaded.settings.text_language == "english"
    assert "text_language" in loaded.warnings[0]
