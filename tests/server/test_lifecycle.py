"""One server for many processes: started once, kept while someone is there, stopped by the last."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.processes import LOG_MAX_BYTES
from hermes_memory_pgvector.server.share import Conninfo
from tests.support.embedded import MakeServer, StartClient, ask, postmaster_of, starts_in
from tests.support.waiting import until


def test_need_28_five_processes_on_an_empty_directory_share_one_server(
    new_server: EmbeddedServer, start_client: StartClient
) -> None:
    clients = [start_client() for _ in range(5)]
    for client in clients:
        client.say("ensure")
    answers = {client.answer() for client in clients}
    assert len(answers) == 1 and answers.pop().startswith("Conninfo(")
    assert starts_in(new_server) == 1
    assert [client.call("release") for client in clients] == ["False"] * 4 + ["True"]
    assert not new_server.running()


def test_threads_and_instances_of_one_process_share_one_server(make_server: MakeServer) -> None:
    servers = [make_server(), make_server()]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda index: servers[index % 2].ensure(), range(8)))
    assert len(set(found)) == 1
    assert starts_in(servers[0]) == 1
    assert not servers[0].release()
    assert servers[1].running()
    assert servers[1].release()


def test_a_warm_start_finds_what_was_written(server: EmbeddedServer) -> None:
    with psycopg.connect(server.ensure().admin) as connection:
        connection.execute("CREATE EXTENSION vector; CREATE TABLE kept AS SELECT '[1,2]'::vector AS embedding")
    assert server.release()
    assert ask(server.ensure().admin, "SELECT embedding::text FROM kept") == "[1,2]"


def test_ensure_costs_one_connection_when_the_server_is_up(make_server: MakeServer) -> None:
    server = make_server(settings={"log_connections": "on"})
    log = server.root / "server.log"
    server.ensure()
    before = log.read_text().count("connection received")
    server.ensure()
    assert log.read_text().count("connection received") == before + 1


def test_a_dead_server_is_started_again(server: EmbeddedServer) -> None:
    ready = server.ensure()
    server.stop()
    assert not server.running()
    assert server.ensure() == ready
    assert server.running()


def test_a_dropped_database_is_made_again(server: EmbeddedServer) -> None:
    ready = server.ensure()
    with psycopg.connect(ready.admin.replace("hermes_memory", "postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE hermes_memory WITH (FORCE)")
    assert server.running()
    assert ask(server.ensure().runtime, "SELECT current_user::text") == "hermes"


def test_the_server_survives_the_kill_of_its_starter_and_goes_with_the_last_user(
    server: EmbeddedServer, start_client: StartClient
) -> None:
    first = start_client()
    first.call("ensure")
    first.send(signal.SIGKILL)
    assert server.running()
    server.ensure()
    assert starts_in(server) == 1
    assert server.release()


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(server: EmbeddedServer, start_client: StartClient) -> None:
    first = start_client()
    first.call("ensure")
    pid = postmaster_of(server)
    first.send(signal.SIGINT)
    server.ensure()
    assert postmaster_of(server) == pid
    assert starts_in(server) == 1


def test_release_leaves_the_server_to_another_process(server: EmbeddedServer, start_client: StartClient) -> None:
    other = start_client()
    server.ensure()
    other.call("ensure")
    assert not server.release()
    assert server.running()
    assert other.call("release") == "True"


def test_release_leaves_the_server_to_a_client_that_is_only_connected(server: EmbeddedServer) -> None:
    with psycopg.connect(server.ensure().runtime) as connection:
        assert not server.release()
        connection.execute("SELECT 1")
    server.ensure()
    assert server.release()


def test_release_without_ensure_and_twice_does_nothing(make_server: MakeServer) -> None:
    user, visitor = make_server(), make_server()
    assert not visitor.release()
    user.ensure()
    assert not visitor.release()
    assert user.release()
    assert not user.release()


def test_a_directory_that_was_removed_and_made_again(server: EmbeddedServer, start_client: StartClient) -> None:
    server.ensure()
    server.stop()
    shutil.rmtree(server.root)
    server.ensure()
    other = start_client()
    assert other.call("ensure").startswith("Conninfo(")
    assert other.call("release") == "False"
    assert server.release()


def test_release_when_the_server_is_already_gone(server: EmbeddedServer) -> None:
    server.ensure()
    server.stop()
    assert not server.release()


FORKING = """
import os, sys
from pathlib import Path
from hermes_memory_pgvector.server.cluster import EmbeddedServer
bin_dir = os.environ.get("PGVECTOR_TEST_POSTGRES", "")
server, other = (EmbeddedServer(Path(sys.argv[1]), bin_dir=bin_dir) for _ in range(2))
server.ensure()
hold, go = os.pipe()
if (child := os.fork()) == 0:
    os._exit(7 if server.release() else 0)
assert os.waitpid(child, 0)[1] == 0, "the child stopped the server"
other.ensure()
assert not other.release(), "the child gave up its parent's presence"
if (child := os.fork()) == 0:
    os.close(go)
    os.read(hold, 1)
    os._exit(0)
assert server.release(), "an idle child kept the server alive"
server.ensure()
if os.fork() == 0:
    server.ensure()
    assert not server.release(), "the parent is still there"
    os._exit(0)
assert os.wait()[1] == 0
assert server.running()
assert server.release()
os.close(go)
assert os.wait()[1] == 0
"""


def test_a_forked_child_neither_gives_up_nor_prolongs_the_presence_of_its_parent(server: EmbeddedServer) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", FORKING, server.root], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr


def test_stop_does_not_ask_who_uses_the_server(server: EmbeddedServer, start_client: StartClient) -> None:
    other = start_client()
    other.call("ensure")
    server.stop()
    assert not server.running()
    server.stop()
    assert other.call("ensure").startswith("Conninfo(")
    assert starts_in(server) == 2


def test_a_server_that_is_kept_up_outlives_its_last_user_until_it_is_stopped(
    server: EmbeddedServer, start_client: StartClient
) -> None:
    server.ensure()
    server.keep_up()
    assert not server.release()
    other = start_client()
    other.call("ensure")
    assert server.in_use() and server.is_kept_up()
    assert other.call("release") == "False"
    assert server.running()
    server.stop()
    assert not server.is_kept_up()
    server.ensure()
    assert not server.is_kept_up(), "another server than the one that was to be kept"
    assert server.release()


def test_nothing_is_made_before_the_first_ensure(new_server: EmbeddedServer) -> None:
    assert not new_server.running()
    assert not new_server.release()
    new_server.stop()
    new_server.notice()
    assert not new_server.root.exists()


@pytest.mark.parametrize("name", ["x" * 120, "a b'c\"d,e$(touch f)`g`", "ünï/çødé"])
def test_any_path_will_do(name: str, place: Path, make_server: MakeServer) -> None:
    ready = make_server(place / name / "pg").ensure()
    assert ask(ready.runtime, "SELECT current_user::text") == "hermes"
    assert make_server(place / name / "pg").ensure() == ready


def test_a_symbolic_link_leads_to_the_same_server(place: Path, server: EmbeddedServer, make_server: MakeServer) -> None:
    ready: Conninfo = server.ensure()
    (place / "link").symlink_to(server.root)
    assert make_server(place / "link").ensure() == ready


def test_the_log_is_set_aside_when_it_is_long(server: EmbeddedServer) -> None:
    server.ensure()
    server.stop()
    log = server.root / "server.log"
    os.truncate(log, LOG_MAX_BYTES + 1)
    server.ensure()
    assert until(lambda: 0 < log.stat().st_size < 100_000, what="a new log")
    assert (server.root / "server.log.1").stat().st_size == LOG_MAX_BYTES + 1


def test_settings_reach_the_server_as_they_are(place: Path, make_server: MakeServer) -> None:
    odd = f'it\'s "odd" \\ $(touch {place}/made) `touch {place}/made`; touch {place}/made ünï  '
    ready = make_server(settings={"hermes.note": odd, "work_mem": "7MB"}).ensure()
    assert ask(ready.runtime, "SELECT current_setting('hermes.note')") == odd
    assert ask(ready.runtime, "SHOW work_mem") == "7MB"
    assert ask(ready.runtime, "SHOW jit") == "off"
    assert not (place / "made").exists()


@pytest.mark.parametrize("name", ["listen_addresses", "Port", "hba_file", "-c", "x y", ""])
def test_settings_cannot_open_the_server_to_others(name: str, make_server: MakeServer) -> None:
    with pytest.raises(EmbeddedServerError, match="cannot be"):
        make_server(settings={name: "0"}).ensure()
