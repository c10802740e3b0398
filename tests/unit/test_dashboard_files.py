"""The files of the dashboard's page: what belongs together is of one version, and other people's code is unchanged."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

import hermes_memory_pgvector
from hermes_memory_pgvector.admin.common.installation import Mode, install_plugin
from hermes_memory_pgvector.admin.doctor.check import Check
from hermes_memory_pgvector.admin.doctor.check_installation import check_installation
from tests.support.blocked_packages import PoorEnvironment
from tests.support.hermes import HermesHome

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "pgvector"
DASHBOARD = PACKAGE / "dashboard"
STANDALONE = DASHBOARD / "standalone"

PREACT = "10.29.8"
# As its makers publish them: dist/preact.umd.js, hooks/dist/hooks.umd.js and LICENSE.
PREACT_FILES = {
    "preact.umd.js": "134b77bc803fa38661dc1b1e44e96eb0bb6a1a00edbb96d34dcde421b2e80b06",
    "preact-hooks.umd.js": "5c29238e5dc99df306d7f7fff038591a397cfcfabb59f81fbdef43d670aa0566",
    "preact-LICENSE": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
}


def test_the_page_is_of_the_plugins_version() -> None:
    manifest = json.loads((DASHBOARD / "manifest.json").read_text(encoding="utf-8"))
    plugin = yaml.safe_load((PACKAGE / "plugin.yaml").read_text(encoding="utf-8"))
    assert (manifest["name"], manifest["version"]) == (plugin["name"], plugin["version"])


def test_the_page_has_all_files_that_its_manifest_names() -> None:
    manifest = json.loads((DASHBOARD / "manifest.json").read_text(encoding="utf-8"))
    for key in ("entry", "css", "api"):
        assert (DASHBOARD / manifest[key]).is_file()


def test_the_page_is_made_of_its_sources() -> None:
    script = runpy.run_path(str(REPOSITORY / "scripts" / "make_dashboard_page.py"))
    made = (DASHBOARD / "dist" / "index.js").read_text(encoding="utf-8")
    assert made == script["page"](), "run scripts/make_dashboard_page.py"
    assert {path.stem for path in (DASHBOARD / "page").glob("*.js")} == set(script["PARTS"])


def test_the_code_of_others_is_as_they_published_it() -> None:
    for name, digest in PREACT_FILES.items():
        assert hashlib.sha256((STANDALONE / name).read_bytes()).hexdigest() == digest, name


def test_the_code_of_others_is_named_with_its_licence() -> None:
    notice = (REPOSITORY / "NOTICE").read_text(encoding="utf-8")
    assert f"Preact {PREACT}" in notice and "MIT License" in notice
    for name in PREACT_FILES:
        assert name in notice


def test_the_page_asks_nobody_else() -> None:
    """Not even for a font: what a browser loads is in this folder."""
    address = re.compile(r"(?:src|href|url|fetch|import|@import)[\s=(\"']+(?:https?:)?//", re.IGNORECASE)
    for path in [*DASHBOARD.glob("dist/*"), *STANDALONE.glob("*")]:
        assert not address.search(path.read_text(encoding="utf-8")), path.name


# -- the host loads the routes by their path -------------------------------------------------------------------------

# As the host's dashboard does.
LOADING = """
import importlib.util, json, sys
path = sys.argv[1] + "/dashboard/plugin_api.py"
spec = importlib.util.spec_from_file_location("hermes_dashboard_plugin_pgvector", path)
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from fastapi import FastAPI
from fastapi.testclient import TestClient
app = FastAPI()
app.include_router(module.router, prefix="/api/plugins/pgvector")
client = TestClient(app)
asked = client.get("/api/plugins/pgvector/profiles")
changed = client.post("/api/plugins/pgvector/add", json={})
code = sys.modules[module.router.routes[0].endpoint.__module__].__file__
print(json.dumps([asked.status_code, asked.json(), changed.status_code, code]))
"""


def loaded(poor: PoorEnvironment, home: Path) -> tuple[int, dict[str, Any], int, Path]:
    """Status and answer of a question, status of a change, and the file that answered."""
    # Else a Postgres of the home's own was made, started, and left in the user's data.
    (home / "config.yaml").write_text("plugins: {pgvector: {dsn: 'host=127.0.0.1 port=1'}}\n", encoding="utf-8")
    done = poor.run(LOADING, str(home / "plugins" / "pgvector"), home=home)
    assert done.returncode == 0, done.stderr
    status, answer, changed, code = json.loads(done.stdout.splitlines()[-1])
    return status, answer, changed, Path(code)


@pytest.fixture
def poor(tmp_path: Path) -> PoorEnvironment:
    return PoorEnvironment(tmp_path / "packages", [])


def without_package(tmp_path: Path, *missing: str) -> PoorEnvironment:
    poor = PoorEnvironment(tmp_path / "packages", missing)
    (tmp_path / "packages" / "hermes_memory_pgvector").unlink()
    return poor


def test_a_shim_has_the_routes_of_the_package(tmp_path: Path, home: Path, poor: PoorEnvironment) -> None:
    folder = install_plugin(home).path
    assert not (folder / "dashboard" / "routing.py").exists()

    status, answer, _, code = loaded(poor, home)

    assert (status, answer["current"]) == (200, "default")
    assert code.resolve() == Path(hermes_memory_pgvector.__file__).resolve().parent / "dashboard" / "routing.py"


def test_behind_a_link_it_is_the_package_itself(home: Path, poor: PoorEnvironment) -> None:
    HermesHome(home, home / "h").link_plugin()
    status, _, _, code = loaded(poor, home / "h")
    assert (status, code.resolve()) == (200, DASHBOARD / "routing.py")


def test_a_copy_needs_no_installed_package(tmp_path: Path, home: Path) -> None:
    folder = install_plugin(home, mode="copy").path
    status, answer, _, code = loaded(without_package(tmp_path), home)
    assert (status, answer["current"], code) == (200, "default", folder / "dashboard" / "routing.py")


def test_a_copy_has_its_own_routes_whatever_else_is_installed(home: Path, poor: PoorEnvironment) -> None:
    folder = install_plugin(home, mode="copy").path
    status, _, _, code = loaded(poor, home)
    assert (status, code) == (200, folder / "dashboard" / "routing.py")


def test_a_shim_without_its_package_says_what_to_do(tmp_path: Path, home: Path) -> None:
    install_plugin(home)
    status, answer, changed, _ = loaded(without_package(tmp_path), home)
    assert (status, changed) == (503, 503)
    assert "pip install" in answer["error"] and "hermes-memory-pgvector" in answer["error"]


@pytest.mark.parametrize("mode", ["shim", "copy"])
@pytest.mark.parametrize("missing", ["psycopg", "yaml"])
def test_without_a_dependency_it_says_what_to_do(tmp_path: Path, home: Path, mode: Mode, missing: str) -> None:
    install_plugin(home, mode=mode)
    status, answer, changed, _ = loaded(PoorEnvironment(tmp_path / "packages", [missing]), home)
    assert (status, changed) == (503, 503)
    assert missing in answer["error"].lower() and "pip install" in answer["error"]


# -- the doctor ------------------------------------------------------------------------------------------------------


def page_checks(home: Path) -> list[Check]:
    return [check for check in check_installation(home) if check.name == "page"]


def test_the_doctor_tells_of_a_page_that_is_not_the_packages(home: Path) -> None:
    folder = install_plugin(home).path
    assert page_checks(home) == []
    (folder / "dashboard" / "dist" / "index.js").write_text("// older\n", encoding="utf-8")

    (check,) = page_checks(home)

    assert (check.state, check.repair) == ("note", "install")
    assert "hermes-pgvector install" in check.fix
    install_plugin(home)
    assert page_checks(home) == []
