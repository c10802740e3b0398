"""Reading in the browser: from the overview to a theme, to a session, and back."""

from __future__ import annotations

import re

import psycopg
from playwright.sync_api import expect

from tests.support.host_dashboard import HostDashboard
from tests.support.page import DESK, PHONE

from .conftest import Demo, Open


def test_need_42_the_overview_follows_what_happens(open_page: Open, dashboard: HostDashboard) -> None:
    page = open_page("overview").page
    memories = page.locator(".hpg-stat").filter(has=page.get_by_text("Memories", exact=True)).locator("dd")
    expect(memories).to_have_text(re.compile(r"^\d+$"))
    before = int(memories.inner_text())
    with dashboard.http() as http:
        added = http.post("/add", json={"theme": "live", "target": "memory", "content": "The overview is live."}).json()
        expect(memories).to_have_text(str(before + 1))
        http.post("/undo", json={"token": added["undo"]["token"]}).raise_for_status()
    expect(memories).to_have_text(str(before))


def test_need_42_a_theme_is_read_by_keyboard_and_the_back_button_leads_back(open_page: Open, demo: Demo) -> None:
    opened = open_page("themes")
    page, own = opened.page, opened.page.locator(".hpg-page")
    page.keyboard.press("/")
    page.keyboard.type("sr")
    expect(own.get_by_role("link", name="marketing")).to_have_count(0)
    own.get_by_role("link", name="sre", exact=True).press("Enter")
    expect(own.locator("#hpg-title")).to_have_text("sre")
    expect(own.locator("#hpg-title")).to_be_focused()
    for tab, shown in {
        "Turns": "assistant",
        "Timeline": "Memories",
        "Who wrote": "Surface",
        "Sessions": "Began",
    }.items():
        own.get_by_role("link", name=tab, exact=True).press("Enter")
        expect(own.get_by_text(shown).locator("visible=true").first).to_be_visible()
        opened.ready()
    own.locator("td a").first.press("Enter")
    expect(own.get_by_role("list", name="What was said")).to_be_visible()
    for former in ("tab=sessions", "tab=writers"):
        page.go_back()
        expect(page).to_have_url(re.compile(former))
        opened.ready()


def test_need_42_every_tab_of_a_theme_fits_and_has_no_barriers(open_page: Open) -> None:
    opened = open_page("theme", theme="sre")
    for tab in ("turns", "sessions", "timeline", "writers"):
        opened.view("theme", theme="sre", tab=tab)
        for size in (DESK, PHONE):
            opened.resize(size)
            assert opened.sideways() == [], (tab, size)
            assert opened.barriers() == [], (tab, size)


def test_need_16_everything_that_can_be_restored_is_reached_page_by_page(open_page: Open, demo: Demo) -> None:
    with psycopg.connect(demo.database.dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO memory_history"
            " (agent_identity, memory_id, target, action, who, chars, digest, old_digest, old_content, old_row)"
            " SELECT 'yard', 900000 + n, 'memory', 'removed', '{}', length(text), hermes_digest(text),"
            " hermes_digest(text), text, '{}' FROM generate_series(1, 51) AS n, format('Crane %s', n) AS text"
        )
        page = open_page("removals", theme="yard").page
        removed = page.get_by_role("region", name="Can be brought back")
        expect(removed.get_by_role("listitem")).to_have_count(50)
        removed.get_by_role("link", name="Next").click()
        expect(removed.get_by_role("listitem")).to_have_count(1)
        page.go_back()
        expect(removed.get_by_role("listitem")).to_have_count(50)
        conn.execute("DELETE FROM memory_history WHERE agent_identity = 'yard'")
