"""Several profiles in one gateway process: each has its own themes, settings and secrets."""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.gateway import API_KEY, Gateway
from tests.support.hermes import PLUGIN_FOLDER, HermesHome
from tests.support.model_server import ModelServer
from tests.support.stored import Database

SAID = "The mooring plan of {who} is kept in drawer number {number}, and CUST-4711 pays for it."
QUESTION = "Where is the mooring plan of the harbour kept, and who pays for it?"
OFF = {"memory_enabled": False, "user_profile_enabled": False}


def profile_of(home: HermesHome, name: str, model: ModelServer, settings: dict[str, Any]) -> None:
    """Makes a profile with our plugin and settings of its own below a home."""
    path = home.path / "profiles" / name
    path.mkdir(parents=True)
    config = home.read_config()
    config["plugins"]["pgvector"] = settings
    (path / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (path / "plugins").mkdir()
    (path / "plugins" / "pgvector").symlink_to(PLUGIN_FOLDER, target_is_directory=True)


def test_need_27_two_profiles_of_one_gateway_share_neither_themes_nor_settings(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], database: Database
) -> None:
    active_home.write_config(model.base_url, settings, memory=OFF)
    profile_of(active_home, "coder", model, settings | {"mask_patterns": ["CUST-[0-9]+"]})
    config = active_home.read_config() | {"gateway": {"multiplex_profiles": True}}
    active_home.config_path.write_text(yaml.safe_dump(config), encoding="utf-8")
    gateway = Gateway(active_home)
    # With several profiles the host reads no secrets from the environment of the process.
    (active_home.path / ".env").write_text(
        f"API_SERVER_ENABLED=true\nAPI_SERVER_KEY={API_KEY}\nAPI_SERVER_HOST=127.0.0.1\nAPI_SERVER_PORT={gateway.port}\n",
        encoding="utf-8",
    )
    with gateway:
        for number, profile in enumerate((None, "coder")):
            said = SAID.format(who="the harbour", number=number)
            assert gateway.post_chat(said, profile=profile).status == 200, gateway.log()
        database.wait_for_turn(SAID.format(who="the harbour", number=0))
        database.wait_for_turn(SAID.format(who="the harbour", number=1).replace("CUST-4711", "[masked-secret]"))
        blocks = {}
        for profile in (None, "coder"):
            before = len(model.requests)
            assert gateway.post_chat(QUESTION, profile=profile, session=f"ask-{profile}").status == 200
            asked = [request for request in model.requests[before:] if request.tool_names]
            blocks[profile] = asked[-1].memory_context
    assert "drawer number 0" in blocks[None] and "drawer number 1" not in blocks[None]
    assert "drawer number 1" in blocks["coder"] and "drawer number 0" not in blocks["coder"]
    themes = database.column("SELECT DISTINCT agent_identity FROM conversations WHERE strpos(content, 'drawer') > 0")
    assert sorted(themes) == ["coder", "default"]
