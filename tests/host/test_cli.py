"""The hermes command line with our provider active."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from hermes_memory_pgvector.host.session_context import load_settings
from tests.support.hermes import HermesHome, describe
from tests.support.model_server import PLAIN_ANSWER, ModelServer
from tests.support.stored import Database

FACT = "The spare key to the greenhouse hangs behind the third flower pot."
QUESTION = "Where does the spare key to the greenhouse hang?"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A loopback port on which nobody answers, kept from everybody else."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def patient_home(active_home: HermesHome, model: ModelServer, settings: dict[str, Any]) -> HermesHome:
    """A home whose runs wait at their end until what they were told is stored, however busy the machine is."""
    active_home.write_config(model.base_url, settings | {"shutdown_timeout_s": 30})
    return active_home


def test_what_one_shot_runs_were_told_a_later_one_recalls(
    patient_home: HermesHome, model: ModelServer, database: Database
) -> None:
    told = patient_home.hermes("-z", f"remember: {FACT}")
    assert told.returncode == 0, describe(told)
    database.wait_for_memory(FACT)

    asked = patient_home.hermes("-z", QUESTION)
    searched = patient_home.hermes("-z", "search: spare key greenhouse")

    assert asked.returncode == 0, describe(asked)
    assert PLAIN_ANSWER in asked.stdout
    assert "third flower pot" in model.requests_saying(QUESTION)[0].memory_context, patient_home.logs()
    assert searched.returncode == 0, describe(searched)
    assert "third flower pot" in "".join(model.requests_saying("search:")[-1].tool_results)


def test_a_one_shot_run_writes_under_the_profiles_theme(patient_home: HermesHome, database: Database) -> None:
    told = patient_home.hermes("-z", FACT)
    assert told.returncode == 0, describe(told)
    database.wait_for_turn(FACT)

    assert database.themes_of_turn(FACT) == ["default"]


def test_memory_status_names_the_provider_and_calls_it_available(active_home: HermesHome) -> None:
    status = active_home.hermes("memory", "status")

    assert status.returncode == 0, describe(status)
    assert re.search(r"Provider:\s+pgvector\b", status.stdout), describe(status)
    assert re.search(r"Status:\s+available", status.stdout), describe(status)


def test_config_set_activates_the_provider(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any]
) -> None:
    active_home.write_config(model.base_url, settings, memory={"provider": ""})
    before = active_home.hermes("memory", "status")

    activated = active_home.hermes("config", "set", "memory.provider", "pgvector")
    assert activated.returncode == 0, describe(activated)
    after = active_home.hermes("-z", "Which tools do you have now?")
    assert after.returncode == 0, describe(after)

    assert active_home.read_config()["memory"]["provider"] == "pgvector"
    assert active_home.read_config()["plugins"]["pgvector"] == settings
    assert not re.search(r"Provider:\s+pgvector", before.stdout), describe(before)
    assert "recall_memory" in model.requests_saying("Which tools do you have now?")[0].tool_names


@pytest.mark.parametrize(
    ("key", "given", "used"),
    [
        ("tools", '["remember","forget"]', ("remember", "forget")),
        ("tools", "[remember, forget]", ("remember", "forget")),
        ("tools", "remember,forget", ("remember", "forget")),
        ("tools", "[]", ()),
        ("retention", "{sre: 30, default: forever}", ("sre=30", "default=forever")),
        ("theme_aliases", '{"Ops": "sre"}', ("Ops=sre",)),
        ("cross_theme", '["sales", "marketing"]', ("sales", "marketing")),
        ("mask_patterns", '["INT-[0-9]+", "a,b"]', ("INT-[0-9]+", "a,b")),
        ("mask_patterns", "[0-9]{16}", ("[0-9]{16}",)),
        ("mask_patterns", "[12]", ("[12]",)),
    ],
)
def test_need_40_config_set_takes_lists_and_mappings(
    active_home: HermesHome, key: str, given: str, used: tuple[str, ...]
) -> None:
    done = active_home.hermes("config", "set", f"plugins.pgvector.{key}", given)
    assert done.returncode == 0, describe(done)
    settings, warnings = load_settings(None, active_home.path)
    assert (getattr(settings, key), warnings) == (used, ())


def test_a_refused_command_line_is_one_json_document(active_home: HermesHome) -> None:
    for wrong in (["list", "--bogus"], ["show"], ["list", "--limit", "x"]):
        refused = active_home.hermes("pgvector", *wrong, "--json")
        assert refused.returncode == 2, describe(refused)
        assert json.loads(refused.stdout)["type"] == "WrongUsage", describe(refused)


def test_need_21_a_package_that_is_gone_is_named(active_home: HermesHome) -> None:
    program = "import sys; sys.modules['psycopg'] = None; from hermes_cli.main import main; sys.exit(main())"

    def without_driver(*arguments: str) -> subprocess.CompletedProcess[str]:
        return active_home.python("-P", "-c", program, "pgvector", *arguments)

    for command in (["list"], ["show", "m1"], ["themes", "list"]):
        failed = without_driver(*command)
        assert failed.returncode == 1 and failed.stderr.startswith("error: this Python lacks psycopg"), describe(failed)
    failed = without_driver("show", "m1", "--json")
    assert json.loads(failed.stdout)["error"].startswith("this Python lacks psycopg"), describe(failed)


def test_doctor_succeeds_on_a_healthy_setup(active_home: HermesHome) -> None:
    doctor = active_home.hermes("pgvector", "doctor")

    assert doctor.returncode == 0, describe(doctor)
    assert doctor.stdout.strip(), describe(doctor)


def test_need_02_doctor_fails_and_names_the_cause_while_the_agent_goes_on(
    active_home: HermesHome, model: ModelServer, settings: dict[str, Any], closed_port: int
) -> None:
    password = "correct-horse-battery"
    dsn = f"host=127.0.0.1 port={closed_port} dbname=nowhere user=nobody password={password}"
    active_home.write_config(model.base_url, settings | {"dsn": dsn})

    doctor = active_home.hermes("pgvector", "doctor")
    turn = active_home.hermes("-z", QUESTION)

    assert doctor.returncode != 0, describe(doctor)
    assert str(closed_port) in doctor.stdout + doctor.stderr, describe(doctor)
    assert turn.returncode == 0, describe(turn)
    assert PLAIN_ANSWER in turn.stdout
    assert password not in describe(doctor) + describe(turn) + active_home.logs()
