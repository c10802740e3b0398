"""Each view of the page in the real dashboard: by its address, in both schemes of colour, on a desk and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.host_dashboard import SCHEMES
from tests.support.page import DESK, PHONE

from .conftest import Demo, Open

QUESTION = "Why did the payments gateway go down?"

# By name: its parameters, and what stands in it of the demo.
VIEWS = {
    "overview": ({}, "sre"),
    "search": ({"q": QUESTION}, "ERR_CONN_42"),
    "agent": ({"message": QUESTION, "theme": "sre"}, "ERR_CONN_42"),
    "themes": ({}, "marketing"),
    "theme": ({"theme": "sre"}, "ERR_CONN_42"),
    "session": ({"theme": "sre"}, "session"),
    "row": ({}, "RAL 5017"),
    "history": ({"theme": "sre"}, "db-21"),
    "removals": ({}, "Tickets are named ATL-1234."),
    "settings": ({}, "config.yaml"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_need_42_every_view_fits_and_has_no_barriers(open_page: Open, demo: Demo, view: str, scheme: str) -> None:
    params, shown = VIEWS[view]
    opened = open_page(view, scheme=scheme, **params, **demo.params(view))
    expect(opened.page.locator(".hpg-page").get_by_text(shown).locator("visible=true").first).to_be_visible()
    for size in (DESK, PHONE):
        opened.resize(size)
        assert opened.sideways() == [], size
        assert opened.barriers() == [], size
