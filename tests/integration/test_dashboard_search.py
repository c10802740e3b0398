"""The dashboard's search: what is found, which part of it, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import DIMS, MakeProvider
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home
from tests.support.memory import landed

CRANE = "The harbour crane is greased on Mondays by Ingrid"


@pytest.fixture
def api(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)
    with dashboard_api(home.path, monkeypatch) as client:
        yield client


def test_a_memory_is_found_with_the_words_that_match(api: DashboardApi, make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", CRANE)
    landed(provider)

    found = api.get("/search", q="when was the crane greased?")

    (row,) = found["results"]
    assert row["content"] == CRANE
    assert [CRANE[first:end] for first, end in row["marks"]] == ["crane", "greased"]
    assert (found["mode"], found["more"], found["reranked"]) == ("lexical", False, False)
