"""Ways through the page: by links, by the back button, and without a mouse."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from .conftest import EDITED, Demo, Open

EVERYTHING = 60  # presses of Tab that reach everything there is before the page's own parts


def title(page: Page, text: str) -> None:
    expect(page.locator("#hpg-title")).to_have_text(text)


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has the focus is called so."""
    for _ in range(EVERYTHING):
        page.keyboard.press("Tab")
        if (
            page.evaluate("() => (document.activeElement.ariaLabel || document.activeElement.textContent).trim()")
            == name
        ):
            return
    raise AssertionError(f"{name} cannot be reached by Tab")


def test_need_42_links_lead_on_and_the_back_button_leads_back(open_page: Open) -> None:
    page = open_page("themes").page
    page.locator(".hpg-page").get_by_role("link", name="sre", exact=True).click()
    title(page, "sre")
    page.locator(".hpg-page").get_by_role("link", name="Sessions", exact=True).click()
    page.locator(".hpg-page a[href*='view=session&']").first.click()
    expect(page.locator(".hpg-page").get_by_text("user").first).to_be_visible()
    addresses = [page.url]
    for expected in ("view=theme", "view=theme", "view=themes"):
        page.go_back()
        expect(page.locator(".hpg-page")).to_be_visible()
        assert expected in page.url
        addresses.append(page.url)
    title(page, "Themes")
    page.go_forward()
    title(page, "sre")
    assert len(set(addresses)) == 4


def test_need_42_a_question_is_asked_and_followed_without_a_mouse(open_page: Open) -> None:
    page = open_page("overview").page
    page.locator("#hpg-title").focus()
    page.keyboard.press("/")
    title(page, "Search")
    expect(page.locator("[data-hpg-search]")).to_be_focused()
    page.keyboard.type("colour of the logo")
    page.keyboard.press("Enter")
    expect(page.locator(".hpg-results mark").first).to_be_visible()
    assert "q=colour" in page.url
    page.reload()
    expect(page.locator(".hpg-results mark").first).to_be_visible()


def test_need_42_a_dialog_is_opened_and_left_without_a_mouse(open_page: Open, demo: Demo) -> None:
    text = "In English texts the product is a journey planner."
    page = open_page("row", ref=demo.number(text)).page
    page.locator("#hpg-title").focus()
    tab_to(page, "Edit …")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Memory", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert page.evaluate("() => document.activeElement.textContent") == "Edit …"
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    page.keyboard.type("New: ")
    page.keyboard.press("Escape")
    expect(dialog.get_by_text("What you typed is not saved.")).to_be_visible()
    dialog.get_by_role("button", name="Throw it away").press("Enter")
    expect(dialog).to_have_count(0)
    assert demo.database.themes_of_memory(text) == ["marketing"]


def test_need_42_a_menu_is_walked_without_a_mouse(open_page: Open) -> None:
    page = open_page("theme", theme="marketing").page
    button = page.get_by_role("button", name="Change m").first
    button.press("Enter")
    items = page.get_by_role("menuitem")
    expect(items.first).to_be_focused()
    page.keyboard.press("End")
    expect(items.last).to_be_focused()
    page.keyboard.press("Escape")
    expect(items).to_have_count(0)
    expect(button).to_be_focused()


def test_need_42_under_a_problem_stands_no_other_rows_text(open_page: Open, demo: Demo) -> None:
    opened = open_page("row", ref=demo.number(EDITED))
    opened.complaints.expected.append("status of 400")
    page = opened.page.locator(".hpg-page")
    expect(page.get_by_text("RAL 5017").first).to_be_visible()
    opened.page.evaluate(
        "() => { history.pushState(history.state, '', location.href.replace(/ref=m\\d+/, 'ref=m999999'));"
        " dispatchEvent(new PopStateEvent('popstate', { state: history.state })); }"
    )
    expect(page.get_by_role("alert").first).to_contain_text("m999999")
    expect(page.get_by_text("RAL 5017")).to_have_count(0)
    expect(page.get_by_role("button", name="Forget …")).to_have_count(0)


def test_need_42_a_view_that_there_is_not_is_another_one(open_page: Open) -> None:
    page = open_page("constructor").page
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    opened = open_page("theme", theme="sre", tab="toString")
    expect(opened.page.locator(".hpg-page").get_by_role("link", name="Memories")).to_be_visible()


def test_need_42_the_navigation_says_where_one_is(open_page: Open) -> None:
    page = open_page("overview").page
    navigation = page.get_by_role("navigation", name="Memory", exact=True)
    for name in ("Search", "Themes", "Agent’s view", "History", "Removals", "Settings", "Overview"):
        navigation.get_by_role("link", name=name, exact=True).click()
        expect(navigation.locator("[aria-current=page]")).to_have_text(name)
        expect(page.locator("#hpg-title")).to_be_visible()
