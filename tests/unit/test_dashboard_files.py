"""The files of the dashboard's page: what belongs together is of one version, and other people's code is unchanged."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import yaml

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
