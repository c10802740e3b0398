"""The frames of HTTP that answers come in, by a server that sends bytes as they are given."""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Iterator

import pytest

from hermes_memory_pgvector.domain.errors import EmbedderUnavailable
from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder

BODY = b'{"data": [{"index": 0, "embedding": [0.6, 0.8]}]}'
PACKED = zlib.compress(BODY)
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


class RawServer:
    """Answers each request with the same bytes; closes behind them where told to."""

    def __init__(self, answer: bytes, *, closes: bool) -> None:
        self.connections = 0
        self._answer, self._closes = answer, closes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/embeddings"
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
}  # fmt: skip

UNREADABLE = {
    "no http": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "cannot be read: BadStatusLine: SSH-2.0-OpenSSH_9.6"),
    "no status": (b"HTTP/1.1 cat\r\n\r\n", "cannot be read: BadStatusLine"),
    "no chunk": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\nzz\r\n", "peer closed connection"),
    "cut chunk": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n5\r\nab", "peer closed connection"),
    "cut": (b"HTTP/1.1 200 OK\r\n" + LENGTH + b"\r\n" + BODY[:9], "peer closed connection"),
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
