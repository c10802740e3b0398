"""The real dashboard over a home whose memory the demo has filled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import make_conninfo

from .hermes import HermesHome, describe
from .host_dashboard import HostDashboard
from .local_models import link_model
from .model_files import MODEL_DIMS, MODEL_NAME
from .waiting import until

_DEMO = Path(__file__).with_name("demo_memory.py")


def runtime_dsn(admin_dsn: str) -> str:
    """Return the runtime role's conninfo of the same database."""
    return make_conninfo(admin_dsn, user="hermes")


@contextmanager
def served_home(root: Path, dsn: str, **settings: object) -> Iterator[HostDashboard]:
    """Serve a home on a database through the host's dashboard."""
    home = HermesHome(root)
    link_model(home.path)
    config = {"dsn": dsn, "dims": MODEL_DIMS, "embed_url": f"local:{MODEL_NAME}", "embed_model": MODEL_NAME}
    home.write_config("http://127.0.0.1:9/v1", config | settings)
    installed = home.shim_plugin()
    assert installed.returncode == 0, describe(installed)
    with HostDashboard(home) as dashboard:
        yield dashboard


@contextmanager
def demo_dashboard(root: Path, dsn: str) -> Iterator[HostDashboard]:
    """Serve a home whose database the demo has filled, once it answers at once."""
    with served_home(root, dsn) as running:
        filled = running.home.python(str(_DEMO), str(running.home.path))
        assert filled.returncode == 0, describe(filled)
        # The first question has the database connected to and the model loaded, and is asked again meanwhile.
        with running.http() as http:
            until(lambda: http.get("/search", params={"q": "ready?"}).status_code == 200, what="the first answer")
        yield running
