"""`hermes memory setup pgvector` as a person meets it: the real command on a terminal."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrations
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS
from tests.support.blocked_packages import PoorEnvironment
from tests.support.hermes import HERMES_COMMAND, HermesHome, describe
from tests.support.local_models import link_model
from tests.support.ollama import FakeOllama
from tests.support.password_role import PASSWORD as ROLE_PASSWORD
from tests.support.password_role import password_role
from tests.support.terminal import Terminal

SETUP = [*HERMES_COMMAND, "memory", "setup", "pgvector"]
PASSWORD = "swordfish"
CONFIG = "# mine\nmemory:\n  provider: honcho  # before\nplugins:\n  enabled: []\n"


@pytest.fixture
def home(bare_home: HermesHome) -> HermesHome:
    bare_home.copy_plugin()
    bare_home.config_path.write_text(CONFIG, encoding="utf-8")
    (bare_home.path / ".env").write_text("# keys\nOPENAI_API_KEY=sk-1\n", encoding="utf-8")
    return bare_home


@pytest.fixture
def ollama() -> Iterator[FakeOllama]:
    server = FakeOllama({"fits": DIMS, "long": 768})
    yield server
    server.close()


@pytest.fixture
def at_terminal(home: HermesHome, ollama: FakeOllama) -> Iterator[Terminal]:
    environment = home.environment({"OLLAMA_HOST": ollama.host})
    with Terminal(SETUP, environment, str(home.root)) as terminal:
        yield terminal


def test_the_wizard_asks_again_until_it_works_and_saves_at_the_end(
    home: HermesHome, at_terminal: Terminal, ollama: FakeOllama, dsn: str
) -> None:
    screen = at_terminal
    screen.answer(r"Number \[1\]: ", "2")
    screen.answer(r"DSN, .*: ", f"host=127.0.0.1 port=1 user=u dbname=x password={PASSWORD}")
    screen.answer(r"does not work: .*refused")
    screen.answer(r"Number \[1\]: ", "nonsense")
    screen.answer(r"write a number from 1 to 2")
    screen.answer(r"Number \[1\]: ", "server")
    screen.answer(r"DSN, .*: ", make_conninfo(dsn, password=PASSWORD))
    screen.answer(r"tables are there, vectors of 384 dimensions")
    screen.answer(r"The bundled model, .* 384 dimensions, 72\.5 MB to fetch")
    screen.answer(r"Number \[1\]: ", "1")
    screen.answer(rf"Base URL \[http://{ollama.host}\]: ", "")
    screen.answer(r"it has fits, long|it has long, fits")
    screen.answer(r"Model \[.*\]: ", "long")
    screen.answer(r"API key.*: ", "key-98765")
    screen.answer(r"does not work: the model gives 768 dimensions")
    screen.answer(r"Number \[1\]: ", "1")
    screen.answer(r"Base URL.*: ", "")
    screen.answer(r"Model .*: ", "fits")
    screen.answer(r"API key.*: ", "key-98765")
    screen.answer(r"fits answered in \d+ ms with 384 dimensions")
    assert home.config_path.read_text(encoding="utf-8") == CONFIG, "nothing is saved before the end"
    screen.answer(r"Save this and activate it\? \[Y/n\]: ", "")
    assert screen.exit_code() == 0, screen.screen
    assert "ok    embedding" in screen.screen and "FAIL" not in screen.screen

    text = home.config_path.read_text(encoding="utf-8")
    assert "# mine\n" in text and "provider: pgvector # before\n" in text
    config = home.read_config()
    assert config["plugins"]["enabled"] == ["pgvector"]
    assert config["plugins"]["pgvector"] == {"embed_url": f"http://{ollama.host}", "embed_model": "fits", "dims": DIMS}
    dotenv = home.path / ".env"
    assert dotenv.read_text(encoding="utf-8").startswith("# keys\nOPENAI_API_KEY=sk-1\n")
    assert PASSWORD in dotenv.read_text(encoding="utf-8") and "key-98765" in dotenv.read_text(encoding="utf-8")
    assert stat.S_IMODE(dotenv.stat().st_mode) == 0o600
    assert "key-98765" not in screen.screen
    status = home.hermes("memory", "status")
    assert "pgvector" in status.stdout and "available" in status.stdout, describe(status)

    link_model(home.path)
    before = (home.config_path.read_bytes(), dotenv.read_bytes())
    with Terminal(SETUP, home.environment({"OLLAMA_HOST": ollama.host}), str(home.root)) as again:
        again.answer(r"Number \[2\]: ", "")
        again.answer(r"DSN, .*password=\*\*\*.*: ", "")
        again.answer(r"The bundled model, .* 384 dimensions, installed")
        again.answer(r"Number \[1\]: ", "")
        again.answer(rf"Base URL \[http://{ollama.host}\]: ", "")
        again.answer(r"Model \[fits\]: ", "")
        again.answer(r"API key \(empty: the one that is set.*: ", "")
        again.answer(r"nothing: all of this is set already")
        again.answer(r"Save this.*: ", "")
        assert again.exit_code() == 0, again.screen
        assert PASSWORD not in again.screen, "what is saved is shown masked"
    assert (home.config_path.read_bytes(), dotenv.read_bytes()) == before


@pytest.mark.parametrize("way", ["ctrl_c", "end_of_input", "no"])
def test_leaving_at_a_question_leaves_everything_as_it_was(
    home: HermesHome, at_terminal: Terminal, dsn: str, way: str
) -> None:
    before = (home.config_path.read_bytes(), (home.path / ".env").read_bytes())
    screen = at_terminal
    screen.answer(r"Number \[1\]: ", "2")
    screen.answer(r"DSN, .*: ", make_conninfo(dsn, password=PASSWORD))
    if way == "no":
        screen.answer(r"Number \[1\]: ", "3")
        screen.answer(r"Save this.*: ", "n")
    else:
        screen.answer(r"Number \[1\]: ")
        screen.press(b"\x03" if way == "ctrl_c" else b"\x04")

    assert screen.exit_code() == 130, screen.screen
    assert "Nothing was saved" in screen.screen and "Traceback" not in screen.screen
    assert (home.config_path.read_bytes(), (home.path / ".env").read_bytes()) == before
    assert not list(home.path.glob("pgvector/models/*"))


def test_need_40_who_leaves_during_the_checks_at_the_end_is_told_that_it_is_saved(
    home: HermesHome, at_terminal: Terminal, dsn: str
) -> None:
    screen = at_terminal
    screen.answer(r"Number \[1\]: ", "2")
    screen.answer(r"DSN, .*: ", dsn)
    screen.answer(r"Number \[1\]: ", "3")
    screen.answer(r"Save this.*: ", "")
    screen.answer(r"Saved\. Memory provider: pgvector")
    screen.press(b"\x03")

    assert screen.exit_code() == 130, screen.screen
    assert "The settings are saved" in screen.screen and "Traceback" not in screen.screen
    assert home.read_config()["memory"]["provider"] == "pgvector"


def test_an_admins_login_makes_the_tables_at_the_end(
    home: HermesHome, at_terminal: Terminal, empty_admin_dsn: str
) -> None:
    screen = at_terminal
    screen.answer(r"Number \[1\]: ", "2")
    screen.answer(r"DSN, .*: ", make_conninfo(empty_admin_dsn, user="hermes"))
    screen.answer(r"tables are missing there[\s\S]*hermes[- ]pgvector migrate --admin-dsn .* --runtime-role hermes")
    screen.answer(r"DSN of an admin.*: ", make_conninfo(empty_admin_dsn, user="hermes"))
    screen.answer(r"does not work: the role hermes cannot make")
    screen.answer(r"DSN of an admin.*: ", empty_admin_dsn)
    screen.answer(r"Number \[1\]: ", "3")
    screen.answer(r"Save this.*: ", "")

    assert screen.exit_code() == 0, screen.screen
    assert "applied 001_schema" in screen.screen
    with psycopg.connect(empty_admin_dsn) as conn:
        assert conn.execute("SELECT count(*) FROM hermes_migrations").fetchone() == (len(migrations()),)


def test_need_40_an_admin_who_comes_later_is_told_the_length_that_was_chosen(
    home: HermesHome, at_terminal: Terminal, empty_admin_dsn: str
) -> None:
    screen = at_terminal
    screen.answer(r"Number \[1\]: ", "2")
    screen.answer(r"DSN, .*: ", make_conninfo(empty_admin_dsn, user="hermes"))
    screen.answer(r"DSN of an admin.*: ", "")
    screen.answer(r"Go on, and let the admin do it later\? .*: ", "y")
    screen.answer(r"Number \[1\]: ", "1")
    screen.answer(r"Base URL.*: ", "")
    screen.answer(r"Model .*: ", "long")
    screen.answer(r"API key.*: ", "")
    screen.answer(r"memory works when an admin has run: .*--runtime-role hermes --dims 768\n")
    screen.answer(r"Save this.*: ", "")
    screen.answer(r"Note: memory works when an admin has run: .*--runtime-role hermes --dims 768\n")
    assert screen.exit_code() == 1, screen.screen


def test_need_40_what_was_noted_of_an_answer_that_did_not_work_goes_with_it(
    home: HermesHome, ollama: FakeOllama, settings: dict[str, Any], empty_admin_dsn: str
) -> None:
    home.write_config("http://127.0.0.1:1/v1", settings, memory={"provider": ""})
    with Terminal(SETUP, home.environment({"OLLAMA_HOST": ollama.host}), str(home.root)) as screen:
        screen.answer(r"Number \[2\]: ", "")
        screen.answer(r"DSN, .*: ", make_conninfo(empty_admin_dsn, user="hermes"))
        screen.answer(r"DSN of an admin.*: ", "")
        screen.answer(r"Go on, and let the admin do it later\? .*: ", "n")
        screen.answer(r"Number \[2\]: ", "")
        screen.answer(r"DSN, .*: ", "")
        screen.answer(r"Number \[\d\]: ", "3")
        screen.answer(r"Save this.*: ", "")
        assert screen.exit_code() == 0, screen.screen
    assert "stays there" not in screen.screen, "the database is the one it was"


def test_a_password_is_asked_for_unseen_and_the_role_gets_its_rights(
    home: HermesHome, at_terminal: Terminal, postgres: EmbeddedServer, admin_dsn: str
) -> None:
    screen = at_terminal
    with password_role(postgres, admin_dsn) as dsn:
        screen.answer(r"Number \[1\]: ", "2")
        screen.answer(r"DSN, .*: ", dsn)
        screen.answer(r"Password of guarded: ", "wrong-guess")
        screen.answer(r"does not work: .*password authentication failed")
        screen.answer(r"Number \[1\]: ", "2")
        screen.answer(r"DSN, .*: ", dsn)
        screen.answer(r"Password of guarded: ", ROLE_PASSWORD)
        screen.answer(r"the role guarded lacks SELECT on memory_entries")
        screen.answer(r"DSN of an admin.*: ", admin_dsn)
        screen.answer(r"Number \[1\]: ", "3")
        screen.answer(r"Save this.*: ", "")
        assert screen.exit_code() == 0, screen.screen

    assert "wrong-guess" not in screen.screen and "rights given to guarded" in screen.screen
    assert home.read_config()["plugins"]["pgvector"] == {"embed_url": "", "dims": DIMS}
    dotenv = (home.path / ".env").read_text(encoding="utf-8")
    assert f"password={ROLE_PASSWORD}" in dotenv and "wrong-guess" not in dotenv


def test_need_22_no_password_is_asked_for_a_dsn_that_cannot_be_read(at_terminal: Terminal) -> None:
    screen = at_terminal
    screen.answer(r"Number \[1\]: ", "2")
    screen.answer(r"DSN, .*: ", "postgresql://hermes:sword@fish@db.example/hermes_memory")
    screen.answer(r"does not work: .*write @ as %40")
    screen.answer(r"Number \[1\]: ")
    assert "Password of" not in screen.screen and "fish@" not in screen.screen.partition("does not work")[2]


def test_where_nobody_can_be_asked_it_never_waits(home: HermesHome, settings: dict[str, Any]) -> None:
    """What `config.yaml` names is tried and activated; what is wrong ends with 1."""
    home.write_config("http://127.0.0.1:1/v1", settings | {"embed_url": ""}, memory={"provider": ""})
    done = home.hermes("memory", "setup", "pgvector")
    assert done.returncode == 0, describe(done)
    assert home.read_config()["memory"]["provider"] == "pgvector"

    wrong = settings | {"dsn": f"host=127.0.0.1 port=1 dbname=x password={PASSWORD}"}
    home.write_config("http://127.0.0.1:1/v1", wrong, memory={"provider": ""})
    failed = home.hermes("memory", "setup", "pgvector")
    assert failed.returncode == 1, describe(failed)
    assert "refused" in failed.stdout and PASSWORD not in describe(failed)
    assert home.read_config()["memory"]["provider"] == ""


def test_need_40_where_nobody_can_be_asked_a_model_that_cannot_be_had_leaves_words(
    home: HermesHome, settings: dict[str, Any], tmp_path: Path
) -> None:
    """As `install.sh` does: the runtime of the bundled model is missing, and memory works all the same."""
    home.write_config("http://127.0.0.1:1/v1", settings, memory={"provider": ""})
    poor = PoorEnvironment(tmp_path / "poor", ["onnxruntime", "hermes_memory_pgvector"])
    setup = "import sys; sys.argv[1:] = ['memory', 'setup', 'pgvector']; from hermes_cli.main import main; main()"

    done = poor.run(setup, home=home.path)

    assert done.returncode == 0, describe(done)
    assert "recall goes by words" in done.stdout and "onnxruntime" in done.stdout and "model choose" in done.stdout
    config = home.read_config()
    assert config["memory"]["provider"] == "pgvector"
    assert "embed_url" not in config["plugins"]["pgvector"], "nobody decided that it should be words for ever"


def test_need_40_where_nobody_can_be_asked_a_silent_endpoint_stays_as_configured(
    home: HermesHome, settings: dict[str, Any]
) -> None:
    wanted = settings | {"embed_url": "http://127.0.0.1:1/v1", "embed_model": "mine"}
    home.write_config("http://127.0.0.1:1/v1", wanted, memory={"provider": ""})

    done = home.hermes("memory", "setup", "pgvector")

    assert done.returncode == 1 and "FAIL  embedding" in done.stdout, describe(done)
    config = home.read_config()
    assert config["memory"]["provider"] == "pgvector" and config["plugins"]["pgvector"] == wanted
