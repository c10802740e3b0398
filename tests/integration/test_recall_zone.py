"""Days are those of the user's zone: the host's, or the setting's."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import psycopg
import pytest

from hermes_memory_pgvector.host.session_context import load_settings
from tests.conftest import MakeProvider
from tests.support.hostile import plain_lines
from tests.support.memory import called, landed

TURNS = "recall_conversation"
# Of the two zones that are farthest from UTC, one has another date than UTC at any time.
FAR = "Etc/GMT-14" if datetime.now(UTC).hour >= 11 else "Etc/GMT+12"
HARBOUR = "The harbour crane was greased and tried by Ingrid."
CELLAR = "The cellar archive was emptied and painted by Anton."


def put_at(dsn: str, content: str, moment: datetime) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE conversations SET ts = %s WHERE content = %s", (moment, content))


@pytest.fixture(params=["setting", "config.yaml", "HERMES_TIMEZONE", ".env"])
def named(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The setting `timezone`, with the zone named there or in one of the host's places."""
    if request.param == "setting":
        return FAR
    if request.param == "config.yaml":
        (home / "config.yaml").write_text(f"timezone: {FAR}\n", encoding="utf-8")
    elif request.param == ".env":
        (home / ".env").write_text(f"HERMES_TIMEZONE={FAR}\n", encoding="utf-8")
    else:
        monkeypatch.setenv("HERMES_TIMEZONE", FAR)
    return ""


def test_need_39_yesterday_is_the_users(named: str, make_provider: MakeProvider, dsn: str) -> None:
    today = datetime.now(ZoneInfo(FAR)).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = today - timedelta(days=1)
    provider = make_provider({"timezone": named})
    for text, moment in ((HARBOUR, yesterday + timedelta(hours=1)), (CELLAR, yesterday - timedelta(hours=1))):
        provider.sync_turn(text, None, session_id=f"session of {text}")
        landed(provider)
        put_at(dsn, text, moment)

    found = called(provider, TURNS, {"query": "What did we talk about yesterday?"})["results"]
    assert [(each["content"], each["date"][:10]) for each in found] == [(HARBOUR, f"{yesterday:%Y-%m-%d}")]

    for limits in ({"since": f"{yesterday:%Y-%m-%d}"}, {"since": "yesterday", "until": "yesterday"}):
        answer = called(provider, TURNS, {"query": "Who painted or greased what?", **limits})
        assert [each["content"] for each in answer["results"]] == [HARBOUR]

    provider.on_session_switch("another", parent_session_id="", reset=True)
    (line,) = plain_lines(provider.prefetch("What did we talk about yesterday?"))
    assert line.startswith(f"- [{yesterday:%Y-%m-%d}, ") and HARBOUR in line


def test_a_memory_expires_at_the_end_of_the_users_day(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider({"timezone": "America/New_York", "tools": ["remember"], "structure": True})
    called(provider, "remember", {"content": "The garage is closed for works.", "expires_at": "2099-07-14"})
    landed(provider)
    with psycopg.connect(dsn) as connection:
        (expires,) = connection.execute("SELECT expires_at FROM memory_entries").fetchone() or (None,)
    assert expires == datetime(2099, 7, 15, 4, tzinfo=UTC)


def test_an_expiry_in_other_words_is_answered_with_times_that_are_to_come(make_provider: MakeProvider) -> None:
    provider = make_provider({"tools": ["remember"], "structure": True})
    words = {"content": "The garage is closed for works.", "expires_at": "end of the sprint"}
    refused = called(provider, "remember", words)["error"]
    assert "tomorrow" in refused and "ago" not in refused
    assert called(provider, "remember", words | {"expires_at": "tomorrow"})["state"] == "accepted"


def test_a_zone_that_is_unknown_is_this_machines(home: Path) -> None:
    settings, (warning,) = load_settings({"dsn": "host=db", "timezone": "Mars/Phobos"}, home)
    assert settings.timezone == ""
    assert "Mars/Phobos" in warning and "Europe/Berlin" in warning
    (home / "config.yaml").write_text("timezone: Mars/Phobos\nplugins: {pgvector: {dsn: host=db}}\n", encoding="utf-8")
    settings, warnings = load_settings(None, home)
    assert (settings.timezone, warnings) == ("", ())


# Nothing of the system's, as in a slim container, and no package of Python's in its place.
WITHOUT_ZONES = """
import sys
sys.modules["tzdata"] = None
from hermes_memory_pgvector.config.loading import load
for zone in ("Europe/Berlin", "UTC"):
    print(load({"timezone": zone}, {}, None, {}).warnings)
"""


def test_a_machine_that_knows_no_zones_says_what_it_lacks() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITHOUT_ZONES],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    berlin, utc = done.stdout.splitlines()
    assert "'Europe/Berlin', and it knows none but UTC: install the package tzdata" in berlin
    assert utc == "()"
