"""Theme resolution: order, normal form, an operator's rules, and that chats and headers never meet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.theme import (
    CONTEXT_PLATFORMS,
    MAX_CHARS,
    SessionThemes,
    Surface,
    Theme,
    ThemeRules,
    ThemeSet,
    normalise_theme,
    resolve_theme,
    session_themes,
)

# All code points, halves of surrogate pairs among them, and the texts that matter more often than chance would.
_any_text = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=300) | st.sampled_from(
    [
        "@telegram/default/0123456789abcdef", "agent:main:telegram:dm:+491701234567", "\u0130", "\u01f0",
        "\u00df" * 200, "\udcff\udcfe", "alice@example.com", "bob@x.de@y.de", "+491701234567" * 20, "491701234567",
    ]
)  # fmt: skip
_messaging = st.sampled_from(["telegram", "whatsapp", "signal", "webhook", "IRC", "@", "a/b", "\udcff", "491701234567"])
_not_messaging = st.sampled_from(["", "api_server", "cli", "local", "tui", "desktop", "acp", " API_Server "])
_contexts = st.sampled_from(sorted(CONTEXT_PLATFORMS))
_rules = st.builds(
    ThemeRules.of,
    default=_any_text,
    allowed=st.lists(_any_text, max_size=2),
    aliases=st.lists(st.tuples(_any_text, _any_text).map("=".join), max_size=2),
    messaging=st.sampled_from(["split", "chat", "profile"]),
    identity_key=st.sampled_from(["", "key"]),
)

CHAT_KEY = "agent:main:telegram:dm:+491701234567"
CHAT = Surface(CHAT_KEY, "telegram", "coder")
PLAIN = ThemeRules.of(default="default")


@pytest.mark.parametrize(
    ("surface", "default", "theme"),
    [
        (Surface("Marketing", "api_server", "coder"), "x", Theme("marketing", "session_key")),
        (Surface(" \t", "api_server", "coder", "hermes"), "x", Theme("coder", "profile")),
        (Surface("", "api_server", "default", "hermes"), "x", Theme("default", "profile")),
        (Surface("", "api_server", " ", "Hermes"), "x", Theme("hermes", "workspace")),
        (Surface(), " Team ", Theme("team", "default")),
        (Surface(), "  ", Theme("default", "default")),
    ],
)
def test_the_first_that_is_not_blank_wins(surface: Surface, default: str, theme: Theme) -> None:
    assert resolve_theme(surface, ThemeRules.of(default=default)) == theme


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Sales", "sales"),
        ("  a \t b\u3000c ", "a b c"),
        ("Stra\u00dfe", "strasse"),
        ("Cafe\u0301", "caf\u00e9"),
        ("\u212aelvin \u017fales", "kelvin sales"),
        ("a\0b\x01", "a%00b%01"),
        ("a\u0085b", "a%c2%85b"),
        ("sa\u200bles\u202e", "sa%e2%80%8bles%e2%80%ae"),
        ("\udcff\udc80", "%ff%80"),
        ("\ud800", "%ed%a0%80"),
        ("team/a'b\"c", "team/a'b\"c"),
        ("stress-1734567890", "stress-1734567890"),
        ("intraday-20260503", "intraday-20260503"),
        ("2026-05-03 10:00", "2026-05-03 10:00"),
        ("", ""),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    assert normalise_theme(text) == normal


def test_texts_that_only_look_alike_stay_different() -> None:
    assert len({normalise_theme(name) for name in ("sales", "s\u0430les", "\uff53ales", "sa\u200bles", "sa les")}) == 5


def test_broken_keys_that_differ_stay_different() -> None:
    keys = ["a\udcff", "a\udcfe", "a", "a\0", "a\ud800", "a\ufffd"]
    assert len({normalise_theme(key) for key in keys}) == len(keys)


@pytest.mark.parametrize("key", ["a\0b", "sa\u200bles", "@sales", "\udcff", "alice@example.com", "x" * 300])
def test_a_name_in_its_stored_form_means_the_theme_that_has_it(key: str) -> None:
    stored = resolve_theme(Surface(key, "api_server"), PLAIN)
    assert resolve_theme(Surface(stored.name, "api_server"), PLAIN) == stored


def test_long_keys_keep_their_difference() -> None:
    longest = normalise_theme("x" * MAX_CHARS)
    one, other = normalise_theme("x" * MAX_CHARS + "a"), normalise_theme("x" * MAX_CHARS + "b")
    assert longest == "x" * MAX_CHARS
    assert len(one) == len(other) == MAX_CHARS
    assert one[:240] == "x" * 239 + "-"
    assert len({longest, one, other}) == 3


@settings(deadline=None)
@given(_any_text, st.sampled_from(["", "key"]))
@example("\u0345\u0390\u1fb3", "")
@example("a" * 226 + "+4917012345678901234", "")
@example("~0123456789abcdef@x.de", "")
def test_normal_form_is_idempotent_storable_and_bounded(text: str, identity_key: str) -> None:
    normal = normalise_theme(text, identity_key)
    assert normalise_theme(normal, identity_key) == normal
    assert len(normal) <= MAX_CHARS
    assert "\0" not in normal
    normal.encode()


@settings(deadline=None)
@given(st.builds(Surface, _any_text, st.text(max_size=8) | _messaging, _any_text, _any_text), _rules)
def test_any_session_has_themes_postgres_can_store(surface: Surface, rules: ThemeRules) -> None:
    found = session_themes(surface, rules)
    for theme in (found.turns, found.memories, found.files):
        assert 0 < len(theme.name) <= MAX_CHARS
        assert "\0" not in theme.name
        theme.name.encode()
        assert normalise_theme(theme.name, rules.identity_key) == theme.name
    assert not found.files.name.startswith("@")


@settings(deadline=None)
@given(_any_text, _messaging, _any_text, _any_text, _not_messaging | _contexts, _any_text)
def test_need_04_chats_and_other_surfaces_never_collide(
    chat_key: str, platform: str, profile: str, header: str, other_platform: str, default: str
) -> None:
    chat = session_themes(Surface(chat_key, platform, profile), PLAIN)
    if not chat.chat:
        assert not normalise_theme(chat_key)
        return
    for claimed in (header, chat_key, chat.turns.name, chat.turns.name.upper()):
        others = [
            session_themes(Surface(claimed, other_platform, profile), PLAIN),
            session_themes(Surface(profile=claimed), PLAIN),
            session_themes(Surface(workspace=claimed), PLAIN),
            session_themes(Surface(), ThemeRules.of(default=claimed)),
            session_themes(
                Surface(claimed, "api_server"), ThemeRules.of(default=default, aliases=[f"{claimed}={claimed}"])
            ),
        ]
        assert all(other.chat or other.turns.name != chat.turns.name for other in others)


@settings(deadline=None)
@given(_any_text, _any_text, _messaging, _messaging, _any_text, _any_text)
def test_need_04_two_chats_never_collide(
    key: str, other_key: str, platform: str, other_platform: str, profile: str, other_profile: str
) -> None:
    one = session_themes(Surface(key, platform, profile), PLAIN)
    other = session_themes(Surface(other_key, other_platform, other_profile), PLAIN)
    same = (
        key == other_key
        and normalise_theme(platform) == normalise_theme(other_platform)
        and (normalise_theme(profile) or "default") == (normalise_theme(other_profile) or "default")
    )
    if one.chat and other.chat:
        assert (one.turns == other.turns) is same


def test_need_04_chats_differ_by_key_platform_and_profile() -> None:
    themes = {
        session_themes(Surface(key, platform, profile), PLAIN).turns.name
        for key in (CHAT_KEY, CHAT_KEY + "8", CHAT_KEY.upper())
        for platform in ("telegram", "signal", "tele/gram")
        for profile in ("default", "coder", "x/y")
    }
    assert len(themes) == 27


def test_need_04_a_client_cannot_claim_a_chat() -> None:
    chat = session_themes(CHAT, PLAIN)
    claimed = session_themes(Surface(CHAT_KEY, "api_server", "coder"), PLAIN)
    spelled = session_themes(Surface(chat.turns.name, "api_server", "coder"), PLAIN)
    assert claimed.turns.source == spelled.turns.source == "session_key"
    assert claimed.turns.name.startswith("agent:main:telegram:dm:~")
    assert spelled.turns.name == "%40" + chat.turns.name[1:]


@pytest.mark.parametrize("platform", sorted(CONTEXT_PLATFORMS))
def test_need_05_a_run_that_is_no_conversation_reads_where_its_owner_does(platform: str) -> None:
    assert session_themes(Surface("marketing", platform, "coder"), PLAIN).turns == Theme("marketing", "session_key")
    assert session_themes(Surface("", platform, "coder"), PLAIN).turns == Theme("coder", "profile")
    # The key of a chat may be a client's claim that was handed on: it opens no chat.
    assert session_themes(Surface(CHAT_KEY, platform, "coder"), PLAIN).turns == Theme("coder", "profile")


def test_a_key_in_the_gateway_s_form_is_a_chat_on_the_local_platform_too() -> None:
    assert session_themes(Surface("agent:main:local:dm", "cli"), PLAIN).chat
    assert session_themes(Surface("my-notes", "cli"), PLAIN).turns == Theme("my-notes", "session_key")


# -- an operator's rules


@pytest.mark.parametrize(
    ("messaging", "turns", "memories"),
    [("split", "chat", "profile"), ("chat", "chat", "chat"), ("profile", "profile", "profile")],
)
def test_what_of_a_chat_is_its_own_is_one_setting(messaging: str, turns: str, memories: str) -> None:
    found = session_themes(CHAT, ThemeRules.of(default="default", messaging=messaging))
    assert (found.turns.source, found.memories.source, found.files) == (turns, memories, Theme("coder", "profile"))
    assert found.chat


def test_a_theme_that_is_not_allowed_falls_to_the_default() -> None:
    rules = ThemeRules.of(default="Lobby", allowed=["sales", "Intraday-*"])
    assert session_themes(Surface("Sales", "api_server"), rules).turns.name == "sales"
    assert session_themes(Surface("intraday-sre", "api_server"), rules).turns.name == "intraday-sre"
    assert session_themes(Surface("lobby", "api_server"), rules).unknown == ()
    stranger = session_themes(Surface("Strangers", "api_server", "coder"), rules)
    assert stranger.turns == stranger.memories == Theme("lobby", "default")
    assert stranger.unknown == ("strangers", "coder")


def test_a_chat_needs_no_leave_and_its_profile_does() -> None:
    found = session_themes(CHAT, ThemeRules.of(default="lobby", allowed=["sales"]))
    assert (found.turns.source, found.memories.name, found.unknown) == ("chat", "lobby", ("coder",))


def test_an_alias_stands_for_a_theme_wherever_it_is_named() -> None:
    rules = ThemeRules.of(default="default", aliases=["MKTG = Marketing", "a=b", "b=c"], allowed=["marketing", "b"])
    assert session_themes(Surface(" mktg ", "api_server", "mktg"), rules) == SessionThemes(
        Theme("marketing", "session_key"), Theme("marketing", "session_key"), Theme("marketing", "profile")
    )
    assert rules.resolve_name("Mktg") == "marketing"
    assert rules.resolve_name("a") == "b", "one step, or two aliases could chase each other"


def test_an_alias_opens_no_chat_to_a_header() -> None:
    chat = session_themes(CHAT, PLAIN).turns.name
    rules = ThemeRules.of(default="default", aliases=[f"vip={chat}"])
    assert session_themes(Surface("vip", "api_server"), rules).turns.name != chat


def test_a_set_of_themes() -> None:
    themes = ThemeSet(["Sales", "intraday-*", "@telegram/*"])
    assert all(name in themes for name in ("sales", "intraday-", "intraday-x", "@telegram/default/00"))
    assert not any(name in themes for name in ("sales2", "intraday", "%40telegram/x", ""))
    assert "team blue" in ThemeSet(["Team  *"]) and "teamsters" not in ThemeSet(["Team  *"])
    assert "anything" in ThemeSet([" *"])
    assert "anything" in ThemeSet(["*"]) and not ThemeSet([]) and "x" not in ThemeSet([])


# -- personal identifiers


PERSONAL = ["+491701234567", "+49 170 1234567", "00491701234567", "491701234567", "alice.b+c@mail.example.com",
            "491701234567@s.whatsapp.net", "491701234567@lid", "(0170) 1234567"]  # fmt: skip


@pytest.mark.parametrize("who", PERSONAL)
def test_trap_07_no_telephone_number_or_address_of_a_key_stands_in_a_theme(who: str) -> None:
    rules = [PLAIN, ThemeRules.of(default="default", identity_key="key")]
    names = set()
    for key in (who, f"agent:main:whatsapp:dm:{who}", f"customers/{who}"):
        for platform in ("api_server", "whatsapp", "cli", "cron"):
            for rule in rules:
                found = session_themes(Surface(key, platform, "coder"), rule)
                names |= {theme.name for theme in (found.turns, found.memories, found.files)}
    digits = re.sub(r"\D", "", who)
    for name in names:
        assert who.lower() not in name and "alice" not in name
        assert not digits or digits[-7:] not in re.sub(r"\D", "", re.sub(r"[0-9a-f]{16}", "", name))


@pytest.mark.parametrize("who", PERSONAL)
def test_trap_07_two_people_have_two_themes_and_one_person_the_same(who: str) -> None:
    one, other = (Surface(key, "api_server") for key in (who, who.replace("7", "8", 1).replace("alice", "alicia")))
    assert session_themes(one, PLAIN) == session_themes(one, PLAIN)
    assert session_themes(one, PLAIN).turns != session_themes(other, PLAIN).turns
    keyed = ThemeRules.of(default="default", identity_key="key")
    assert session_themes(one, keyed).turns != session_themes(one, PLAIN).turns, (
        "without the key nobody can try numbers"
    )


def test_the_documented_examples_are_true() -> None:
    """Every row of the table in docs/isolation.md is resolved as it says."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "isolation.md").read_text(encoding="utf-8")
    table = page.split("<!-- examples -->")[1].split("\n\n")[1]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert len(rows) >= 10
    for surface, platform, key, profile, turns, memories in rows:
        found = session_themes(
            Surface(*("" if cell == "-" else cell for cell in (key, platform, profile)), "hermes"),
            PLAIN,
        )
        assert (found.turns.name, found.memories.name) == (turns, memories), surface
