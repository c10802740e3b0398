"""What a memory holds is text, whatever it looks like: none of it becomes markup, a link, or an order of reading."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.support.host_dashboard import HostDashboard
from tests.support.page import DESK, PHONE

from .conftest import Open, profile

SCRIPT = "<script>window.hpgBroken = 1</script><img src=x onerror='window.hpgBroken = 1'>"
LINK = "[click me](javascript:window.hpgBroken=1) javascript:window.hpgBroken=1"
BIDI = "Transfer \u202e000,1\u202c euros to \u2066nobody\u2069 \u200bat all"
WORD = "W" * 2000
LONG = "A tide table of five megabytes. " * 163_840
HOSTILE = (SCRIPT, LINK, BIDI, WORD)
THEME = "<img src=x onerror=window.hpgBroken=1>\u202eemeht"
SESSION = "javascript:window.hpgBroken=1//'\"><script>window.hpgBroken=1</script>"
THEMES = 10_000


@pytest.fixture(scope="module", autouse=True)
def hostile(dashboard: HostDashboard, module_dsn: str) -> Iterator[None]:
    """A profile whose memory is full of what others would have run."""
    with psycopg.connect(module_dsn) as conn:
        for number, text in enumerate((*HOSTILE, LONG)):
            conn.execute(
                "INSERT INTO memory_entries (agent_identity, target, content, subject, kind, state, scope, metadata)"
                " VALUES (%s, 'memory', %s, %s, 'fact', 'active', %s, jsonb_build_object(%s::text, %s::text))",
                (THEME, text, f"{SCRIPT} {number}", LINK[:64], SCRIPT, LINK),
            )
            conn.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content, metadata)"
                " VALUES (%s, %s, 'user', %s, jsonb_build_object('platform', %s::text, 'title', %s::text))",
                (SESSION, THEME, text, SCRIPT, SCRIPT),
            )
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content)"
            " SELECT 'tenant-' || lpad(n::text, 5, '0'), 'memory', 'Tenant number ' || n"
            " FROM generate_series(1, %s) AS n",
            (THEMES,),
        )
    with profile(dashboard, "hostile", module_dsn):
        yield


def harmless(page: Page) -> None:
    """Nothing of what is stored has run, or would on a click."""
    assert page.evaluate("() => window.hpgBroken") is None
    assert page.locator(".hpg-page :is(script, img, iframe, object, embed)").count() == 0
    targets = page.locator(".hpg-page a").evaluate_all("all => all.map((each) => each.href)")
    assert [each for each in targets if not each.startswith("http://127.0.0.1:")] == []
    styles = page.locator(".hpg-page [style]").evaluate_all("all => all.map((each) => each.getAttribute('style'))")
    assert not any("hpgBroken" in each for each in styles)


VIEWS = {
    "overview": {},
    "themes": {"search": "img"},
    "theme": {"theme": THEME},
    "session": {"theme": THEME, "session": SESSION},
    "history": {"theme": THEME},
    "search": {"q": "click me javascript transfer euros"},
    "agent": {"theme": THEME, "message": "Whom do we transfer euros to?"},
}


@pytest.mark.parametrize("view", VIEWS)
def test_need_42_a_stored_text_is_never_markup(open_page: Open, view: str) -> None:
    opened = open_page(view, profile="hostile", **VIEWS[view])
    expect(opened.page.locator(".hpg-page [role=alert]")).to_have_count(0)
    for size in (DESK, PHONE):
        opened.resize(size)
        harmless(opened.page)
        assert opened.sideways() == [], size


@pytest.mark.parametrize("text", HOSTILE, ids=["script", "link", "bidi", "word"])
def test_need_42_a_text_is_shown_as_it_is_stored(
    open_page: Open, dashboard: HostDashboard, module_dsn: str, text: str
) -> None:
    with psycopg.connect(module_dsn) as conn:
        row = conn.execute("SELECT id FROM memory_entries WHERE content = %s", (text,)).fetchone()
    assert row is not None
    opened = open_page("row", profile="hostile", ref=f"m{row[0]}")
    shown = opened.page.locator("div.hpg-text").first
    if text is BIDI:
        for mark in ("U+202E", "U+202C", "U+2066", "U+2069", "U+200B"):
            expect(shown).to_contain_text(mark)
        assert not set(shown.inner_text()) & set("\u202e\u202c\u2066\u2069\u200b")
    else:
        assert shown.text_content() == text
    harmless(opened.page)
    opened.resize(PHONE)
    assert opened.sideways() == []


def test_need_42_five_megabytes_are_shown_in_part(open_page: Open, module_dsn: str) -> None:
    with psycopg.connect(module_dsn) as conn:
        row = conn.execute("SELECT id FROM memory_entries WHERE length(content) > 5000000").fetchone()
    assert row is not None
    opened = open_page("row", profile="hostile", ref=f"m{row[0]}")
    expect(opened.page.get_by_text("A tide table of five megabytes.").first).to_be_visible()
    expect(opened.page.get_by_text(f"{len(LONG):,}").first).to_be_visible()
    assert len(opened.page.locator(".hpg-page").inner_text()) < 250_000


def test_need_42_ten_thousand_themes_are_paged(open_page: Open) -> None:
    opened = open_page("themes", profile="hostile")
    page = opened.page.locator(".hpg-page")
    expect(page.get_by_role("link", name="tenant-")).not_to_have_count(0)
    first = page.get_by_role("link", name="tenant-").count()
    assert first <= 200
    before = page.get_by_role("link", name="tenant-").first.text_content()
    page.locator("a[rel=next]").click()
    expect(page.get_by_role("link", name="tenant-").first).not_to_have_text(before or "")
    opened.ready()
    opened.view("themes", profile="hostile", search="tenant-04711")
    expect(page.get_by_role("link", name="tenant-04711")).to_have_count(1)
