"""The dashboard's overview: how the memory is doing, at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home


@pytest.fixture
def api(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    home = mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS)
    with dashboard_api(home.path, monkeypatch) as client:
        yield client


def test_it_says_how_many_themes_there_are(api: DashboardApi) -> None:
    assert api.get("/overview") == {"themes": 0}
