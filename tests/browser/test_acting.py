"""What a person who searches and changes things relies on: nothing typed is lost, nothing is done twice or unseen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support.host_dashboard import HostDashboard
from tests.support.waiting import until

from .conftest import Demo, Open

NOTE = "The lock of the north gate opens at seven."
TYPED = "The lock of the north gate opens at eight."
THEIRS = "The lock of the north gate is broken."


@pytest.fixture
def note(dashboard: HostDashboard, demo: Demo) -> Iterator[str]:
    """A memory of the theme `lock`, by its number; the theme is empty again afterwards."""
    with dashboard.http() as http:
        answer = http.post("/add", json={"theme": "lock", "target": "memory", "content": NOTE})
        assert answer.status_code == 200, answer.text
    yield demo.number(NOTE)
    with psycopg.connect(demo.database.dsn) as conn:
        conn.execute("DELETE FROM memory_entries WHERE agent_identity = 'lock'")


def texts(demo: Demo) -> list[str]:
    return demo.database.column("SELECT content FROM memory_entries WHERE agent_identity = 'lock'")


def params(page: Page) -> dict[str, str]:
    """What the address asks for."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def edit_button(page: Page) -> Locator:
    return page.get_by_role("button", name="Edit …", exact=True)


def typing(page: Page, text: str = TYPED) -> Locator:
    """Open the dialog that edits, and type; return the field."""
    edit_button(page).click()
    field = page.get_by_role("dialog").get_by_label("Memory", exact=True)
    expect(field).to_be_focused()
    field.fill(text)
    return field


def save(page: Page) -> Locator:
    """Return the button that saves, once the dialog has said what would happen."""
    button = page.get_by_role("dialog").get_by_role("button", name="Save", exact=True)
    expect(button).not_to_have_attribute("aria-disabled", "true")
    return button


def test_need_42_escape_asks_before_typed_text_goes(open_page: Open, note: str) -> None:
    page = open_page("row", ref=note).page
    field = typing(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Keep typing")).to_be_focused()
    page.keyboard.press("Enter")
    expect(field).to_have_value(TYPED)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(edit_button(page)).to_be_focused()
    edit_button(page).click()
    expect(field).to_have_value(TYPED)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Throw it away").click()
    edit_button(page).click()
    expect(field).to_have_value(NOTE)


def test_need_42_a_double_click_saves_once(open_page: Open, demo: Demo, note: str) -> None:
    page = open_page("row", ref=note).page
    sent: list[dict[str, object]] = []
    page.on("request", lambda asked: asked.url.endswith("/edit") and sent.append(json.loads(asked.post_data or "{}")))
    typing(page)
    save(page).dblclick()
    expect(page.locator(".hpg-toast")).to_be_visible()
    assert texts(demo) == [TYPED]
    assert len([body for body in sent if not body.get("dry_run")]) == 1


def test_need_42_a_failed_save_keeps_what_was_typed(open_page: Open, demo: Demo, note: str) -> None:
    opened = open_page("row", ref=note)
    page = opened.page
    field = typing(page)
    button = save(page)
    opened.complaints.expected.append("503")

    def unavailable(route: Route) -> None:
        route.fulfill(status=503, json={"error": "the database is away; ask again", "kind": "StoreUnavailable"})

    page.route("**/edit", unavailable)
    button.click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("database is away")
    expect(field).to_have_value(TYPED)
    page.unroute("**/edit")
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert texts(demo) == [TYPED]


@pytest.mark.parametrize(("choice", "left"), [("Go on with mine", TYPED), ("Take what it says now", THEIRS)])
def test_need_42_a_text_changed_meanwhile_is_shown_beside_the_typed_one(
    open_page: Open, demo: Demo, dashboard: HostDashboard, note: str, choice: str, left: str
) -> None:
    opened = open_page("row", ref=note)
    page = opened.page
    opened.complaints.expected.append("400")
    field = typing(page)
    save(page)
    with dashboard.http() as http:
        changed = http.post("/edit", json={"ref": note, "content": THEIRS})
        assert changed.status_code == 200, changed.text
    save(page).click()
    both = page.locator(".hpg-conflict")
    expect(both).to_contain_text(THEIRS)
    expect(both).to_contain_text(TYPED)
    assert texts(demo) == [THEIRS]
    both.get_by_role("button", name=choice).click()
    expect(field).to_have_value(left)
    if left == TYPED:
        save(page).click()
        until(lambda: texts(demo) == [TYPED], what="the text that was typed")


def test_need_42_a_search_by_keyboard_stands_in_the_address(open_page: Open) -> None:
    opened = open_page("overview")
    opened.complaints.expected.append("503")  # of a machine with much to do; the page asks again
    page = opened.page
    page.keyboard.press("/")
    box = page.get_by_label("Question", exact=True)
    expect(box).to_be_focused()
    page.keyboard.type("budget of the campaign")
    page.keyboard.press("Enter")
    results = page.locator(".hpg-result")
    expect(results.first).to_be_visible()
    expect(box).to_be_focused()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Look among", exact=True).select_option("memories")
    expect(page.get_by_text("Filters (1 set)")).to_be_visible()
    page.get_by_label("Theme", exact=True).fill("marketing")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Filters (2 set)")).to_be_visible()
    asked = {"view": "search", "q": "budget of the campaign", "store": "memories", "theme": "marketing"}
    assert params(page) == asked
    page.reload()
    expect(page.get_by_label("Theme", exact=True)).to_have_value("marketing")
    expect(results.first.get_by_role("link", name="marketing")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Theme", exact=True)).to_have_value("")
    assert params(page) == {name: value for name, value in asked.items() if name != "theme"}


def searched(dashboard: HostDashboard, open_page: Open, **asked: str) -> Page:
    """Open the answer to a question that has been answered once: the first one waits for the model."""
    with dashboard.http() as http:
        until(lambda: http.get("/search", params=asked).status_code == 200, what="the first answer")
    return open_page("search", **asked).page


def test_need_42_a_result_is_changed_by_keyboard(open_page: Open, dashboard: HostDashboard, note: str) -> None:
    page = searched(dashboard, open_page, q="when does the lock of the north gate open", theme="lock")
    menu = page.get_by_role("button", name=f"Change {note}")
    menu.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Edit …")).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text(NOTE)
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    menu.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    forget = page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True)
    expect(forget).not_to_have_attribute("aria-disabled", "true")
    forget.press("Enter")
    expect(menu).to_have_count(0)
    expect(page.locator("#hpg-title")).to_be_focused()


def test_need_42_the_agents_block_is_shown_to_the_letter(open_page: Open, dashboard: HostDashboard) -> None:
    question = "Why did the payments gateway go down?"
    with dashboard.http() as http:
        told = http.get("/agent-view", params={"message": question, "theme": "sre"}).json()
    page = open_page("agent", message=question, theme="sre").page
    assert page.locator(".hpg-block").text_content() == told["block"]
    expect(page.get_by_text(f"{told['tokens']} of {told['budget_tokens']} tokens")).to_be_visible()
    left_out = told["below"][0]
    expect(page.get_by_role("link", name=left_out["ref"], exact=True)).to_be_visible()
    expect(page.get_by_text(left_out["why"]).first).to_be_visible()
