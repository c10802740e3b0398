"""Each view of the page in the real dashboard: by its address, in both schemes of colour, on a desk and on a phone."""

from __future__ import annotations

from playwright.sync_api import expect

from .conftest import Open


def test_need_42_the_page_is_there(open_page: Open) -> None:
    page = open_page().page
    expect(page.get_by_text("Memory").first).to_be_visible()
    page.screenshot(path="/tmp/w2/first.png")
