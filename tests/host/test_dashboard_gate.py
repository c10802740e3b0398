"""The real dashboard before our routes: whichever way the plugin was put there, nothing without a session token."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from hermes_memory_pgvector.dashboard.routes import ROUTES
from tests.conftest import DIMS
from tests.support.hermes import HermesHome
from tests.support.host_dashboard import API, HostDashboard

PATHS = [(route.path, "POST" if route.changes else "GET") for route in ROUTES]


@pytest.fixture(params=["shim", "copy"])
def dashboard(bare_home: HermesHome, dsn: str, request: pytest.FixtureRequest) -> Iterator[HostDashboard]:
    getattr(bare_home, f"{request.param}_plugin")()
    bare_home.write_config("http://127.0.0.1:9/v1", {"dsn": dsn, "dims": DIMS})
    with HostDashboard(bare_home) as dashboard:
        yield dashboard


def test_without_the_hosts_token_nothing_is_answered(dashboard: HostDashboard) -> None:
    with dashboard.http(token=False) as stranger:
        for path, method in PATHS:
            answer = stranger.request(method, path, json={} if method == "POST" else None)
            assert answer.status_code == 401, (method, path)
        assert stranger.get("/themes", headers={"X-Hermes-Session-Token": "wrong"}).status_code == 401
    for name in ("plugin_api.py", "routing.py", "page/core.js.py"):
        assert httpx.get(f"{dashboard.url}/dashboard-plugins/pgvector/{name}").status_code in (403, 404)
    with dashboard.http() as known:
        assert known.get("/themes").status_code == 200, dashboard.log()
        assert known.get("/none").status_code == 404
        assert known.get(f"{dashboard.url}{API}/themes", headers={"Host": "evil.example"}).status_code == 400
        foreign = known.post("/settings/test", json={}, headers={"Origin": "https://evil.example"})
        assert foreign.status_code in (400, 403)
