"""The same page without hermes: `hermes-pgvector web`."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.support.hermes import HermesHome
from tests.support.host_dashboard import HostDashboard
from tests.support.page import DESK, PHONE, Opened, address, opened, window
from tests.support.waiting import until

from .conftest import Demo, Open
from .test_views import VIEWS

WEB = ("-P", "-m", "hermes_memory_pgvector.cli", "web", "--no-open", "--port")


class Web:
    """What `hermes-pgvector web` serves, at the address it printed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = f"http://{urlsplit(address).netloc}"

    def wear(self, scheme: str) -> None:
        """The browser's own choice decides."""


@contextmanager
def serving(home: HermesHome, port: int = 0) -> Iterator[Web]:
    """Run `hermes-pgvector web` for a home."""
    command = [sys.executable, *WEB, str(port)]
    with subprocess.Popen(command, env=home.environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Web(process.stdout.readline().strip())
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def web(dashboard: HostDashboard) -> Iterator[Web]:
    """The page of the demo's home."""
    with serving(dashboard.home) as running:
        yield running


@pytest.fixture(scope="module")
def open_web(browser: Browser, web: Web) -> Iterator[Open]:
    """Opens a view in a tab; the first tab of the browser's profile has the address that works once."""
    with window(browser) as context:
        first = context.new_page()
        first.goto(web.address)
        expect(first.locator(".hpg-page")).to_be_visible()
        with opened(context, web) as opening:
            yield opening


# Each in one scheme: in both, and with the host's frame, they are looked at in test_views.py.
@pytest.mark.parametrize(("view", "scheme"), list(zip(VIEWS, itertools.cycle(["light", "dark"]))))
def test_need_42_every_view_fits_and_has_no_barriers(open_web: Open, demo: Demo, view: str, scheme: str) -> None:
    params, shown = VIEWS[view]
    tab: Opened = open_web(view, scheme=scheme, **params, **demo.params(view))
    expect(tab.page.locator(".hpg-page").get_by_text(shown).locator("visible=true").first).to_be_visible()
    for size in (DESK, PHONE):
        tab.resize(size)
        assert tab.sideways() == [], size
    assert tab.barriers() == []
    tab.page.close()


def test_need_42_a_change_and_its_undo(open_web: Open, demo: Demo) -> None:
    text = "The staging cluster is rebuilt every Sunday at 04:00 UTC."
    page = open_web("row", ref=demo.number(text)).page
    page.get_by_role("button", name="Edit …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Memory", exact=True).fill("The staging cluster is rebuilt every Monday.")
    save = dialog.get_by_role("button", name="Save", exact=True)
    expect(save).not_to_have_attribute("aria-disabled", "true")
    save.click()
    expect(dialog).to_have_count(0)
    assert demo.database.themes_of_memory(text) == []
    page.locator(".hpg-toast").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(page.locator(".hpg-toast")).not_to_have_count(0)
    assert demo.database.themes_of_memory(text) == ["sre"]


def test_need_42_what_was_typed_is_saved_once_a_server_that_was_started_anew_lets_in(
    browser: Browser, dashboard: HostDashboard, demo: Demo
) -> None:
    text, new = "The staging cluster is rebuilt every Sunday at 04:00 UTC.", "The staging cluster is never rebuilt."
    with window(browser) as context:
        page, idle, other, late = (context.new_page() for _ in range(4))
        with serving(dashboard.home) as first:
            page.goto(first.address)
            expect(page.locator(".hpg-page")).to_be_visible()
            page.goto(first.url + address("row", ref=demo.number(text)))
            idle.goto(page.url)
            expect(idle.get_by_text(text).first).to_be_visible()
            page.get_by_role("button", name="Edit …").click()
            dialog = page.get_by_role("dialog")
            dialog.get_by_label("Memory", exact=True).fill(new)
            save = dialog.get_by_role("button", name="Save", exact=True)
            expect(save).not_to_have_attribute("aria-disabled", "true")
        with serving(dashboard.home, int(first.url.rpartition(":")[2])) as second:
            save.click()
            expect(dialog.get_by_text("Your session here has ended")).to_be_visible()
            expect(dialog.get_by_label("Memory", exact=True)).to_have_value(new)
            other.goto(second.address)
            expect(other.locator(".hpg-page")).to_be_visible()
            late.goto(page.url)  # admitted, though the idle tab knows the former session only
            expect(late.get_by_text(text).first).to_be_visible()
            save.click()
            expect(dialog).to_have_count(0)
            assert demo.database.themes_of_memory(new) == ["sre"]
            page.locator(".hpg-toast").get_by_role("button", name="Undo").click()
            until(lambda: demo.database.themes_of_memory(text) == ["sre"], what="the former text")
