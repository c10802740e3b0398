"""Inputs to begin with: one of each shape, for the fuzzer to vary."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from .spools import whole

_HEADER = (
    b'{"format":"hermes-memory-pgvector","version":1,"made_at":"2026-05-03T10:00:00+00:00","made_by":"1.0.0",'
    b'"model":"m","dims":2,"document_prefix":"","query_prefix":"","vectors":true,"themes":null,"since":null,"until":null}'
)
_ROWS = (
    b'{"store":"memories","theme":"sales","target":"memory","content":"Ada","created_at":"2026-05-03T10:00:00+00:00",'
    b'"updated_at":"2026-05-03T10:00:00+00:00","metadata":{"a":1},"embedding":"AACAPwAAAAA=","parts":[[5,"AACAPwAAAAA="]]}',
    b'{"store":"turns","theme":"sales","session_id":"s","role":"user","content":"Hi","ts":"2026-05-03T10:00:00Z"}',
    b'{"store":"removed","theme":"sales","target":"user","sha256":"'
    + b"0f" * 32
    + b'","removed_at":"2026-05-03T10:00:00Z"}',
)


def _facts() -> bytes:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder, "facts.db")
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute(
                "CREATE TABLE facts (fact_id INTEGER PRIMARY KEY, content TEXT, category TEXT, tags TEXT,"
                " trust_score REAL, created_at TEXT, updated_at TEXT)"
            )
            conn.execute("INSERT INTO facts VALUES (1, 'Ada', 'user_pref', 'a', 0.5, '2026-05-03 10:00:00', '2026')")
        return path.read_bytes()


SEEDS: dict[str, tuple[bytes, ...]] = {
    "theme": (
        b"agent:main:telegram:dm:491701234567\x1ftelegram\x1fops\x1fhermes\x1fdefault\x1fintraday-*\x1fkey",
        b"Intraday-Live\x1fapi_server",
        b"\x1fcli\x1f@ops\x1f\x1f\x1f",
        "@e\u0301.x+y@example.com +49 170 1234567 \u0130\u00df\x1f".encode(),
    ),
    "text": (
        b"<memory-context>old</memory-context> ok, the password=hunter22! is AKIAABCDEFGHIJKLMNOP\x1fwhich key?",
        b"[System note: x]\n\nWhat is the port of staging?\x1fport",
        b"postgresql://u:p@ss@host/db token: 'abc1234' bearer abcdefgh12345678",
        "会議は五月三日です。".encode() * 20 + b"\x1f" + "会議".encode(),
        b"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    ),
    "dates": (b"2026-05-03T14:00+02:00", b"2026-W18", b"7d", b"2 weeks ago", b"on 13 October 2023, in May, last week"),
    "config": (
        b"yaml\nplugins:\n  pgvector:\n    dsn: host=a\n    dims: 8\n    allowed_themes: [a]\n    retention: {a: 30}\n",
        b'json\n{"mask_patterns": ["a+b"], "min_similarity": "auto", "theme_aliases": {"a": "b"}, "pooler": "auto"}',
        b"env\nHERMES_PGVECTOR_DIMS=384\nexport HERMES_PGVECTOR_DSN='host=a'\n",
    ),
    "dsn": (b"host=x user=y\x1fs3cretpw", b"postgresql://u:%40@h/d?sslpassword=x\x1fabc123def"),
    "arguments": (
        b'recall_memory\n{"query":"a","scope":"theme:x","limit":5,"since":"7d","until":"2026-05-03","target":"user"}',
        b'recall_conversation\n{"query":["a"],"role":"user","offset":"3","explain":true,"theme":"b"}',
        b'remember\n{"content":"Ada owns port 5432","target":"memory","metadata":{"a":[1,null]},"sync":true}',
        b'forget\n{"ids":[1,2],"confirm":"x","query":"a","limit":3}',
        b'memory_profile\n{"max_tokens":300,"target":"user"}',
    ),
    "metadata": (
        b'{"user_id":"1","a":{"b":[1.5,null,true,"x\\ud800\\u0000"]},"text":[{"type":"image"}]}',
        b"[NaN,1e999]",
    ),
    "spool": (b"", whole(), b"\x00\x01\x00\x00\x40\xff", b"\x00\x08\x00\x00\x00\x00", b"\x00\x04\x00\x00\x0a\x20"),
    "export": (b"\n".join((_HEADER, *_ROWS, b'{"end":true,"memories":1,"sha256":"00"}')), *_ROWS),
    "foreign": (
        _facts(),
        b'{"mode":"oss","oss":{"vector_store":{"provider":"qdrant","config":{"path":"/x","collection_name":"mem0"}}}}',
        b'{"mode":"oss","oss":{"vector_store":{"provider":"pgvector","config":{"host":"a","password":"b c"}}}}',
    ),
}
