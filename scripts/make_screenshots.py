"""Make docs/images/dashboard-*.png from a demo memory: python -P scripts/make_screenshots.py."""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import psycopg
from PIL import Image
from playwright.sync_api import expect
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.support.demo_dashboard import demo_dashboard, runtime_dsn
from tests.support.embedded import BIN_DIR
from tests.support.host_dashboard import HostDashboard
from tests.support.model_files import MODEL_DIMS
from tests.support.page import PHONE, chromium, opened, window

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
WINDOW = (1280, 800)
COLOURS = 256
QUESTION = "How was the outage of the payments gateway mended?"
# By name: the view, how it is looked at, its parameters, and what stands in it when it is there.
PICTURES = {
    "overview": ("overview", {}, {}, "Largest themes"),
    "search": ("search", {}, {"q": QUESTION}, "ERR_CONN_42 when its pool"),
    "agent": ("agent", {}, {"message": QUESTION, "theme": "sre"}, "ERR_CONN_42 when its pool"),
    "theme": ("theme", {"scheme": "light"}, {"theme": "sre"}, "ERR_CONN_42 when its pool"),
    "removals": ("removals", {}, {}, "Tickets are named"),
    "phone": ("theme", {"size": PHONE}, {"theme": "sre"}, "ERR_CONN_42 when its pool"),
}


def take(dashboard: HostDashboard) -> None:
    """Take every picture."""
    IMAGES.mkdir(exist_ok=True)
    with chromium() as browser, window(browser) as context, opened(context, dashboard) as open_view:
        for name, (view, looks, params, shown) in PICTURES.items():
            page = open_view(view, **({"size": WINDOW} | looks), **params).page
            expect(page.locator(".hpg-page").get_by_text(shown).first).to_be_visible()
            expect(page.get_by_text("are under way")).to_have_count(0, timeout=60_000)
            write(name, page.screenshot())
        page = open_view("theme", size=WINDOW, theme="marketing").page
        page.get_by_role("button", name="Change m").first.click()
        page.get_by_role("menuitem", name="Edit …").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Memory", exact=True).fill("The colour of the Atlas logo is RAL 5002, ultramarine.")
        dialog.locator(".hpg-says").wait_for()
        write("edit", page.screenshot())


def write(name: str, png: bytes) -> None:
    """Write a picture with few colours."""
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    picture.save(IMAGES / f"dashboard-{name}.png", optimize=True)


def main() -> None:
    """Start a database, the dashboard and a browser, and write the pictures."""
    place = Path(tempfile.mkdtemp(prefix="hermes-demo-", dir="/tmp"))
    place.chmod(0o755)  # the server may run as another account
    server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR, settings={"fsync": "off"})
    try:
        admin = server.ensure().admin
        with psycopg.connect(admin, autocommit=True) as conn:
            conn.execute("CREATE DATABASE demo")
        demo = make_conninfo(admin, dbname="demo")
        migrate(demo, dims=MODEL_DIMS, runtime_role="hermes")
        with demo_dashboard(place / "user", runtime_dsn(demo)) as dashboard:
            take(dashboard)
    finally:
        server.stop()
        server.release()
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
