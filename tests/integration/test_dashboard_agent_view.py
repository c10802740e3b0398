"""The dashboard's view of what an agent gets before a message."""

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


def test_the_block_is_the_one_that_an_agent_gets(api: DashboardApi, make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", CRANE)
    provider.on_memory_write("add", "memory", "Violet invoices go to the cellar archive in Bremen by the harbour")
    landed(provider)

    found = api.get("/agent-view", message="When is the harbour crane greased?", theme="marketing")

    assert found["block"] == provider.prefetch("When is the harbour crane greased?") != ""
