"""Secrets in a text: the shapes that are known, what is left alone, and that no text makes it slow."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.domain.redaction import PATTERN_MAX_CHARS, Masker, masker, pattern_problem

MASKER = Masker()
BODY = "a1B2c3D4e5F6g7H8i9J0"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow" + "IBAAKCAQEA\n" * 20 + "-----END RSA PRIVATE KEY-----"

# A text with a secret, and the secret. Put together from parts, so that no scanner takes them for real ones.
SECRETS = [
    ("AK" + "IAIOSFODNN7EXAMPLE", None),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("AI" + "za" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", None),
    ("ya29." + BODY, None),
    ("GOC" + "SPX-" + BODY, None),
    ("AccountName=x;AccountKey=" + BODY * 4 + "==;EndpointSuffix=y", BODY * 4),
    ("https://x.blob.core.windows.net/c?sv=1&sig=" + BODY + "%3D", BODY),
    ("abc8Q~" + BODY + BODY, "8Q~" + BODY),
    ("gh" + "p_" + BODY * 2, None),
    ("github" + "_pat_" + BODY * 2, None),
    ("gl" + "pat-" + BODY, None),
    ("xo" + "xb-123456789012-" + BODY, None),
    ("https://hooks.slack.com/services/T000/B000/" + BODY, BODY),
    ("sk" + "_live_" + BODY, None),
    ("wh" + "sec_" + BODY, None),
    ("sk-" + "proj-" + BODY * 2, None),
    ("sk-" + "ant-api03-" + BODY, None),
    ("h" + "f_" + BODY * 2, None),
    ("np" + "m_" + BODY * 2, None),
    ("py" + "pi-Ag" + BODY * 3, None),
    ("S" + "G." + BODY + "." + BODY, None),
    ("1234567890" + ":AA" + "abcdefghijklmnopqrstuvwxyz0123456", "abcdefghijklmnopqrstuvwxyz0123456"),
    ("ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + BODY, None),
    ("Authorization: Bearer " + BODY, BODY),
    ("curl -H 'Authorization: Basic dXNlcjpodW50ZXIy'", "dXNlcjpodW50ZXIy"),
    (PEM, None),
    (PEM.replace("\n", "\\n"), None),
    ("postgresql://hermes:hunter2@db.example/memory", "hunter2"),
    ("postgres://u:p@ss/w:rd@h/db", "p@ss/w:rd"),
    ("redis://:hunter2@cache:6379/0", "hunter2"),
    ("host=h password=hunter2 dbname=d", "hunter2"),
    ("host=h password='two words' dbname=d", "two words"),
    ("Server=x;User Id=z;Password=Sup3r;Encrypt=1", "Sup3r"),
    ("PGPASSWORD=hunter2 psql", "hunter2"),
    ('{"password": "hunter2"}', "hunter2"),
    ('{\\"password\\":\\"hunter2\\"}', "hunter2"),
    ("Password: hunter2", "hunter2"),
    ("the password is hunter2.", "hunter2"),
    ("passphrase = correct-horse", "correct-horse"),
    ("api_key=abcdefgh", "abcdefgh"),
    ("api key: abcd1234efgh", "abcd1234efgh"),
    ('"client_secret": "abcdefgh"', "abcdefgh"),
    ("export SECRET_KEY=abc123def", "abc123def"),
    ("password=ab&cd;ef", "ab&cd;ef"),
    ("\u0130\u0130 password=hunter2", "hunter2"),
    ("hp" + "g_" + BODY + "-" + BODY + "_x", None),  # our own, of `mcp token add`
    ("HERMES_PGVECTOR_IDENTITY_KEY=correct-horse", "correct-horse"),
    ("API_SERVER_KEY=change-me-local", "change-me-local"),
    ("ENCRYPTION_KEY: 'a1b2c3d4'", "a1b2c3d4"),
    ("DB_PASS=hunter22", "hunter22"),
    ("psql --password hunter22", "hunter22"),
    ("deploy --api-key=" + BODY, BODY),
    ("curl -s -u bob:hunter22 https://example.com", "hunter22"),
    ("sshpass -p hunter22 ssh db", "hunter22"),
    ("db.example:5432:memory:hermes:hunter2", "hunter2"),
    ("mysql -h db -u root -phunter22 shop", "hunter22"),
    ("mysqldump -u root -p'hunter22' shop", "hunter22"),
    ("mariadb-admin -phunter22 ping", "hunter22"),
    ("redis-cli -h cache -a hunter22 ping", "hunter22"),
    ("MTE" + "yMzQ1Njc4OTAxMjM0NTY3OA" + ".Gk3x_Q." + BODY + "abcdefgh", None),
    ("S" + "K0123456789abcdef0123456789abcdef", None),
    ("Authorization: token " + BODY, BODY),
    ("Cookie: theme=dark; session=" + BODY, BODY),
    ('{"auths": {"r.example": {"auth": "' + BODY + '"}}}', BODY),
    ("https://maps.example/api?q=x&key=" + BODY, BODY),
    ("https://discord.com/api/webhooks/123456789012345678/" + BODY * 3, BODY * 3),
    ("the api key is " + BODY, BODY),
    ('{"password": "hunter\\"2222"}', "2222"),
    ("Passwort: geheim123", "geheim123"),
    ("mot de passe : secret123", "secret123"),
    ("\u5bc6\u7801\uff1ahunter22", "hunter22"),
    ("\u043f\u0430\u0440\u043e\u043b\u044c: hunter22", "hunter22"),
    ("gl" + "agent-" + BODY * 2, None),
    ("xo" + "xd-" + BODY, None),
    ("shp" + "at_" + "0123456789abcdef" * 2, None),
    ("dckr" + "_pat_" + BODY + "-x", None),
    ("lin" + "_api_" + BODY * 2, None),
    ("nt" + "n_" + BODY * 2, None),
    ("hv" + "s." + BODY * 4, None),
    ("tskey" + "-auth-" + BODY, None),
    ("PMA" + "K-" + BODY + "-" + BODY, None),
    ("tvl" + "y-dev-" + BODY * 2, None),
    ("nv" + "api-" + BODY * 3, None),
    ("ATATT" + "3xFfGF0" + BODY * 5, None),
    ("pat" + "-na1-01234567-89ab-cdef-0123-456789abcdef", None),
    ("1/" + "/0" + BODY * 3, None),
    ("FIRST_PASS=12345ab", "12345ab"),
    ("DB_PASS = 12345", "12345"),
    ("**Password:** hunter22", "hunter22"),
    ("- **password**: **hunter22**", "hunter22"),
    ("`password`: `hunter22`", "hunter22"),
    ("__API key:__ `" + BODY + "`", BODY),
    ("| user | bob |\n| password | hunter22 |", "hunter22"),
    ("<password>hunter22</password>", "hunter22"),
    ('<add key="Password" value="hunter22" />', "hunter22"),
    ("- name: DB_PASSWORD\n          value: hunter22", "hunter22"),
    ('{"name": "DB_PASSWORD", "value": "hunter22"}', "hunter22"),
    ('{"password" :\n        "hunter22"}', "hunter22"),
    ("password     = hunter22", "hunter22"),
    ("password:         hunter22", "hunter22"),
    ("password:hunter22", "hunter22"),
    ("password\uff1ahunter22", "hunter22"),
    ("password -> hunter22", "hunter22"),
    ("Password - hunter22", "hunter22"),
    ("the password for the staging database is hunter22", "hunter22"),
    ("CREATE ROLE bob LOGIN PASSWORD 'correct-horse'", "correct-horse"),
    ("CREATE USER bob IDENTIFIED BY 'correct horse'", "correct horse"),
    ("das Passwort ist hunter22", "hunter22"),
    ("das Passwort f\u00fcr das WLAN ist hunter22", "hunter22"),
    ("la contrase\u00f1a del wifi es hunter22", "hunter22"),
    ("le mot de passe de la box est hunter22", "hunter22"),
    ("a senha do wifi da casa \u00e9 hunter22", "hunter22"),
    ("la password del router \u00e8 hunter22", "hunter22"),
    ("\u5bc6\u7801\u662fhunter22", "hunter22"),
    ("has\u0142o: hunter22", "hunter22"),
    ("gpg --passphrase hunter22", "hunter22"),
    ("docker login -u bob -p hunter22", "hunter22"),
    ("aws configure set aws_secret_access_key " + BODY, BODY),
    ("{'Cookie': 'session=" + BODY + "'}", BODY),
    ("https://" + BODY + "@git.example/r.git", BODY),
    ("secret_key_base: " + BODY, BODY),
    ('{"db": {"user": "bob", "pass": "hunter22"}}', "hunter22"),
    ('{\\"pass\\":\\"hunter22\\"}', "hunter22"),
    ("PW: hunter22", "hunter22"),
    ("pw = hunter22", "hunter22"),
    ("The password is: hunter22", "hunter22"),
    ("The password for the router is: hunter22", "hunter22"),
    ("password: |\n  hunter22\nuser: bob", "hunter22"),
    ("password: >-\n    hunter22", "hunter22"),
    ('password = """hunter22"""', "hunter22"),
    ("Username\nbob\nPassword\nhunter22\nURL\nhttps://example.com", "hunter22"),
    ("mongosh -u bob -p hunter22 --port 27017", "hunter22"),
    ("ldapsearch -x -D cn=admin -w hunter22 -b dc=example", "hunter22"),
    ("openssl rsa -in key.pem -passin pass:hunter22", "hunter22"),
    ("openssl enc -aes256 -pass pass:hunter22", "hunter22"),
    ("seed phrase: " + "legal winner thank year wave sausage worth useful " * 2 + "legal " * 7 + "title", "sausage"),
    ("mnemonic: legal winner thank year wave sausage worth useful legal winner thank yellow is mine", "yellow"),
    ("machine db.example login bob password hunter22", "hunter22"),
    ("https://db.example/login?user=bob&pass=hunter22", "hunter22"),
    ('password := "hunter22"', "hunter22"),
    ("the password is now hunter22", "hunter22"),
    ("The password has been changed to hunter22.", "hunter22"),
    ("password reset to: hunter22", "hunter22"),
    ("la password \u00e8 hunter22", "hunter22"),
    ("das Password ist hunter22", "hunter22"),
    ("log in as bob with password `hunter22`", "hunter22"),
    ("requirepass hunter22", "hunter22"),
    ("+masterauth 'hunter22'", "hunter22"),
    ("spark.hadoop.fs.s3a.secret.key=" + BODY, BODY),
    ("api.key=" + BODY, BODY),
    ("AIRFLOW__CORE__FERNET_KEY=" + BODY, BODY),
    ("DD_APP_KEY=" + BODY, BODY),
    ("NEW_RELIC_LICENSE_KEY: " + BODY, BODY),
    ("DB_PW=hunter22", "hunter22"),
    ("az storage blob list --account-key " + BODY, BODY),
    ("das Root-Passwort auf db1 ist hunter22", "hunter22"),
    ("**password** `hunter22`", "hunter22"),
    ('ssid="home"\n  psk="hunter22"', "hunter22"),
    ("key-mgmt=wpa-psk\npsk=hunter22", "hunter22"),
    ("rocommunity s3cr3tcomm 10.0.0.0/8", "s3cr3tcomm"),
    ("snmp-server community s3cr3tcomm RO", "s3cr3tcomm"),
    ("username=bob,pass=hunter22,uid=1000", "hunter22"),
]
HARMLESS = [
    '{"pass": "yes", "fail": "no"}', '{"pass": "95 %", "skip": 3}', '{"pass": 12345678}', "pass: 12 of 14 tests",
    "docker run --name mongo -p 27017:27017 mongo", "mongodump && mkdir -p /srv/dump",
    "ldapsearch -x | grep -w uid=bob",
    "The 2.0 TDI has 110 kW, the PW: comfortable", "Change the password\nstep2: log out", 'password = """',
    "The password is required.", "password: optional", "password=$DB_PASSWORD", "password=${DB_PASSWORD}",
    "password=<your password>", "password = getpass()", "password=***", "password=None", "max_tokens=4096",
    "The token expired yesterday.", "token = next(tokens)", "secret: the garden", "a secret garden",
    "https://host:8080/path@x", "https://example.com:443/", "mail alice@example.com", "task-force-of-many-people-here",
    "sk-learn-is-a-module-of-python", "the key: D minor", "monkey=banana", "eyJust.a.word", "bearer of bad news today",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "6f6b3c1e-53c7-4c7e-9a4e-0c1f6f2a9a10", "The keyboard costs 40 euros: it is a good one.",
    "Theme(identity_key=settings.identity_key)", "master_key = derive", "hpg_and_what_its_name_begins_with",
    "sk_the_second_of_several_long_names", "take --password from the prompt", "curl -u bob https://example.com",
    "mysql -u root -p shop", "mysqldump -port 3307 shop", "redis-cli -h cache ping", "SKU0123456789",
    "docker run -u 1000:1000 app", "127.0.0.1:5432:5432", "Cookie: none is set", "the token is short-lived",
    "Authorization: required-by-everybody", "das Passwort: steht im Tresor", "https://x.example/?key=name",
    "in first_pass=everything of it", "SSL_SERVER_KEY=/etc/ssl/private/server1.key",
    "run it --token /run/secrets/token_2", "the token is https://example.com/page1",
    "Authorization: see https://docs.example.com/v2/auth",
    "self.authorization = self.build_authorization_v2(request)",
    "| password | created_at |", "| tokens | 128000 |", "**Password:** see the vault", "Password - see the vault",
    "the password for prod is in the vault", "The password for the API is rotated every 90 days.",
    "<password>required</password>", "token - 2 of 3", "it was IDENTIFIED BY me", "das Passwort ist abgelaufen",
    "das Passwort f\u00fcr das WLAN ist seit 2024 dasselbe", "la contrase\u00f1a de la cuenta es la de 2024",
    "https://a-long-name-without-any-digits@host", "docker login -u bob --password-stdin",
    "the password is now required", "The password has been changed to a longer one in 2024", "password now expires90",
    "set `password` and `user_id2`", "password := os.Getenv(\"PW_2\")",
    "https://x.example/?pass=true", "the column password `varchar(255)` is gone", "password set to expire in 90d",
    "seed phrase: the one that begins with a word such as legal, of which nobody else knows anything at all yet",
    "the seed phrase is kept with mother inside their blue safe near garden house where nobody ever goes",
    "run it with password `$DB_PASS2`", "password `${PW_2}`", "the password `{{vault_2}}`", "password: `${DB_PASS2}`",
    "the password `os.environ[PW_2]`", "the flag for the password `--db-pw2`",
    "mnemonic: every good boy deserves fudge and the cows eat green grass under blue skies tonight",
    "const token = await getToken(user.id)", "connect(host, password=settings.DB_PASSWORD, port=5432)",
    "set requirepass and masterauth in redis.conf", "api.key: see the vault",
    "das Passwort im Tresor ist seit 2024 dasselbe", "the secret.key of the s3a client",
    "password: ENC[AES256_GCM,data:x,type:str]", "wpa_supplicant wants psk=",
    "FIRST_PASS = 12345", "LAST_PASS=90210, then stop", "set `MIN_PASS=6000`", "the '\"NEXT_PASS\": 4096}' of it",
]  # fmt: skip


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_need_22_a_known_secret_is_masked_wherever_it_stands(text: str, secret: str | None) -> None:
    for before, after in (("", ""), ("Use this: ", " and tell nobody."), ("line\n", "\nline"), ("`", "`")):
        masked, count = MASKER.mask(before + text + after)
        assert count == 1, masked
        assert (secret or text) not in masked
        assert masked.startswith(before) and masked.endswith(after)
        assert "[masked-" in masked
        assert MASKER.mask(masked) == (masked, 0)


def test_a_key_that_was_cut_off_is_masked_to_its_end() -> None:
    assert MASKER.mask("Use this: " + PEM[:120]) == ("Use this: [masked-private-key]", 1)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert MASKER.mask(text) == (text, 0)


def test_the_kind_of_secret_is_told() -> None:
    assert MASKER.mask("token gh" + "p_" + BODY * 2)[0] == "token [masked-github-token]"


def test_several_secrets_are_counted() -> None:
    masked, count = MASKER.mask("password=one1 postgres://u:two2@h and gh" + "p_" + BODY * 2)
    assert count == 3
    assert masked == "password=[masked-password] postgres://u:[masked-password]@h and [masked-github-token]"


_pieces = st.sampled_from([text for text, _ in SECRETS] + HARMLESS) | st.text(max_size=20)


@settings(deadline=None)
@example("docker login -u bob -p hunter22 mysql -u root -p shop")
@example("curl https://u:hunter2@h -u bob:hunter3 -u ann:hunter4")
@given(st.lists(_pieces, max_size=6).map(" ".join) | st.text())
def test_masking_is_idempotent_and_counts_what_it_does(text: str) -> None:
    masked, count = MASKER.mask(text)
    assert (masked == text) is (count == 0)
    assert MASKER.mask(masked)[0] == masked


def test_of_any_two_texts_in_a_row_nothing_is_left_to_mask() -> None:
    texts = [text for text, _ in SECRETS] + HARMLESS
    masked = {MASKER.mask(f"{one} {other}")[0] for one in texts for other in texts}
    assert [text for text in masked if MASKER.mask(text)[0] != text] == []


def test_the_same_secret_is_masked_the_same_in_a_part_of_the_text() -> None:
    whole = "The staging database: postgres://u:hunter2@h/db, ask Dana."
    part = "staging database: postgres://u:hunter2@h/db"
    assert MASKER.mask(part)[0] in MASKER.mask(whole)[0]


def test_patterns_of_an_operator_hide_their_whole_match() -> None:
    own = masker((r"CUST-\d{4}",))
    assert own.mask("ask CUST-1234 or CUST-12") == ("ask [masked-secret] or CUST-12", 1)
    assert own is masker((r"CUST-\d{4}",))


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        (r"\d{6}", ""),
        (r"(?i)internal-[a-z0-9]{8,32}", ""),
        ("(", "no regular expression"),
        ("a*", "empty text"),
        ("x" * (PATTERN_MAX_CHARS + 1), "longer than"),
        (r"(a+)+$", "too slow"),
        (r"(a|a)*b", "too slow"),
        (r"(x+x+)+y", "too slow"),
        (r"([a-z]+)*\d", "too slow"),
        (r"(?:\w+\s?)+:", "too slow"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why(pattern: str, problem: str) -> None:
    started = time.thread_time()
    assert problem in pattern_problem(pattern) and bool(problem) == bool(pattern_problem(pattern))
    assert time.thread_time() - started < 3.0


@pytest.mark.parametrize(
    "hostile",
    ["://a:", "eyJ", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY-----", "password is ",
     "password=a", "password=,", "password: ", "token=\"'", "bearer ", "sk-", "--pass ", "curl -u ", "curl ", "hpg_",
     "mysql ", "mysql -p", "redis-cli ", "MTMT", "SKSK",
     "cookie:", "password=\"\\\"", "_PASS=", "mot de passe:",
     "authorization: a ", "password | ", "password>a", "password, value ", "password '",
     "token for a a ", "password \n\t",
     "Private-Lines: 1\nAAAA\n", "machine ", "machine a login ", "password now ", "password `a", "?pass=",
     "mnemonic is abc ", "abc mnemonic:", ":5432:a:", "-sk-aaaa", "Bearer aaaa", "key=", ":AA"],
)  # fmt: skip
def test_need_01_no_text_makes_masking_slow(hostile: str) -> None:
    text = hostile * (100_000 // len(hostile))
    best = min(_cpu_s(text) for _ in range(3))
    assert best < 3.0, f"{best:.3f} s for 100 KB"


def _cpu_s(text: str) -> float:
    started = time.thread_time()
    MASKER.mask(text)
    return time.thread_time() - started
