"""The frames of HTTP that answers come in, by a server that sends bytes as they are given."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hermes_memory_pgvector.domain.errors import EmbedderUnavailable
from hermes_memory_pgvector.embed.direct_http import DirectHttp
from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from hermes_memory_pgvector.embed.transport import Deadline, TransportError
from tests.support.certificate import make_certificate

BODY = b'{"data": [{"index": 0, "embedding": [0.6, 0.8]}]}'
PACKED = zlib.compress(BODY)
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


class RawServer:
    """Answers each request with the same bytes; closes behind them where told to."""

    def __init__(self, answer: bytes, *, closes: bool, tls: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self._answer, self._closes, self._tls = answer, closes, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}/v1/embeddings"
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        if self._tls is not None:
            taken = self._tls.wrap_socket(taken, server_side=True)
        with taken, taken.makefile("rb") as reader:
            while True:
                length = 0
                while (line := reader.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                if not line:
                    return
                reader.read(length)
                taken.sendall(self._answer)
                if self._closes:
                    return


@pytest.fixture
def asked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    answer, closes = request.param
    server = RawServer(answer, closes=closes)
    yield server
    server.close()


READABLE = {
    "length": (b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY, False, 1),
    "chunks": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n5;x=y\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:])
               + BODY[5:] + b"\r\n0\r\nTrailer: 1\r\n\r\n", False, 1),
    "until it closes": (b"HTTP/1.1 200\r\n\r\n" + BODY, True, 3),
    "closes": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + LENGTH + b"\r\n" + BODY, True, 3),
    "http/1.0": (b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\n" + BODY, True, 3),
    "after a word": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY,
                     False, 1),
    "in two": (b"HTTP/1.1 200 OK\r\nX: a\r\nX: b\r\n" + LENGTH + b"\r\n" + BODY, False, 1),
    "packed": (b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED,
               False, 1),
    "half a next one": (b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY + b"HTTP/1.1 200 OK\r\nContent-", False, 3),
    "longer than its length": (b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY + b" " * 20_000, False, 3),
}  # fmt: skip

UNREADABLE = {
    "no http": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "cannot be read: BadStatusLine: SSH-2.0-OpenSSH_9.6"),
    "no status": (b"HTTP/1.1 cat\r\n\r\n", "cannot be read: BadStatusLine"),
    "no chunk": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\nzz\r\n", "peer closed connection"),
    "cut chunk": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n5\r\nab", "peer closed connection"),
    "cut": (b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY[:9], "peer closed connection"),
    "negative chunk": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n-5\r\n" + BODY, "cannot be read: .*negative length"),
    "chunk of -1": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n-1\r\n" + BODY, "cannot be read: .*negative length"),
    "nothing": (b"", "Server disconnected"),
    "a header without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "cannot be read: LineTooLong"),
    "headers without end": (b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1000, "cannot be read: .*more than 100 headers"),
}


@pytest.mark.parametrize(
    ("asked", "connections"), [((answer, closes), n) for answer, closes, n in READABLE.values()],
    ids=READABLE, indirect=["asked"],
)  # fmt: skip
def test_every_frame_of_an_answer_is_read(asked: RawServer, connections: int) -> None:
    embedder = HttpEmbedder(url=asked.url, model="m", dims=2)
    for number in range(3):
        assert embedder.embed_query(f"question {number}", timeout_s=10) == pytest.approx([0.6, 0.8])
    embedder.close()
    assert asked.connections == connections


@pytest.mark.parametrize(
    ("asked", "message"), [((answer, True), said) for answer, said in UNREADABLE.values()],
    ids=UNREADABLE, indirect=["asked"],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_told(asked: RawServer, message: str) -> None:
    embedder = HttpEmbedder(url=asked.url, model="m", dims=2)
    with pytest.raises(EmbedderUnavailable, match=message):
        embedder.embed_query("question", timeout_s=10)
    embedder.close()


def test_an_answer_that_waits_within_tls_is_nobodys(tmp_path: Path) -> None:
    """A record of TLS holds twice what is read at once: of what is left in it the system tells nothing."""
    padded = b"HTTP/1.1 200 OK\r\nContent-Length: 8151\r\n\r\n" + BODY.ljust(8151)
    assert len(padded) == 8192
    other = b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY.replace(b"[0.6, 0.8]", b"[0.8, 0.6]")
    trusted, tls = make_certificate(tmp_path)
    server = RawServer(padded + other, closes=False, tls=tls)
    embedder = HttpEmbedder(url=server.url, model="m", dims=2, ca_file=str(trusted))
    for number in range(3):
        assert embedder.embed_query(f"question {number}", timeout_s=10) == pytest.approx([0.6, 0.8])
    embedder.close()
    server.close()
    assert server.connections == 3


class _Listening:
    """Takes one connection with TLS, and keeps what comes over it as it comes: in the clear or not."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = bytearray()
        self._tls = tls
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        taken, _ = self.listener.accept()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        spoken = self._tls.wrap_bio(incoming, outgoing, server_side=True)
        shaken = False
        while data := taken.recv(65536):
            self.heard += data
            incoming.write(data)
            if not shaken:
                try:
                    spoken.do_handshake()
                    shaken = True
                except ssl.SSLWantReadError:
                    pass
                taken.sendall(outgoing.read())
        taken.close()

    def end(self) -> None:
        self._thread.join(60)
        self.listener.close()


def test_closing_never_has_a_request_written_in_the_clear(tmp_path: Path) -> None:
    """A request is about to be written when another thread closes, and is stopped right before the system is told."""
    trusted, tls = make_certificate(tmp_path)
    server = _Listening(tls)
    transport = DirectHttp(ssl.create_default_context(cafile=trusted))
    about_to_write, closing, written = threading.Event(), threading.Event(), threading.Event()

    def at_the_write(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "sendall" and not about_to_write.is_set():
            about_to_write.set()
            assert closing.wait(60)
        elif event == "return" and frame.f_code.co_name == "sendall":
            written.set()

    def at_the_shutdown(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ == "shutdown" and not closing.is_set():
            closing.set()
            assert written.wait(60)

    def ask() -> None:
        sys.setprofile(at_the_write)
        try:
            with pytest.raises(TransportError), transport.answer(
                f"https://127.0.0.1:{server.port}/v1", b"{}", {"Authorization": "Bearer secret"}, Deadline.after(60)
            ) as reply:  # fmt: skip
                list(reply.chunks)
        finally:
            sys.setprofile(None)

    def close() -> None:
        sys.setprofile(at_the_shutdown)
        transport.close()
        sys.setprofile(None)

    asking, closer = threading.Thread(target=ask), threading.Thread(target=close)
    asking.start()
    assert about_to_write.wait(60)
    closer.start()
    assert closing.wait(60)
    asking.join(60)
    closer.join(60)
    server.end()
    assert not asking.is_alive()
    assert b"secret" not in server.heard
