"""The dashboard's page in a browser, with an eye on what it must not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, urlencode, urlsplit

from axe_core_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from .browser_files import browser_program
from .host_dashboard import SCHEMES

PATH = "/pgvector-memory"
# What the host itself complains of: that nobody has logged in, and its own sockets where a page is left early. And an
# answer that a busy machine did not have in time: the page says so, and asks again.
_OTHERS = ("/api/auth/me", "WebSocket connection to", "status of 503")
DESK = (1440, 900)
PHONE = (390, 844)

_READY = """() => {
  const own = document.querySelector(".hpg-page:has(#hpg-title)");
  return own && (own.querySelector("[role=alert]") || !own.querySelector(".hpg-loading, [aria-busy=true]"));
}"""
_SIDEWAYS = """() => {
  const own = document.querySelector(".hpg-page");
  const wide = document.documentElement.clientWidth;
  const scrolls = (node) => {
    for (let at = node.parentElement; at && at !== own.parentElement; at = at.parentElement) {
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  const out = [...own.querySelectorAll("*")].filter((node) => {
    const box = node.getBoundingClientRect();
    // Of what is hidden, as in closed details, the places may be those of another width.
    return node.checkVisibility() && box.width > 1 && box.right > wide + 1 && !scrolls(node);
  });
  const found = out.slice(0, 5).map((node) => node.outerHTML.slice(0, 200));
  const whole = document.documentElement.scrollWidth;
  if (whole > wide) found.push(`the document is ${whole} wide`);
  return found;
}"""

_WAIT_MS = 90_000
expect.set_options(timeout=_WAIT_MS)


class Site(Protocol):
    """What serves the page."""

    url: str

    def wear(self, scheme: str) -> None:
        """Show pages in a light or a dark scheme of colour."""


@dataclass
class Complaints:
    """What a page did that it must not: messages on the console, errors, requests to another origin."""

    origin: str
    found: list[str] = field(default_factory=list)
    # Parts of messages that the test itself brings about.
    expected: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Note whatever this page does from now on."""
        page.on("console", self._message)
        page.on("pageerror", lambda error: self._note(f"error: {error}"))
        page.on("request", self._request)

    def _message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self._note(f"request to elsewhere: {request.url}")

    def _note(self, text: str) -> None:
        if not any(part in text for part in (*_OTHERS, *self.expected)):
            self.found.append(text)


@dataclass(frozen=True)
class Opened:
    """A page that is open, and what it did."""

    page: Page
    origin: str
    complaints: Complaints

    def view(self, view: str = "", **params: str) -> None:
        """Load a view anew by its address."""
        self.page.goto(self.origin + address(view, **params))
        self.ready()

    def ready(self) -> None:
        """Wait until everything that the view asked is answered, or a problem is told."""
        self.page.wait_for_function(_READY)

    def resize(self, size: tuple[int, int]) -> None:
        """Give the window another size."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})

    def sideways(self) -> list[str]:
        """Return what of the page reaches out of the window to the right, unless it scrolls by itself."""
        found: list[str] = self.page.evaluate(_SIDEWAYS)
        return found

    def barriers(self) -> list[str]:
        """Return what axe finds on the page that is serious or critical for people who cannot see or point."""
        self.page.evaluate(AXE_SCRIPT)
        found = self.page.evaluate("() => axe.run('.hpg-page', {resultTypes: ['violations']})")
        return [
            f"{each['id']} ({each['impact']}): {each['help']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]


def address(view: str = "", **params: str) -> str:
    """Return the path and query of a view."""
    query = urlencode({"view": view, **params} if view else params, quote_via=quote)
    return f"{PATH}?{query}" if query else PATH


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a Chromium without a screen."""
    program, environment = browser_program()
    with sync_playwright() as playwright:
        # Without a sandbox, which root cannot have: it sees nothing but our own pages.
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], env={**environment, "LANG": "en_GB.UTF-8"}
        )
        yield browser
        browser.close()


def window(browser: Browser, *, zone: str = "UTC") -> BrowserContext:
    """Return a profile of the browser, whose pages share what they have loaded."""
    context = browser.new_context(locale="en-GB", timezone_id=zone, reduced_motion="reduce")
    context.set_default_timeout(_WAIT_MS)
    return context


@contextmanager
def opened(context: BrowserContext, site: Site) -> Iterator[Callable[..., Opened]]:
    """Give a function that opens a view in a tab of its own.

    Afterwards raises AssertionError where a page complained or asked elsewhere.
    """
    tabs = []
    complaints = Complaints(site.url)

    def open_view(view: str = "", *, scheme: str = "dark", size: tuple[int, int] = DESK, **params: str) -> Opened:
        site.wear(scheme)
        page = context.new_page()
        tabs.append(page)
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        page.add_init_script(f"localStorage.setItem('hermes-dashboard-theme', '{SCHEMES[scheme]}')")
        complaints.watch(page)
        made = Opened(page, site.url, complaints)
        made.resize(size)
        made.view(view, **params)
        return made

    try:
        yield open_view
    finally:
        for tab in tabs:
            tab.close()
    assert not complaints.found, "\n".join(complaints.found)
