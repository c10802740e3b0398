"""Who may ask and change: the holder of the host's session token, from the host's own page, in the profile it names."""

from __future__ import annotations

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from playwright.sync_api import Browser, expect

from tests.support.asgi_server import AsgiServer
from tests.support.host_dashboard import API, HostDashboard
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

from .conftest import Demo, Open, profile

NOTE = "Nobody but the page may write this down."
BODY = {"theme": "gate", "target": "memory", "content": NOTE}


def test_need_42_without_the_session_token_nothing_is_told_or_changed(dashboard: HostDashboard, demo: Demo) -> None:
    for headers in ({}, {"X-Hermes-Session-Token": "guess"}, {"Authorization": "Bearer guess"}):
        with httpx.Client(base_url=dashboard.url + API, headers=headers) as http:
            answers = [http.get("/overview"), http.get("/search", params={"q": "code"}), http.post("/add", json=BODY)]
        assert [answer.status_code for answer in answers] == [401, 401, 401]
        assert not any("bicycle" in answer.text for answer in answers)
    assert demo.database.themes_of_memory(NOTE) == []


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "http://127.0.0.1:1", "null"])
def test_need_42_a_page_from_elsewhere_changes_nothing(dashboard: HostDashboard, demo: Demo, origin: str) -> None:
    with dashboard.http() as http:
        answer = http.post("/add", json=BODY, headers={"Origin": origin})
        assert answer.status_code in (400, 403), answer.text
        form = http.post("/add", data=BODY, headers={"Origin": dashboard.url})
        assert form.status_code == 400 and "application/json" in form.text
        assert http.get("/add", params=BODY).status_code in (404, 405)
    assert demo.database.themes_of_memory(NOTE) == []


def test_need_42_a_browser_on_another_site_reaches_nothing(
    browser: Browser, dashboard: HostDashboard, demo: Demo
) -> None:
    """What a page of another origin gets of the API, even where it had learned the token."""

    app = FastAPI()
    app.add_api_route("/", lambda: HTMLResponse("<title>elsewhere</title>"))
    ask = """async ([url, token, body]) => {
        const headers = {"Content-Type": "application/json", "X-Hermes-Session-Token": token};
        const tries = [
          fetch(url + "/add", {method: "POST", headers, body}),
          fetch(url + "/add", {method: "POST", mode: "no-cors", credentials: "include", body}),
          fetch(url + "/overview", {headers}).then((answer) => answer.text()),
        ];
        return (await Promise.allSettled(tries)).map((each) => each.status + (each.value?.status || ""));
    }"""
    with AsgiServer(app) as elsewhere:
        tab = browser.new_page()
        tab.goto(elsewhere.url)
        told = tab.evaluate(ask, [dashboard.url + API, dashboard.token, '{"theme":"gate","content":"x"}'])
        tab.close()
    assert told[0] == "rejected" and told[2] == "rejected", "a browser must not be allowed to ask"
    assert demo.database.column("SELECT id FROM memory_entries WHERE agent_identity = 'gate'") == []


# As the host does it: the page stays.
SWITCH = """(profile) => {
  const at = new URL(location.href);
  if (profile) at.searchParams.set("profile", profile); else at.searchParams.delete("profile");
  history.pushState(history.state, "", at);
  dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
}"""


def test_need_42_each_profile_sees_its_own_memory(open_page: Open, dashboard: HostDashboard, module_dsn: str) -> None:
    with psycopg.connect(module_dsn) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content)"
            " VALUES ('compilers', 'memory', 'The compiler of this profile is called Tern.')"
        )
    with profile(dashboard, "coder", module_dsn):
        opened = open_page("themes", profile="coder")
        page = opened.page.locator(".hpg-page")
        expect(page.get_by_text("compilers").first).to_be_visible()
        expect(page.get_by_text("marketing")).to_have_count(0)
        page.get_by_role("link", name="compilers").first.click()
        expect(page.get_by_text("called Tern").first).to_be_visible()
        assert "profile=coder" in opened.page.url
        opened.view("themes")
        expect(page.get_by_text("marketing").first).to_be_visible()
        expect(page.get_by_text("compilers")).to_have_count(0)
        opened.complaints.expected += ["status of 400", "profile=nobody"]  # the page's own question, and the host's
        opened.view("themes", profile="nobody")
        expect(page.get_by_role("alert").first).to_contain_text("nobody")


def test_need_42_what_was_typed_in_one_profile_is_not_offered_in_another(
    open_page: Open, dashboard: HostDashboard, module_dsn: str
) -> None:
    with profile(dashboard, "tern", module_dsn):
        page = open_page("settings").page
        field = page.locator("input[name=prefetch_limit]")
        field.fill("17")
        page.evaluate(SWITCH, "tern")
        expect(page.get_by_text("tern/config.yaml")).to_be_visible()
        expect(field).not_to_have_value("17")
        page.evaluate(SWITCH, "")
        expect(field).to_have_value("17")


def test_need_42_while_the_database_is_away_the_page_says_so_and_comes_back(
    open_page: Open, dashboard: HostDashboard, module_dsn: str
) -> None:
    with TcpProxy.before(module_dsn) as proxy, profile(dashboard, "far", proxy.conninfo(module_dsn)):
        opened = open_page("themes", profile="far")
        opened.complaints.expected.append("503")
        page = opened.page.locator(".hpg-page")
        expect(page.get_by_role("alert")).to_have_count(0)
        proxy.stop()
        with dashboard.http() as http:
            until(lambda: http.get("/themes", params={"profile": "far"}).status_code == 503, what="the API to notice")
        opened.view("themes", profile="far")
        expect(page.get_by_role("alert").first).to_contain_text("Postgres")
        expect(page.get_by_role("button", name="Try again").first).to_be_visible()
        proxy.start()
        # By itself, without a click.
        expect(page.get_by_role("alert")).to_have_count(0, timeout=60_000)


def test_need_42_an_undo_that_could_not_be_asked_for_is_offered_again(
    open_page: Open, dashboard: HostDashboard, module_dsn: str
) -> None:
    with psycopg.connect(module_dsn) as conn:
        conn.execute(
            "INSERT INTO memory_entries (id, agent_identity, target, content)"
            " VALUES (4242, 'ferries', 'memory', 'The ferry is called Heron.')"
        )
    with TcpProxy.before(module_dsn) as proxy, profile(dashboard, "heron", proxy.conninfo(module_dsn)):
        opened = open_page("row", ref="m4242", profile="heron")
        opened.complaints.expected += ["503", "status of 400", "profile=heron"]
        page, toast = opened.page, opened.page.locator(".hpg-toast")
        page.locator(".hpg-page").get_by_role("button", name="Forget …", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True).click()
        undo = toast.get_by_role("button", name="Undo", exact=True)
        expect(undo).to_be_visible()
        proxy.stop()
        with dashboard.http() as http:
            asked = lambda: http.get("/themes", params={"profile": "heron"}).status_code  # noqa: E731
            until(lambda: asked() == 503, what="the API to notice")
            undo.click()
            expect(page.locator(".hpg-toast-problem")).to_contain_text("Postgres")
            proxy.start()
            until(lambda: asked() == 200, what="the database to be back")
        page.evaluate(SWITCH, "")
        expect(toast).to_have_count(0)  # it is of the other profile
        page.evaluate(SWITCH, "heron")
        undo.click()
        expect(page.get_by_text("called Heron").first).to_be_visible()
    with psycopg.connect(module_dsn) as conn:
        conn.execute("DELETE FROM memory_entries WHERE agent_identity = 'ferries'")
