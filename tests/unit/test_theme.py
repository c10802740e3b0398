"""Theme resolution: order, normal form, and that chats and headers never meet."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.theme import MAX_CHARS, Theme, normalise_theme, profile_theme, resolve_theme

# All code points, halves of surrogate pairs among them, and the texts that matter more often than chance would.
_any_text = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=300) | st.sampled_from(
    ["@telegram/default/0123456789abcdef", "agent:main:telegram:dm:+491701234567", "İ", "ǰ", "ß" * 200, "\udcff\udcfe"]
)
_messaging = st.sampled_from(["telegram", "whatsapp", "signal", "webhook", "IRC", "@", "a/b", "cron", "\udcff"])
_not_messaging = st.sampled_from(["", "api_server", "cli", "local", "tui", "desktop", "acp", " API_Server "])

CHAT_KEY = "agent:main:telegram:dm:+491701234567"


@pytest.mark.parametrize(
    ("given_", "theme"),
    [
        ({"session_key": "Marketing", "profile": "coder"}, Theme("marketing", "session_key")),
        ({"session_key": " \t", "profile": "coder", "workspace": "hermes"}, Theme("coder", "profile")),
        ({"profile": "default", "workspace": "hermes"}, Theme("default", "profile")),
        ({"profile": " ", "workspace": "Hermes", "default": "x"}, Theme("hermes", "workspace")),
        ({"default": " Team "}, Theme("team", "default")),
        ({"default": "  "}, Theme("default", "default")),
        ({}, Theme("default", "default")),
    ],
)
def test_the_first_that_is_not_blank_wins(given_: dict[str, str], theme: Theme) -> None:
    assert resolve_theme(**given_, platform="api_server") == theme


def test_profile_theme_is_what_a_session_without_a_key_gets() -> None:
    assert (
        profile_theme("Coder", workspace="w") == resolve_theme(profile="Coder", workspace="w") == ("coder", "profile")
    )


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Sales", "sales"),
        ("  a \t b\u3000c ", "a b c"),
        ("Stra\u00dfe", "strasse"),
        ("Cafe\u0301", "caf\u00e9"),
        ("a\0b\x01", "a%00b%01"),
        ("a\u0085b", "a%c2%85b"),
        ("\udcff\udc80", "%ff%80"),
        ("\ud800", "%ed%a0%80"),
        ("team/a'b\"c", "team/a'b\"c"),
        ("", ""),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    assert normalise_theme(text) == normal


def test_broken_keys_that_differ_stay_different() -> None:
    keys = ["a\udcff", "a\udcfe", "a", "a\0", "a\ud800", "a\ufffd"]
    assert len({normalise_theme(key) for key in keys}) == len(keys)


def test_long_keys_keep_their_difference() -> None:
    longest = normalise_theme("x" * MAX_CHARS)
    one, other = normalise_theme("x" * MAX_CHARS + "a"), normalise_theme("x" * MAX_CHARS + "b")
    assert longest == "x" * MAX_CHARS
    assert len(one) == len(other) == MAX_CHARS
    assert one[:240] == "x" * 239 + "-"
    assert len({longest, one, other}) == 3


@settings(deadline=None)
@given(_any_text)
@example("\u0345\u0390\u1fb3")
def test_normal_form_is_idempotent_storable_and_bounded(text: str) -> None:
    normal = normalise_theme(text)
    assert normalise_theme(normal) == normal
    assert len(normal) <= MAX_CHARS
    assert "\0" not in normal
    normal.encode()


@settings(deadline=None)
@given(_any_text, st.text(max_size=8), _any_text, _any_text, _any_text)
def test_any_session_has_a_theme_postgres_can_store(
    session_key: str, platform: str, profile: str, workspace: str, default: str
) -> None:
    theme = resolve_theme(
        session_key=session_key, platform=platform, profile=profile, workspace=workspace, default=default
    )
    assert 0 < len(theme.name) <= MAX_CHARS
    assert "\0" not in theme.name
    theme.name.encode()
    assert normalise_theme(theme.name) == theme.name


@settings(deadline=None)
@given(_any_text, _messaging, _any_text, _any_text, _not_messaging)
def test_chat_and_other_themes_never_collide(
    chat_key: str, platform: str, profile: str, header: str, header_platform: str
) -> None:
    chat = resolve_theme(session_key=chat_key, platform=platform, profile=profile)
    if chat.source != "chat":
        assert not normalise_theme(chat_key)
        return
    for claimed in (header, chat_key, chat.name, chat.name.upper()):
        others = [
            resolve_theme(session_key=claimed, platform="api_server", profile=profile),
            resolve_theme(session_key=claimed, platform=header_platform, profile=profile),
            resolve_theme(profile=claimed),
            resolve_theme(workspace=claimed),
            resolve_theme(default=claimed),
        ]
        assert all(other.name != chat.name for other in others if other.source != "chat")


def test_a_chat_shows_nothing_of_its_key() -> None:
    theme = resolve_theme(session_key=CHAT_KEY, platform="telegram", profile="default")
    assert theme.source == "chat"
    assert theme.name.startswith("@telegram/default/") and len(theme.name) == len("@telegram/default/") + 16
    assert "4917" not in theme.name


def test_need_04_chats_differ_by_key_platform_and_profile() -> None:
    themes = {
        resolve_theme(session_key=key, platform=platform, profile=profile).name
        for key in (CHAT_KEY, CHAT_KEY + "8", CHAT_KEY.upper())
        for platform in ("telegram", "signal", "tele/gram")
        for profile in ("default", "coder", "x/y")
    }
    assert len(themes) == 27


def test_need_04_a_client_cannot_claim_a_chat() -> None:
    chat = resolve_theme(session_key=CHAT_KEY, platform="telegram", profile="default")
    claimed = resolve_theme(session_key=CHAT_KEY, platform="api_server", profile="default")
    spelled = resolve_theme(session_key=chat.name, platform="api_server", profile="default")
    assert claimed == Theme(CHAT_KEY, "session_key")
    assert spelled == Theme("%40" + chat.name[1:], "session_key")


def test_a_key_in_the_gateway_s_form_is_a_chat_on_the_local_platform_too() -> None:
    assert resolve_theme(session_key="agent:main:local:dm", platform="cli").source == "chat"
    assert resolve_theme(session_key="my-notes", platform="cli") == Theme("my-notes", "session_key")
