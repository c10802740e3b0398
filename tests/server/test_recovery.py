"""What crashes, restarts and other programs leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.layout import choose_account
from tests.support.embedded import MakeServer, StartClient, ask, postmaster_of, starts_in
from tests.support.waiting import until

# What a server has to keep, in one statement with a result.
KEEP = "SELECT lo_from_bytea(4711, 'kept')"
KEPT = "SELECT oid FROM pg_largeobject_metadata"

# The kernel makes this process the parent of the server, and it never waits for its children.
STARTS_AND_NEVER_REAPS = """
import ctypes, os, sys
from pathlib import Path
from hermes_memory_pgvector.server.cluster import EmbeddedServer
if sys.platform == "linux":
    PR_SET_CHILD_SUBREAPER = 36
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
server = EmbeddedServer(Path(sys.argv[1]), bin_dir=os.environ.get("PGVECTOR_TEST_POSTGRES", ""))
print(server.ensure(), flush=True)
sys.stdin.read()
"""


def test_a_killed_server_that_nobody_reaps_is_replaced(server: EmbeddedServer) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", STARTS_AND_NEVER_REAPS, server.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None and parent.stdout.readline().startswith(b"Conninfo")
        pid = postmaster_of(server)
        os.kill(pid, signal.SIGKILL)
        if sys.platform == "linux":
            until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", what="a zombie")
        assert ask(server.ensure().runtime, "SELECT 1") == 1
        assert postmaster_of(server) != pid
        assert starts_in(server) == 2


def test_a_pid_file_that_names_another_program_is_not_believed(server: EmbeddedServer) -> None:
    server.ensure()
    os.kill(postmaster_of(server), signal.SIGKILL)
    until(lambda: not server.running(), what="the end of the server")
    account = choose_account()
    sleeper = subprocess.Popen(
        ["sleep", "300"],
        user=account.uid if account.switched else None,
        group=account.gid if account.switched else None,
    )
    try:
        for path in (server.root / "data" / "postmaster.pid", server.root / "run" / ".s.PGSQL.5432.lock"):
            lines = path.read_text().split("\n")
            path.write_text("\n".join([str(sleeper.pid), *lines[1:]]))
        assert ask(server.ensure().runtime, "SELECT 1") == 1
        assert server.release()
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_an_empty_pid_file_is_not_believed(server: EmbeddedServer) -> None:
    server.ensure()
    os.kill(postmaster_of(server), signal.SIGKILL)
    until(lambda: not server.running(), what="the end of the server")
    os.truncate(server.root / "data" / "postmaster.pid", 0)
    assert ask(server.ensure().runtime, "SELECT 1") == 1


def test_an_interrupted_initdb_leaves_nothing_in_the_way(new_server: EmbeddedServer, start_client: StartClient) -> None:
    client = start_client()
    client.say("ensure")
    until(lambda: any(new_server.root.glob("data.init-*/*")), what="initdb at work")
    client.send(signal.SIGKILL)
    assert not (new_server.root / "data").exists()
    assert ask(new_server.ensure().runtime, "SELECT 1") == 1
    assert not any(new_server.root.glob("data.init-*"))


def test_a_server_started_by_hand_is_used_and_not_doubled(server: EmbeddedServer) -> None:
    server.ensure()
    pid = postmaster_of(server)
    server_lock = server.root / "server.lock"
    # As good as started by hand: nobody holds the lock of this new file.
    server_lock.unlink()
    server_lock.touch()
    (server.root / "run" / ".s.PGSQL.5432").rename(server.root / "run" / "away")
    with pytest.raises(EmbeddedServerError, match=r"does not become ready(.|\n)*server stop` ends it"):
        server.ensure(timeout_s=0.3)
    (server.root / "run" / "away").rename(server.root / "run" / ".s.PGSQL.5432")
    server.ensure()
    assert postmaster_of(server) == pid
    assert server.release()


def test_data_of_another_major_version_is_left_alone_and_the_way_out_is_said(server: EmbeddedServer) -> None:
    server.ensure()
    current = (server.root / "data" / "PG_VERSION").read_text().strip()
    server.stop()
    (server.root / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(EmbeddedServerError) as raised:
        server.ensure()
    for words in ("PostgreSQL 12", f"PostgreSQL {current}", "pg_dump", "pg_restore"):
        assert words in str(raised.value)


def test_a_directory_with_other_files_is_not_taken_for_data(server: EmbeddedServer) -> None:
    server.ensure()
    server.stop()
    data = server.root / "data"
    data.rename(data.with_name("data.old"))
    (data / "notes").mkdir(parents=True)
    with pytest.raises(EmbeddedServerError, match="no Postgres cluster"):
        server.ensure()


@pytest.mark.parametrize("left", [None, "", "\0\0"])
def test_need_40_data_that_lost_its_version_is_not_to_be_moved_away(server: EmbeddedServer, left: str | None) -> None:
    """As after a copy that was interrupted, or a power cut. The memory is in it, whatever that one file says."""
    written = ask(server.ensure().admin, KEEP)
    server.stop()
    version = server.root / "data" / "PG_VERSION"
    said = version.read_text()
    version.unlink() if left is None else version.write_text(left)
    with pytest.raises(EmbeddedServerError, match=r"is damaged, .*PG_VERSION.* restore a backup") as raised:
        server.ensure()
    assert "move it away" not in str(raised.value) and "binaries" not in str(raised.value)
    version.write_text(said)
    assert ask(server.ensure().admin, KEPT) == written


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o2770])
def test_need_34_data_from_a_backup_or_a_volume_is_used_whatever_its_mode(server: EmbeddedServer, mode: int) -> None:
    """As a container gets it whose volumes belong to a group: all of it, at each start."""
    written = ask(server.ensure().admin, KEEP)
    server.stop()
    folders = [server.root / "data", server.root / "run"]
    for folder in folders:
        folder.chmod(mode)
    assert ask(server.ensure().admin, KEPT) == written
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]


def test_need_34_data_from_a_backup_without_empty_folders_is_used(server: EmbeddedServer) -> None:
    written = ask(server.ensure().admin, KEEP)
    server.stop()
    empty = [Path(path) for path, folders, names in os.walk(server.root / "data") if not folders and not names]
    assert empty
    for folder in empty:
        folder.rmdir()
    assert ask(server.ensure().admin, KEPT) == written


def test_a_refused_start_fails_at_once_with_the_servers_own_words(make_server: MakeServer) -> None:
    server = make_server(settings={"shared_buffers": "plenty"})
    with pytest.raises(EmbeddedServerError, match=r"ended while starting[\s\S]*server\.log[\s\S]*shared_buffers"):
        server.ensure(timeout_s=600)
    assert not server.running()


def test_the_servers_words_begin_with_a_whole_line(make_server: MakeServer) -> None:
    server = make_server()
    server.ensure()
    server.stop()
    with (server.root / "server.log").open("a") as log:
        log.writelines(f"[line {number} {'x' * 53}]\n" for number in range(200))
    with pytest.raises(EmbeddedServerError) as raised:
        make_server(settings={"shared_buffers": "plenty"}).ensure()
    _, _, quoted = str(raised.value).partition("server.log\n")
    assert quoted.startswith("[line ") and "shared_buffers" in quoted


def test_errors_do_not_quote_what_users_wrote(make_server: MakeServer) -> None:
    server = make_server(settings={"log_min_error_statement": "error", "log_error_verbosity": "default"})
    ready = server.ensure()
    with pytest.raises(Exception, match="invalid input syntax"):
        ask(ready.admin, "SELECT 'my secret\nlasts two lines'::int /* and is here */")
    server.stop()
    assert "my secret" in (server.root / "server.log").read_text()
    with pytest.raises(EmbeddedServerError) as raised:
        make_server(settings={"shared_buffers": "plenty"}).ensure()
    assert "database system is shut down" in str(raised.value)
    for words in ("my secret", "lasts two lines", "and is here"):
        assert words not in str(raised.value)


def test_an_unusable_directory_is_named_with_its_cause(place: Path, make_server: MakeServer) -> None:
    (place / "file").touch()
    with pytest.raises(EmbeddedServerError, match=r"file/pg[\s\S]*(Not a directory|File exists)[\s\S]*`dsn`"):
        make_server(place / "file" / "pg").ensure()
    with pytest.raises(EmbeddedServerError, match=r"/proc/.*(No such file|not permitted|Permission denied)"):
        EmbeddedServer(Path("/proc/no/such")).ensure()
    # Somebody else's, for root as for everyone: it is not empty, and not the unprivileged account's.
    with pytest.raises(EmbeddedServerError, match="belongs to uid 0"):
        EmbeddedServer(Path("/usr/lib")).ensure()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server.cluster import EmbeddedServer
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    EmbeddedServer(Path(sys.argv[1])).ensure()
except EmbeddedServerError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_is_said(new_server: EmbeddedServer) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", FULL_DISK, new_server.root],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert "initdb failed" in done.stdout, done.stderr
    assert "free space on the disk" in done.stdout
    assert "`dsn`" in done.stdout
    # With room again, nothing is in the way.
    assert ask(new_server.ensure().runtime, "SELECT 1") == 1
