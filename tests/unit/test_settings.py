"""Settings: defaults, coercion, what is warned about, and that no password is ever shown."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import string
import time
from urllib.parse import quote

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.config.loading import load
from hermes_memory_pgvector.config.settings import FIELDS, KNOWN_ENV, Settings
from hermes_memory_pgvector.domain.errors import StoreMisconfigured
from hermes_memory_pgvector.domain.redaction import mask_dsn, mask_places
from hermes_memory_pgvector.store.connection import check_conninfo

PASSWORD = "s3cr3t-Pässwört"
DSN = f"postgresql://hermes:{PASSWORD}@db.example/memory"

_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5) | st.dates()
)
_yaml = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
_sections = st.dictionaries(st.sampled_from([field.key for field in FIELDS]) | st.text(max_size=12), _yaml, max_size=8)


def test_defaults_are_those_of_the_reference() -> None:
    settings, warnings = load(None, {})
    assert warnings == ()
    assert settings == Settings()
    assert (settings.dsn, settings.embed_url, settings.embed_model) == ("", "", "nomic-embed-text")
    assert (settings.prefetch_limit, settings.min_similarity, settings.embed_on_write) == (5, "auto", True)
    assert (settings.scope_default, settings.write_queue_maxsize, settings.turn_min_chars) == ("current", 256, 40)
    assert (settings.bulk_sync_on_init, settings.sync_turns) == (True, True)


def test_the_table_describes_every_setting_once() -> None:
    assert [field.key for field in FIELDS] == [item.name for item in dataclasses.fields(Settings)]
    for field in FIELDS:
        assert field.doc and "\n" not in field.doc
        assert field.env == "HERMES_PGVECTOR_" + field.key.upper()
        assert field.env not in KNOWN_ENV
        assert field.kind in (str, int, float, bool, tuple)
        assert getattr(Settings(), field.key) == field.default
        # Every default passes its own check.
        assert load({field.key: field.default}, {}) == (Settings(), ())


def test_equal_settings_are_one_key() -> None:
    one = load({"dsn": "host=a", "write_contexts": ["primary", "cron"]}, {}).settings
    other = load({"write_contexts": "primary, cron", "dsn": " host=a "}, {}).settings
    assert {one: "runtime"}[other] == "runtime"


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("prefetch_limit", "5", 5),
        ("prefetch_limit", " 7 ", 7),
        ("prefetch_limit", 5.0, 5),
        ("prefetch_limit", "5.0", 5),
        ("min_similarity", 1, 1.0),
        ("min_similarity", "-0.5", -0.5),
        ("min_similarity", 0.3, 0.3),
        ("min_similarity", " Auto ", "auto"),
        ("sync_turns", "false", False),
        ("sync_turns", "Yes", True),
        ("sync_turns", 0, False),
        ("scope_default", " ALL ", "all"),
        ("embed_model", 4711, "4711"),
        ("write_contexts", "primary, cron,", ("primary", "cron")),
        ("write_contexts", [], ()),
        ("dsn", None, ""),
    ],
)
def test_unambiguous_values_are_taken(key: str, raw: object, value: object) -> None:
    settings, warnings = load({key: raw}, {})
    assert warnings == ()
    assert getattr(settings, key) == value
    assert type(getattr(settings, key)) is type(value)


@pytest.mark.parametrize(
    ("key", "raw"),
    [
        ("prefetch_limit", -1),
        ("prefetch_limit", 10**9),
        ("prefetch_limit", "abc"),
        ("prefetch_limit", 2.5),
        ("prefetch_limit", True),
        pytest.param("prefetch_limit", 10**5000, id="huge-int"),
        ("prefetch_limit", "9" * 5000),
        ("prefetch_limit", datetime.date(2024, 1, 1)),
        ("dims", 2001),
        ("min_similarity", math.nan),
        ("min_similarity", "inf"),
        ("min_similarity", "automatic"),
        ("prefetch_limit", "auto"),
        ("min_similarity", 10**400),
        ("embed_timeout_s", math.inf),
        ("sync_turns", "maybe"),
        ("sync_turns", 2),
        ("scope_default", "everywhere"),
        ("embed_model", ["a"]),
        ("embed_model", False),
        pytest.param("embed_model", 10**5000, id="huge-text"),
        ("default_theme", "a\0b"),
        ("default_theme", "\udcff"),
        ("write_contexts", {"primary": True}),
        ("write_contexts", [None]),
        ("embed_api_key_env", "sk-1234"),
    ],
)
def test_unusable_values_leave_the_default_and_one_warning(key: str, raw: object) -> None:
    settings, warnings = load({key: raw}, {})
    assert settings == Settings()
    (warning,) = warnings
    assert f"plugins.pgvector.{key}: expected " in warning
    (field,) = [each for each in FIELDS if each.key == key]
    assert warning.endswith(f"using the default {field.shown_default or '(empty)'}")
    assert len(warning) < 300


def test_what_is_used_instead_is_told_as_it_would_be_written() -> None:
    _, warnings = load({"read_max_lag_s": "x", "sync_turns": "x", "write_contexts": {}, "dsn": [1]}, {})
    assert [warning.rpartition("; ")[2] for warning in sorted(warnings)] == [
        "it names no database", "using the default 10", "using the default true", "using the default primary",
    ]  # fmt: skip


@pytest.mark.parametrize("section", [[], ["dsn"], "dsn=x", 5, True, datetime.date(2024, 1, 1)])
def test_a_section_that_is_no_mapping_is_one_warning(section: object) -> None:
    settings, warnings = load(section, {})
    assert settings == Settings()
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("prefetch_limt", "prefetch_limit"), ("Min-Similarity", "min_similarity"), ("embed_mode", "embed_model")],
)
def test_an_unknown_key_is_one_warning_that_names_the_nearest(key: str, nearest: str) -> None:
    settings, warnings = load({key: 3, "prefetch_limit": 2}, {})
    assert settings.prefetch_limit == 2
    (warning,) = warnings
    assert repr(key) in warning and f"did you mean {nearest}?" in warning


@pytest.mark.parametrize(("key", "said"), [("hybrid_search", "by meaning and by words"), ("xyzzy", "no setting has a")])
def test_a_name_unlike_any_setting_is_not_compared_with_one(key: str, said: str) -> None:
    (warning,) = load({key: True}, {}).warnings
    assert said in warning and "did you mean" not in warning


def test_trap_12_odd_values_do_not_turn_memory_off() -> None:
    section = {"allowed_themes": [1, 2], "write_queue_maxsize": math.inf, "sync_turns": True, 7: "x"}
    settings, warnings = load(section, {})
    assert settings == Settings(allowed_themes=("1", "2"))
    assert len(warnings) == 2


@pytest.mark.parametrize("raw", [{"mktg": "marketing", "hr": 7}, ["mktg=marketing", "hr=7"], "mktg=marketing, hr=7"])
def test_aliases_are_a_mapping_or_a_list(raw: object) -> None:
    settings, warnings = load({"theme_aliases": raw}, {})
    assert warnings == ()
    assert settings.theme_aliases == ("mktg=marketing", "hr=7")


def test_off_is_an_empty_list() -> None:
    settings, warnings = load({"cross_theme": False, "write_contexts": False}, {})
    assert warnings == ()
    assert settings.cross_theme == settings.write_contexts == ()


def test_one_bad_pattern_leaves_the_others_in_use() -> None:
    settings, warnings = load({"mask_patterns": [r"CUST-\d{4}", "(a+)+$", r"PO-[0-9]{3,5}"]}, {})
    assert settings.mask_patterns == (r"CUST-\d{4}", r"PO-[0-9]{3,5}")
    (warning,) = warnings
    assert "number 2" in warning and "too slow" in warning and "using the others" in warning


def test_one_pattern_may_hold_commas() -> None:
    assert load({"mask_patterns": "PO-[0-9]{3,5}"}, {}).settings.mask_patterns == ("PO-[0-9]{3,5}",)


def test_no_representation_shows_the_identity_key() -> None:
    assert "hunter2" not in repr(Settings(identity_key="hunter2"))


def test_the_environment_wins_over_the_file() -> None:
    environ = {"HERMES_PGVECTOR_PREFETCH_LIMIT": "9", "HERMES_PGVECTOR_DSN": "", "PATH": "/bin"}
    settings, warnings = load({"prefetch_limit": 2, "dsn": "host=a"}, environ)
    assert warnings == ()
    assert (settings.prefetch_limit, settings.dsn) == (9, "host=a")


def test_a_variable_that_is_not_set_stands_as_it_is_written_and_is_told_without_its_text() -> None:
    section = {
        "dsn": f"host=${{HOST}} password=${{{PASSWORD}}}",
        "default_theme": "${THEME}",
        "mask_patterns": ["[${HOST}]+"],
    }
    settings, warnings = load(section, {"HOST": "db", "THEME": "sales"})
    assert settings.dsn == f"host=db password=${{{PASSWORD}}}" and settings.default_theme == "sales"
    assert settings.mask_patterns == ("[${HOST}]+",)
    (warning,) = warnings
    assert "plugins.pgvector.dsn" in warning and "not set" in warning and PASSWORD not in warning


def test_an_unusable_environment_value_leaves_the_file_s() -> None:
    settings, warnings = load({"dims": 384}, {"HERMES_PGVECTOR_DIMS": "many"})
    assert settings.dims == 384
    (warning,) = warnings
    assert warning.startswith("HERMES_PGVECTOR_DIMS: expected an integer from 1 to 2,000, got 'many'")
    assert "what the file says" in warning


def test_variables_that_commands_read_are_not_unknown() -> None:
    environ = {f"HERMES_PGVECTOR_{name}": "x" for name in ("ADMIN_DSN", "SOURCE_DSN", "TARGET_DSN", "DEBUG")}
    assert load({}, environ)[1] == ()


def test_unknown_environment_names_are_warned_about() -> None:
    environ = {"HERMES_PGVECTOR_EMBED_API_KEY": "k", "HERMES_PGVECTOR_DNS": "host=a", "HERMES_PGVECTOR_MY_KEY": "k"}
    settings, warnings = load({"embed_api_key_env": "HERMES_PGVECTOR_MY_KEY"}, environ)
    assert settings.dsn == ""
    (warning,) = warnings
    assert "HERMES_PGVECTOR_DNS" in warning and "did you mean HERMES_PGVECTOR_DSN?" in warning


@hypothesis.settings(deadline=None)
@given(_sections | _yaml, st.dictionaries(st.text(max_size=8).map("HERMES_PGVECTOR_".__add__), st.text(max_size=8)))
def test_load_never_raises_and_warns_printably(section: object, environ: dict[str, str]) -> None:
    settings, warnings = load(section, environ)
    hash(settings)
    for warning in warnings:
        warning.encode()
        assert warning.isprintable()


def test_load_is_fast_enough_for_every_request() -> None:
    section = {field.key: field.default for field in FIELDS} | {"prefetch_limt": 3}
    environ = {f"VARIABLE_{number}": "x" for number in range(100)}
    load(section, environ)
    best = min(_cpu_s(section, environ) for _ in range(50))
    assert best < 5e-3


def _cpu_s(section: object, environ: dict[str, str]) -> float:
    started = time.thread_time()
    load(section, environ)
    return time.thread_time() - started


def test_no_representation_shows_the_password() -> None:
    settings = Settings(dsn=DSN, embed_url="http://user:hunter2@embed.example")
    for shown in (repr(settings), str(settings), f"{settings}"):
        assert PASSWORD not in shown and "hunter2" not in shown
        assert "hermes:***@db.example" in shown


@pytest.mark.parametrize(
    ("section", "environ"),
    [
        ({"dsn": [DSN]}, {}),
        ({"dsn": DSN + "\0"}, {}),
        ({"dns": DSN}, {}),
        ({DSN: 1}, {}),
        (DSN, {}),
        ([DSN], {}),
        ({"scope_default": DSN, "dims": DSN, "sync_turns": DSN}, {}),
        ({"embed_api_key_env": PASSWORD}, {}),
        (None, {"HERMES_PGVECTOR_DIMS": DSN, "HERMES_PGVECTOR_NO_SUCH": DSN}),
    ],
)
def test_no_warning_shows_the_password(section: object, environ: dict[str, str]) -> None:
    _, warnings = load(section, environ)
    assert warnings
    assert "s3cr3t" not in " ".join(warnings)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://u:pw@h:5432/db?sslmode=require", "postgresql://u:***@h:5432/db?sslmode=require"),
        ("postgres://u:p@ss/w:rd@h/db", "postgres://u:***@h/db"),
        ("postgres://u:two words@h/db", "postgres://u:***@h/db"),
        ("at postgres://u:two wo/rds@h/db, it says", "at postgres://u:***@h/db, it says"),
        ("postgres://h:5432/db, said a@example.com", "postgres://h:5432/db, said a@example.com"),
        ("postgresql:///db?user=u&password=pw&host=/run", "postgresql:///db?user=u&password=***&host=/run"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("host=h password=pw dbname=d", "host=h password=*** dbname=d"),
        ("host=h password = 'a \\' b' dbname=d", "host=h password = *** dbname=d"),
        ("host=h password=a\\ b dbname=d", "host=h password=*** dbname=d"),
        ("sslpassword=x user=u", "sslpassword=*** user=u"),
        ("PGPASSWORD=x psql", "PGPASSWORD=*** psql"),
        ("{'user': 'u', 'password': 'p w'}", "{'user': 'u', 'password': ***}"),
        ("connect to 'postgresql://u:pw@h/d' failed", "connect to 'postgresql://u:***@h/d' failed"),
        (repr("user=u password='p\\'w x' host=h"), '"user=u password=*** host=h"'),
        ('FATAL: password authentication failed for user "u"', 'FATAL: password authentication failed for user "u"'),
        ("dbname=d user=u host=/var/run/postgresql", "dbname=d user=u host=/var/run/postgresql"),
        ("", ""),
    ],
)
def test_mask_dsn(text: str, masked: str) -> None:
    assert mask_dsn(text) == masked


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'connection to server at "db.example" (10.0.0.5), port 5432 failed: Connection refused; start it there',
            'connection to server at "***" failed: Connection refused; start it there',
        ),
        ('connection to server on socket "/srv/.s.PGSQL.1" failed: ', 'connection to server on socket "***" failed: '),
        (
            'no pg_hba.conf entry for host "10.0.0.6", user "a b", database "d", no encryption',
            'no pg_hba.conf entry for host "***", user "***", database "***", no encryption',
        ),
        ("failed to resolve host 'db.example': [Errno -2]", 'failed to resolve host "***": [Errno -2]'),
        ("FATAL:  no such database: ledger; check `dsn`", "FATAL:  no such database: ***; check `dsn`"),
        ('definition of service "ledger" not found', 'definition of service "***" not found'),
        ('relation "memory_entries" does not exist', 'relation "memory_entries" does not exist'),
        ("`role` must be one of user, assistant", "`role` must be one of user, assistant"),
    ],
)
def test_a_client_is_not_told_where_the_database_is(said: str, told: str) -> None:
    assert mask_places(said) == told


_passwords = st.text(string.ascii_letters + string.digits + string.punctuation + " ü漢", min_size=1, max_size=12)


@hypothesis.settings(deadline=None)
@given(
    _passwords, st.sampled_from(["", "error: ", "could not use '", "{"]), st.sampled_from(["", "'", " failed", "\n"])
)
def test_mask_dsn_hides_any_password(password: str, before: str, after: str) -> None:
    password = f"QZ{password}ZQ"
    escaped = password.replace("\\", "\\\\").replace("'", "\\'")
    for dsn in (
        f"postgresql://u:{quote(password, safe='')}@h/d",
        f"postgresql://h/d?password={quote(password, safe='')}",
        f"host=h password='{escaped}' user=u",
        "host=h password={} user=u".format(escaped.replace(" ", "\\ ")),
    ):
        for text in (before + dsn + after, repr(dsn), json.dumps({"dsn": dsn}), repr({"error": repr(dsn)})):
            shown = mask_dsn(text)
            assert "QZ" not in shown and "ZQ" not in shown
            assert "h" in shown


# As they are pasted in a hurry: libpq reads none of them, and quotes what it stumbles over.
UNREADABLE = (
    "u:{}@h/d", "//u:{}@h/d", "postgresql:/u:{}@h/d", "postgresql+psycopg://u:{}@h/d", "jdbc:postgresql://u:{}@h/d",
    "password:{} host=h", "password: {}", "postgresql://u:{}", "postgresql://u:{}/d", "host=h;password={}",
    "host=h sslpassword:{} dbname=d", "host=h passwd={} dbname=d",
)  # fmt: skip


@pytest.mark.parametrize("form", UNREADABLE)
@pytest.mark.parametrize("sign", ["", "%", "?", "=", "'", '"', ":", "/", "&", "#"])
def test_a_string_that_cannot_be_read_shows_its_password_nowhere(form: str, sign: str) -> None:
    dsn = form.format(f"QZsecret{sign}secretZQ")
    assert "QZsecret" not in mask_dsn(dsn) and "secretZQ" not in mask_dsn(dsn)
    try:
        check_conninfo(dsn)
    except StoreMisconfigured as refused:
        assert "QZsecret" not in str(refused) and "secretZQ" not in str(refused)


@pytest.mark.parametrize("password", ["qz@xy", "qz/xy", "71/93", "qz@x/y:z", "qz@x@y"])
def test_need_22_a_password_that_libpq_would_cut_is_refused_before_a_piece_of_it_is_told(password: str) -> None:
    for dsn in (f"postgresql://u:{password}@db.example:5432/d", f"postgres://u:{password}@%2Frun/d?sslmode=require"):
        with pytest.raises(StoreMisconfigured, match="write @ as %40, / as %2F") as refused:
            check_conninfo(dsn)
        assert all(piece not in str(refused.value) for piece in ("qz", "xy", "71", "93", "x@", "y:z"))


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:p%40ss%2Fw@h/d", "postgresql://u@[::1]:5432/d", "postgresql:///d?host=/run/a@b&user=u@c",
        "postgresql://u:p:q#r@h1,h2:5433/d?application_name=b@c", "host=@abstract dbname=d", "host=h password=p@s/s",
        "service=a@b",
    ],
)  # fmt: skip
def test_a_string_with_its_signs_in_their_places_is_read(dsn: str) -> None:
    check_conninfo(dsn)


@pytest.mark.parametrize("option", ["pasword", "hots"])
def test_a_misspelt_option_is_named(option: str) -> None:
    with pytest.raises(StoreMisconfigured, match=f'"{option}"'):
        check_conninfo(f"dbname=d password=QZsecret {option}=x")
    with pytest.raises(StoreMisconfigured, match=f'"{option}"'):
        check_conninfo(f"postgresql://u:QZsecret@h/d?{option}=x")


@pytest.mark.parametrize(
    "plain", ["postgresql://h:5432/d", "postgresql://h:5432", "postgresql://a:1,b:2/d", "postgresql://[::1]:5432/d"]
)
def test_where_there_is_no_password_nothing_is_hidden(plain: str) -> None:
    assert mask_dsn(plain) == plain
    assert mask_dsn(f"cannot reach {plain}, it says") == f"cannot reach {plain}, it says"


def test_mask_dsn_hides_fragments_that_libpq_quotes() -> None:
    assert mask_dsn('missing "=" after "secret"', "dbname=d password=my secret") == 'missing "=" after "***"'
    assert "s3cr3t" not in mask_dsn('invalid integer value "s3cr3t" for port', "postgresql://u:s3cr3t/x@h/d")
