"""Reading in the browser: from the overview to a theme, to a session, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Browser, expect

from tests.support.host_dashboard import HostDashboard
from tests.support.page import DESK, PHONE, Opened, opened, window

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


@pytest.fixture
def night(demo: Demo) -> Iterator[str]:
    """A theme whose only memory was written on 4 May by UTC, and on 3 May by the clocks of New York."""
    with psycopg.connect(demo.database.dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content, created_at, updated_at)"
            " VALUES ('night', 'memory', 'The ferry left late.', '2026-05-04 02:00Z', '2026-05-04 02:00Z')"
        )
        yield "night"
        conn.execute("DELETE FROM memory_entries WHERE agent_identity = 'night'")


def test_need_17_a_day_of_a_filter_is_one_of_the_zone_in_which_times_are_shown(
    browser: Browser, dashboard: HostDashboard, demo: Demo, night: str
) -> None:
    with window(browser, zone="America/New_York") as context, opened(context, dashboard) as open_there:
        there: Opened = open_there("theme", theme=night)
        own = there.page.locator(".hpg-page")
        of_theme, of_search = {"theme": night}, {"theme": night, "q": "When did the ferry go?"}
        for view, params, days in (
            ("theme", of_theme, ["2026-05-03"]),
            ("search", of_search, ["2026-05-03", "2026-05"]),
        ):
            for day in days:
                there.view(view, **params, since=day, until=day)
                expect(own.get_by_text("The ferry left late.")).to_be_visible()
                expect(own.get_by_role("listitem").get_by_text("3 May 2026")).to_be_visible()
            there.view(view, **params, since="2026-05-04")
            expect(own.get_by_text("Nothing", exact=False).locator("visible=true")).to_be_visible()
        there.view("row", ref=demo.number("The ferry left late."))
        own.get_by_role("button", name="Edit …").click()
        dialog = there.page.get_by_role("dialog")
        dialog.get_by_text("Kind, subject and validity").click()
        dialog.get_by_label("Expires", exact=True).fill("2031-12-24")
        expect(dialog.locator("ins")).to_have_text("25 Dec 2031, 00:00")
