"""What commands say of themselves: what they do, what they cost, whom they blame, and where their advice leads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.admin.common.embedded_server import embedded_server
from hermes_memory_pgvector.admin.doctor.check import DoctorContext
from hermes_memory_pgvector.admin.doctor.check_endpoints import check_endpoints
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.host.session_context import load_settings
from tests.conftest import DIMS, MakeProvider
from tests.integration.conftest import command_environment
from tests.support.embedded import BIN_DIR, is_root
from tests.support.local_models import link_model
from tests.support.memory import landed
from tests.support.model_files import MODEL_NAME
from tests.support.waiting import until

Capture = pytest.CaptureFixture[str]

LOCAL = {"embed_url": f"local:{MODEL_NAME}"}
_RATIO = 4  # of the CPU time of a short command to that of importing the driver: 1.8 to 2.0 where nothing else runs
_HEAVY = ("httpx", "numpy", "onnxruntime", "rich")


def configure(home: Path, **settings: object) -> None:
    (home / "config.yaml").write_text(
        yaml.safe_dump({"memory": {"provider": "pgvector"}, "plugins": {"pgvector": {"dims": DIMS} | settings}})
    )


@pytest.fixture
def own_server(home: Path, place: Path) -> Iterator[Path]:
    """A home whose embedded server is its own, in a directory that other accounts can reach."""
    configure(home, embedded_dir=str(place / "pg"), embedded_bin_dir=BIN_DIR)
    yield place / "pg"
    main(["server", "stop", "--hermes-home", str(home)])


def said_by(capsys: Capture, home: Path, *arguments: str) -> str:
    """What a command prints, to both its streams."""
    main([*arguments, "--hermes-home", str(home)])
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_need_40_as_whom_the_server_runs_is_said_at_the_install_and_by_doctor_only(
    home: Path, own_server: Path, capsys: Capture
) -> None:
    words = "running as root, which Postgres refuses"
    for verb in (["server", "status"], ["server", "start"], ["migrate"], ["status"], ["list"], ["server", "stop"]):
        assert words not in said_by(capsys, home, *verb), verb
    assert (words in said_by(capsys, home, "install")) == is_root()
    assert (words in said_by(capsys, home, "doctor")) == is_root()


def test_need_40_a_server_that_was_started_by_hand_stays_until_it_is_stopped(
    home: Path, own_server: Path, capsys: Capture
) -> None:
    assert "starting Postgres ..." in said_by(capsys, home, "list")
    assert "it is down" in said_by(capsys, home, "server", "status")
    assert "it stays up until" in said_by(capsys, home, "server", "start")
    assert "starting Postgres" not in said_by(capsys, home, "list")
    assert "it is up" in said_by(capsys, home, "server", "status")
    assert "using it" not in said_by(capsys, home, "server", "stop")
    server = embedded_server(load_settings(None, home).settings)
    server.ensure()
    assert "an agent starts it again" in said_by(capsys, home, "server", "stop")
    assert not server.release()
    assert "it is down" in said_by(capsys, home, "server", "status")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in which Python keeps what it has compiled, as it does where it may write."""
    return str(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def driver_cpu_s(compiled: str) -> float:
    """The CPU time of what no command can do without."""
    return cpu_s(["-P", "-c", "import psycopg, yaml"], {**os.environ, "PYTHONPYCACHEPREFIX": compiled})


def cpu_s(arguments: list[str], environment: dict[str, str], enough_s: float = 0.0) -> float:
    """The least CPU time that a Python with these arguments took in some runs, or the first below `enough_s`."""
    environment = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
        times.append(used.ru_utime + used.ru_stime)
        if times[-1] < enough_s:
            break
    return min(times)


@pytest.mark.parametrize("verb", ["doctor", "status", "list", "search"])
def test_need_40_a_short_command_costs_about_as_much_as_what_it_cannot_do_without(
    home: Path, dsn: str, compiled: str, driver_cpu_s: float, verb: str
) -> None:
    """A ratio, for machines differ: half a second is some three times what importing driver and YAML takes."""
    configure(home, dsn=dsn)
    environment = command_environment(home, PYTHONPYCACHEPREFIX=compiled)
    more = ["anything"] if verb == "search" else []
    command = ["-P", "-m", "hermes_memory_pgvector.cli", verb, *more]
    limit_s = _RATIO * driver_cpu_s
    assert cpu_s(command, environment, enough_s=limit_s) < limit_s

    program = (
        "import sys; from hermes_memory_pgvector.cli import main; main(sys.argv[1:]); "
        f"print([name for name in {_HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, verb, *more], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1:] == ["[]"], done.stderr


def test_need_40_doctor_takes_an_agents_word_for_the_model_rather_than_load_it(
    home: Path, dsn: str, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_memory_pgvector.capture.writer._REPORT_S", 0.0)
    link_model(home)
    provider = make_provider(LOCAL)
    provider.on_memory_write("add", "memory", "The spare key hangs behind the pot")
    landed(provider)
    patient = DoctorContext(Settings(dsn=dsn, dims=DIMS, embed_url=LOCAL["embed_url"], rerank="off"), home)

    def of_the_agent() -> bool:
        (check,) = check_endpoints(patient)
        return check.state == "ok" and f"in the agent of process {os.getpid()}" in check.said

    until(of_the_agent, what="the agent's report")

    shutil.rmtree(home / "pgvector" / "models" / MODEL_NAME)
    (check,) = check_endpoints(patient)
    assert check.state == "fail", "the agent does not know yet that it is gone"


_SLOW = """
import sys, threading
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.embed import onnx_session

# As long as on a cold disk: what reads the model has its turn only then.
onnx_session._at_load.acquire()
threading.Timer(float(sys.argv[1]), onnx_session._at_load.release).start()
sys.exit(main(sys.argv[2:]))
"""


def test_need_40_search_says_that_it_loads_the_model_when_that_takes_long(
    home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    link_model(home)
    provider = make_provider(LOCAL)
    provider.on_memory_write("add", "memory", "The spare key hangs behind the pot")
    landed(provider)
    configure(home, dsn=dsn, **LOCAL)

    done = subprocess.run(
        [sys.executable, "-P", "-c", _SLOW, "1.5", "search", "spare key", "--theme", "marketing"],
        env=command_environment(home),
        capture_output=True,
        text=True,
        check=False,
    )

    assert "behind the pot" in done.stdout, done.stderr
    assert "loading a model" in done.stderr
    assert "loading" not in done.stdout


def test_need_40_copy_blames_the_option_that_was_wrong(home: Path, dsn: str, capsys: Capture) -> None:
    configure(home, dsn=dsn)
    said = said_by(capsys, home, "copy", "--to", "host=127.0.0.1 port=1 dbname=x user=u")
    assert "in `--to`" in said and "`dsn`" not in said
    said = said_by(capsys, home, "copy", "--from", "host=127.0.0.1 port=1 dbname=x user=u")
    assert "in `--from`" in said and "`dsn`" not in said


def test_need_40_bring_does_not_advise_to_migrate_somebody_elses_tables(
    home: Path, dsn: str, admin_dsn: str, capsys: Capture
) -> None:
    configure(home, dsn=dsn)
    said = said_by(capsys, home, "bring", "predecessor", "--dsn", "host=127.0.0.1 port=1 dbname=x user=u")
    assert "`--dsn`" in said and "migrate" not in said


def test_need_40_doctor_sends_to_a_command_that_changes_something_where_words_were_chosen(
    home: Path, dsn: str, capsys: Capture
) -> None:
    configure(home, dsn=dsn)
    assert "-> hermes-pgvector model choose" in said_by(capsys, home, "doctor")
    configure(home, dsn=dsn, embed_url="")
    assert "-> hermes-pgvector model install --use" in said_by(capsys, home, "doctor")


def test_need_40_uninstall_names_pip_only_for_what_pip_installed(home: Path, tmp_path: Path, capsys: Capture) -> None:
    configure(home)
    assert "pip uninstall" in said_by(capsys, home, "uninstall")
    copy = tmp_path / "plugin" / "pgvector"
    assert main(["install", "--copy", "--hermes-home", str(tmp_path / "plugin-home")]) == 0
    shutil.copytree(tmp_path / "plugin-home" / "plugins" / "pgvector", copy)
    copy.rename(tmp_path / "plugin" / "copied_pgvector")
    program = "import sys; from copied_pgvector.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, "uninstall", "--hermes-home", str(home)],
        env=command_environment(home, PYTHONPATH=str(tmp_path / "plugin")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "pip" not in done.stdout, done.stdout + done.stderr

    lost = subprocess.run(
        [sys.executable, "-c", program, "themes", "delete", "nowhere", "--hermes-home", str(home)],
        env=command_environment(home, PYTHONPATH=str(tmp_path / "plugin"), HERMES_PGVECTOR_DSN="host=127.0.0.1 port=1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "hermes-pgvector" not in lost.stderr, "a copy has no program of that name"
