"""The dashboard's API over a real socket, without the host around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from .asgi_server import AsgiServer
from .waiting import until

BASE = "/api/plugins/pgvector"


class DashboardApi:
    """A client of the API; `http` for what `get` and `post` do not say."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """What a question is answered with; fails the test where that is an error.

        It is asked again, as a page would, while this machine is too busy to answer it within a second.
        """
        answer = until(lambda: self._in_time(path, params), what=f"{path} to be answered in time")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def _in_time(self, path: str, params: dict[str, Any]) -> httpx.Response | None:
        answer = self.http.get(BASE + path, params=params)
        return None if answer.status_code == 503 else answer

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """What a change is answered with; fails the test where that is an error."""
        answer = self.http.post(BASE + path, json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def refused(self, path: str, body: dict[str, Any] | None = None, **params: Any) -> tuple[int, str]:
        """Status and message of a request that is to fail: a change where there is a body."""
        answer = self.http.get(BASE + path, params=params) if body is None else self.http.post(BASE + path, json=body)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, str(answer.json()["error"])


def added(api: DashboardApi, content: str, **said: Any) -> str:
    """The number of a memory that the page adds."""
    return str(api.post("/add", **{"theme": "sales", "content": content} | said)["rows"][0]["ref"])


@contextmanager
def dashboard_api(home: Path, patched: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    """Serves the API for the hermes home `home` in a thread of this process."""
    from hermes_memory_pgvector.dashboard.routing import router
    from hermes_memory_pgvector.dashboard.served_homes import served_homes

    patched.setenv("HERMES_HOME", str(home))
    app = FastAPI()
    app.include_router(router, prefix=BASE)
    try:
        with AsgiServer(app) as server, httpx.Client(base_url=server.url, timeout=60) as http:
            yield DashboardApi(http)
    finally:
        served_homes.close()
