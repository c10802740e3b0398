"""Every change through the page, and its undo, as Postgres has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Locator, Page, expect
from psycopg.rows import dict_row

from tests.support.host_dashboard import HostDashboard
from tests.support.page import Opened
from tests.support.waiting import until

from .conftest import Demo, Open

NOTE = "The harbour crane is greased on Mondays."
OTHER = "The harbour crane is greased on Thursdays."


@pytest.fixture
def note(dashboard: HostDashboard, demo: Demo) -> Iterator[str]:
    """A memory of the theme `bench`, by its number; the theme is empty again afterwards."""
    with dashboard.http() as http:
        answer = http.post("/add", json={"theme": "bench", "target": "memory", "content": NOTE})
        assert answer.status_code == 200, answer.text
        until(lambda: demo.database.themes_of_memory(NOTE), what="the memory")
        yield demo.number(NOTE)
    with psycopg.connect(demo.database.dsn) as conn:
        conn.execute("DELETE FROM memory_entries WHERE agent_identity = 'bench'")
        conn.execute("DELETE FROM conversations WHERE agent_identity = 'bench'")


def memories(demo: Demo, theme: str = "bench") -> list[dict[str, Any]]:
    """Everything that Postgres has of a theme's memories but vectors, numbers and when a row was last written."""
    with psycopg.connect(demo.database.dsn, row_factory=dict_row) as conn:
        rows = conn.execute("SELECT * FROM memory_entries WHERE agent_identity = %s ORDER BY id", (theme,)).fetchall()
    left_out = ("embedding", "sig", "code", "embed_after", "updated_at", "id")
    return [{name: value for name, value in row.items() if name not in left_out} for row in rows]


def texts(demo: Demo) -> list[str]:
    return [str(row["content"]) for row in memories(demo)]


def dialog_of(page: Page, button: str) -> Locator:
    """Press a button that opens a dialog."""
    page.locator(".hpg-page").get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def done(page: Page, dialog: Locator, verb: str) -> None:
    """Confirm a dialog once it has said what would happen."""
    button = dialog.get_by_role("button", name=verb, exact=True)
    expect(button).not_to_have_attribute("aria-disabled", "true")
    expect(dialog.locator(".hpg-says")).not_to_be_empty()
    button.click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def undone(page: Page) -> None:
    """Press Undo in the toast, and wait for what is said of it."""
    toasts = page.locator(".hpg-toast")
    toasts.last.get_by_role("button", name="Undo").click()
    expect(page.locator(".hpg-toast-problem")).to_have_count(0)
    expect(toasts.get_by_role("button", name="Undo")).to_have_count(0)
    expect(toasts).not_to_have_count(0)


def row(open_page: Open, ref: str) -> Opened:
    return open_page("row", ref=ref)


def test_need_42_a_memory_is_added(open_page: Open, demo: Demo, note: str) -> None:
    page = open_page("theme", theme="bench").page
    dialog = dialog_of(page, "Add a memory …")
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    dialog.get_by_text("Kind, subject and validity").click()
    dialog.get_by_label("Kind", exact=True).select_option("value")
    dialog.get_by_label("Subject", exact=True).fill("crane.day")
    done(page, dialog, "Add")
    until(lambda: OTHER in texts(demo), what="the added memory")
    (added,) = (each for each in memories(demo) if each["content"] == OTHER)
    assert (added["kind"], added["subject"], added["target"]) == ("value", "crane.day", "memory")
    undone(page)
    assert texts(demo) == [NOTE]


def test_need_42_a_dialog_stays_in_its_place_while_it_grows(open_page: Open, demo: Demo, note: str) -> None:
    """What it says comes after a moment, and a button or field must not move away from a pointer."""
    dialog = dialog_of(open_page("theme", theme="bench").page, "Add a memory …")
    before = dialog.bounding_box()
    dialog.get_by_text("Kind, subject and validity").click()
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    expect(dialog.locator(".hpg-says")).not_to_be_empty()
    after = dialog.bounding_box()
    assert before is not None and after is not None
    assert after["height"] > before["height"] and (after["x"], after["y"]) == (before["x"], before["y"])


def test_need_42_a_text_is_edited(open_page: Open, demo: Demo, note: str) -> None:
    page = row(open_page, note).page
    before = memories(demo)
    dialog = dialog_of(page, "Edit …")
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    done(page, dialog, "Save")
    assert texts(demo) == [OTHER]
    expect(page.locator(".hpg-diff").first).to_contain_text("Thursdays")
    undone(page)
    assert memories(demo) == before


def test_need_42_who_edits_what_another_tab_has_forgotten_is_told_so_and_goes_on_once_it_is_back(
    open_page: Open, demo: Demo, note: str
) -> None:
    editing, forgetting = row(open_page, note), row(open_page, note).page
    editing.complaints.expected.append("status of 400")
    dialog = dialog_of(editing.page, "Edit …")
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    save = dialog.get_by_role("button", name="Save", exact=True)
    expect(save).not_to_have_attribute("aria-disabled", "true")
    done(forgetting, dialog_of(forgetting, "Forget …"), "Forget")
    save.click()
    expect(dialog.get_by_text(f"there is no memory {note}")).to_be_visible()
    expect(dialog.locator(".hpg-conflict")).to_have_count(0)
    expect(dialog.locator(".hpg-says")).to_have_count(0)  # it was tried again, too, in vain
    undone(forgetting)
    dialog.get_by_role("button", name="Try again").click()
    done(editing.page, dialog, "Save")
    assert texts(demo) == [OTHER]


def test_need_42_what_a_memory_says_of_itself_is_edited(open_page: Open, demo: Demo, note: str) -> None:
    page = row(open_page, note).page
    before = memories(demo)
    dialog = dialog_of(page, "Edit …")
    dialog.get_by_text("Kind, subject and validity").click()
    dialog.get_by_label("Kind", exact=True).select_option("constraint")
    dialog.get_by_label("Subject", exact=True).fill("crane.grease")
    dialog.get_by_label("Expires", exact=True).fill("2031-12-24")
    done(page, dialog, "Save")
    (changed,) = memories(demo)
    assert (changed["kind"], changed["subject"], changed["expires_at"].year) == ("constraint", "crane.grease", 2031)
    undone(page)
    assert memories(demo) == before


@pytest.mark.parametrize("verb", ["Pin", "Archive"])
def test_need_42_a_memory_is_pinned_and_archived(open_page: Open, demo: Demo, note: str, verb: str) -> None:
    page = row(open_page, note).page
    before = memories(demo)
    done(page, dialog_of(page, f"{verb} …"), verb)
    (changed,) = memories(demo)
    assert changed["pinned"] if verb == "Pin" else changed["state"] == "archived"
    undone(page)
    assert memories(demo) == before


def test_need_42_a_memory_is_replaced(open_page: Open, demo: Demo, note: str) -> None:
    page = row(open_page, note).page
    before = memories(demo)
    dialog = dialog_of(page, "Replace …")
    dialog.get_by_label("What is true instead", exact=True).fill(OTHER)
    done(page, dialog, "Replace")
    until(lambda: OTHER in texts(demo), what="the new memory")
    undone(page)
    until(lambda: texts(demo) == [NOTE], what="the old memory alone")
    assert [each["state"] for each in memories(demo)] == [each["state"] for each in before]


def test_need_42_a_memory_is_forgotten(open_page: Open, demo: Demo, note: str) -> None:
    page = row(open_page, note).page
    before = memories(demo)
    done(page, dialog_of(page, "Forget …"), "Forget")
    assert memories(demo) == []
    undone(page)
    assert memories(demo) == before


def turns(demo: Demo) -> list[Any]:
    query = (
        "SELECT row(role, content, ts, session_id, metadata)::text FROM conversations WHERE agent_identity = 'bench'"
    )
    return demo.database.column(query + " ORDER BY ts, id")


@pytest.fixture
def talk(demo: Demo, note: str) -> str:
    """A session of the theme `bench` with four turns."""
    with psycopg.connect(demo.database.dsn) as conn:
        for number in range(4):
            conn.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content, ts, metadata)"
                " VALUES ('bench-1', 'bench', %s, %s, now() - %s * interval '1 minute', %s)",
                (("user", "assistant")[number % 2], f"Crane turn {number}", 9 - number, '{"platform": "cli"}'),
            )
    return "bench-1"


def test_need_42_a_turn_is_forgotten(open_page: Open, demo: Demo, talk: str) -> None:
    before = turns(demo)
    (number,) = demo.database.column("SELECT id FROM conversations WHERE content = 'Crane turn 1'")
    opened = row(open_page, f"t{number}")
    opened.complaints.expected.append("/row?ref=")  # the view asks for it again
    page = opened.page
    done(page, dialog_of(page, "Forget …"), "Forget")
    assert len(turns(demo)) == 3
    undone(page)
    assert turns(demo) == before


def test_need_42_a_session_is_forgotten(open_page: Open, demo: Demo, talk: str) -> None:
    before = turns(demo)
    opened = open_page("session", theme="bench", session=talk)
    opened.complaints.expected.append("/session?theme=")  # the view asks for it again
    page = opened.page
    done(page, dialog_of(page, "Forget the session …"), "Forget the session")
    assert turns(demo) == []
    undone(page)
    assert turns(demo) == before


def held(demo: Demo) -> int:
    (count,) = demo.database.column("SELECT count(*) FROM hermes_mirror WHERE held_at IS NOT NULL")
    return int(count)


@pytest.mark.parametrize(("word", "verb"), [("Keep", "Keep"), ("Remove", "Remove")])
def test_need_42_a_held_removal_is_decided(open_page: Open, demo: Demo, word: str, verb: str) -> None:
    text = "Tickets are named ATL-1234."
    page = open_page("removals").page
    before, waiting = memories(demo, "default"), held(demo)
    ref = demo.number(text)
    done(page, dialog_of(page, f"{word} {ref} …"), verb)
    assert demo.database.themes_of_memory(text) == (["default"] if word == "Keep" else [])
    assert held(demo) == waiting - 1
    undone(page)
    until(lambda: held(demo) == waiting, what="the removal to wait again")
    assert sorted(each["content"] for each in memories(demo, "default")) == sorted(each["content"] for each in before)


def test_need_42_what_was_removed_is_restored(open_page: Open, demo: Demo) -> None:
    text = "Meeting notes go to the folder minutes."  # of no other test: it is not held any more afterwards
    page = open_page("removals").page
    ref = demo.number(text)
    done(page, dialog_of(page, f"Remove {ref} …"), "Remove")
    page.reload()
    removed = page.locator("section[aria-labelledby=hpg-removed] li").filter(has_text=text)
    removed.get_by_role("button", name="Restore …").click()
    done(page, page.get_by_role("dialog"), "Restore")
    assert demo.database.themes_of_memory(text) == ["default"]
    undone(page)
    assert demo.database.themes_of_memory(text) == []
    removed = page.locator("section[aria-labelledby=hpg-removed] li").filter(has_text=text)
    removed.get_by_role("button", name="Restore …").click()
    done(page, page.get_by_role("dialog"), "Restore")
    assert demo.database.themes_of_memory(text) == ["default"]


def test_need_42_a_change_that_somebody_else_was_faster_with_is_not_undone(
    open_page: Open, demo: Demo, dashboard: HostDashboard, note: str
) -> None:
    opened = row(open_page, note)
    page = opened.page
    dialog = dialog_of(page, "Edit …")
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    done(page, dialog, "Save")
    with dashboard.http() as http:
        changed = http.post("/edit", json={"ref": note, "content": "The crane was sold."})
        assert changed.status_code == 200, changed.text
    opened.complaints.expected.append("400")
    page.locator(".hpg-toast").last.get_by_role("button", name="Undo").click()
    refused = page.locator(".hpg-toast-problem")
    expect(refused.get_by_role("button", name="Undo")).to_be_visible()  # their change may be undone first
    assert texts(demo) == ["The crane was sold."]
    expect(page.locator("div.hpg-text").first).to_have_text("The crane was sold.")  # as the page now says, too
    with dashboard.http() as http:
        http.post("/undo", json={"token": changed.json()["undo"]["token"]}).raise_for_status()
    refused.get_by_role("button", name="Undo").click()
    expect(page.locator(".hpg-toast-problem")).to_have_count(0)
    until(lambda: texts(demo) == [NOTE], what="the text from before")


def test_need_42_after_a_refused_change_the_view_says_what_is_there(
    open_page: Open, dashboard: HostDashboard, note: str
) -> None:
    opened = open_page("theme", theme="bench")
    opened.complaints.expected.append("400")
    page = opened.page
    page.get_by_role("button", name=f"Change {note}").click()
    page.get_by_role("menuitem", name="Edit …").click()
    dialog = page.get_by_role("dialog")
    theirs = changed_elsewhere(dashboard, note)
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    dialog.get_by_role("button", name="Take what it says now").click()
    dialog.get_by_role("button", name="Cancel").click()
    leave = dialog.get_by_role("button", name="Throw it away")
    leave.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("list", name="Memories").locator("div.hpg-text").first).to_have_text(theirs)


def test_need_43_what_a_change_has_replaced_is_said_with_its_undo(
    open_page: Open, demo: Demo, dashboard: HostDashboard, note: str
) -> None:
    with dashboard.http() as http:
        http.post("/edit", json={"ref": note, "kind": "value", "subject": "crane.day"}).raise_for_status()
    page = open_page("theme", theme="bench").page
    dialog = dialog_of(page, "Add a memory …")
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    dialog.get_by_text("Kind, subject and validity").click()
    dialog.get_by_label("Kind", exact=True).select_option("value")
    dialog.get_by_label("Subject", exact=True).fill("crane.day")
    done(page, dialog, "Add")
    toast = page.locator(".hpg-toast")
    expect(toast).to_contain_text(f"{note} was current until now")
    undone(page)
    assert texts(demo) == [NOTE]


def changed_elsewhere(dashboard: HostDashboard, ref: str, **more: object) -> str:
    """What somebody else makes of a memory while the page shows it."""
    text = "The crane was sold."
    with dashboard.http() as http:
        changed = http.post("/edit", json={"ref": ref, "content": text, **more})
        assert changed.status_code == 200, changed.text
    return text


def test_need_42_what_somebody_else_wrote_meanwhile_is_shown_before_it_is_replaced(
    open_page: Open, demo: Demo, dashboard: HostDashboard, note: str
) -> None:
    opened = row(open_page, note)
    opened.complaints.expected.append("400")
    dialog = dialog_of(opened.page, "Replace …")
    expect(dialog).to_contain_text(NOTE)
    theirs = changed_elsewhere(dashboard, note)
    dialog.get_by_label("What is true instead", exact=True).fill(OTHER)
    expect(dialog).to_contain_text("changed by somebody else while you typed")
    expect(dialog.locator("blockquote")).to_contain_text(theirs)
    assert texts(demo) == [theirs]
    done(opened.page, dialog, "Replace")
    until(lambda: OTHER in texts(demo), what="the new memory")


def test_need_42_a_draft_that_was_left_does_not_overwrite_what_was_changed_since(
    open_page: Open, demo: Demo, dashboard: HostDashboard, note: str
) -> None:
    opened = open_page("theme", theme="bench")
    opened.complaints.expected.append("400")
    page = opened.page
    page.get_by_role("link", name=note, exact=True).click()
    dialog = dialog_of(page, "Edit …")
    dialog.get_by_label("Memory", exact=True).fill(OTHER)
    page.go_back()
    theirs = changed_elsewhere(dashboard, note, subject="crane.owner", kind="fact", pinned=True)
    page.get_by_role("link", name=note, exact=True).click()
    expect(page.locator(".hpg-page")).to_contain_text("crane.owner")
    dialog = dialog_of(page, "Edit …")
    expect(dialog.get_by_label("Memory", exact=True)).to_have_value(OTHER)
    expect(dialog.locator(".hpg-conflict blockquote").first).to_contain_text(theirs)
    dialog.get_by_role("button", name="Go on with mine").click()
    done(page, dialog, "Save")
    (changed,) = memories(demo)
    assert (changed["content"], changed["subject"], changed["kind"]) == (OTHER, "crane.owner", "fact")
    assert changed["pinned"]


def test_need_42_what_somebody_else_wrote_meanwhile_is_shown_before_it_is_forgotten(
    open_page: Open, demo: Demo, dashboard: HostDashboard, note: str
) -> None:
    opened = row(open_page, note)
    opened.complaints.expected.append("400")
    dialog = dialog_of(opened.page, "Forget …")
    expect(dialog.locator(".hpg-trial")).to_contain_text(NOTE)
    theirs = changed_elsewhere(dashboard, note)
    dialog.get_by_role("button", name="Forget", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("has just changed what this is about")
    expect(dialog.locator(".hpg-trial")).to_contain_text(theirs)
    assert texts(demo) == [theirs]
    done(opened.page, dialog, "Forget")
    assert texts(demo) == []


def ours(dashboard: HostDashboard) -> dict[str, Any]:
    """Our settings in the home's config.yaml, of which the host rewrites the rest when it first starts."""
    settings: dict[str, Any] = dashboard.home.read_config()["plugins"]["pgvector"]
    return settings


def test_need_42_settings_are_tried_before_they_are_saved(open_page: Open, dashboard: HostDashboard) -> None:
    before = dashboard.home.config_path.read_text(encoding="utf-8")
    kept = ours(dashboard)
    opened = open_page("settings")
    page = opened.page
    field = page.locator("input[name=prefetch_limit]")
    try:
        field.fill("many")
        page.get_by_role("button", name="Test", exact=True).click()
        expect(page.locator(".hpg-trial-failed")).to_be_visible()
        assert ours(dashboard) == kept
        field.fill("7")
        page.get_by_role("button", name="Test", exact=True).click()
        save = page.get_by_role("button", name="Save", exact=True)
        expect(save).not_to_have_attribute("aria-disabled", "true")
        save.click()
        expect(page.locator(".hpg-toast")).to_be_visible()
        assert ours(dashboard)["prefetch_limit"] == 7
        field.fill("8")
        page.get_by_role("button", name="Test", exact=True).click()
        expect(save).not_to_have_attribute("aria-disabled", "true")
    finally:
        dashboard.home.config_path.write_text(before, encoding="utf-8")


def test_need_42_a_setting_that_another_tab_has_changed_is_not_overwritten_unseen(
    open_page: Open, dashboard: HostDashboard
) -> None:
    before = dashboard.home.config_path.read_text(encoding="utf-8")
    page = open_page("settings").page
    test, save = (page.get_by_role("button", name=name, exact=True) for name in ("Test", "Save"))
    try:
        page.locator("input[name=prefetch_limit]").fill("7")
        test.click()
        expect(save).not_to_have_attribute("aria-disabled", "true")
        with dashboard.http() as http:
            assert http.post("/settings", json={"changes": {"prefetch_limit": 9}}).json()["ok"]
        save.click()
        expect(page.locator(".hpg-trial-failed")).to_contain_text("somebody else has set it to 9 meanwhile")
        assert ours(dashboard)["prefetch_limit"] == 9
        test.click()
        expect(save).not_to_have_attribute("aria-disabled", "true")
        save.click()
        expect(page.locator(".hpg-toast")).to_be_visible()
        assert ours(dashboard)["prefetch_limit"] == 7
    finally:
        dashboard.home.config_path.write_text(before, encoding="utf-8")
