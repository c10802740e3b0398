"""What is masked before a text is stored or shown: passwords, keys and tokens; and personal identifiers.

Each known shape of a secret begins with letters that stand nowhere else; only where they do is a pattern tried, from
there on. Shapes whose beginnings share a rare character are looked for together, from one such character to the next,
for a hook has milliseconds for megabytes. Every pattern is bounded: none looks further than 16 KB.

Telephone numbers, e-mail addresses and user ids are never kept as they are, but told apart by a digest.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
import time
from typing import Final, NamedTuple
from urllib.parse import unquote

MAX_PATTERNS = 20
PATTERN_MAX_CHARS = 300
_PROBE_CHARS = (*range(6, 31, 2), 60, 120, 300, 600)  # a pattern that doubles with each character is caught early
_PROBE_S = 0.005  # of CPU, for one of them

_START = r"(?<![A-Za-z0-9_-])"
_MASKED = r"(?!\[masked-)"
# What is named or looked up and not told: a variable, a placeholder; and, without quotes, a call.
_UNTOLD = (
    r"(?!(?-i:\$[A-Z_][A-Z0-9_]*(?=[\s\"']|$))|\$[{(]|\{\{|<[^<>\s]{1,40}>|\*{3}|%[sd(]"
    r"|(?:none|null|true|false|undefined|required|optional|missing|unknown)(?![\w-]))"
)
_QUOTED = rf"\\*(?P<quote>[\"']){_MASKED}{_UNTOLD}(?P<quoted>(?:(?!(?P=quote))[^\n\\]|\\(?!(?P=quote)).){{4,256}})"
# A separator is part of the value unless another one follows it.
_BARE = (
    rf"{_MASKED}{_UNTOLD}(?![a-z_][\w.]{{0,60}}[(\[])"
    r"(?P<bare>(?:[^\s\"'<>,;&|`)\]}\\]|\\(?![\"'])|[,;&|)\]}](?!\s|$|[,;&|)\]}\"']|[\w -]{1,40}=)){4,512})"
)
# A colon or "is" also stands in plain sentences: there a password has a digit or a sign in it, a key both letters
# and digits.
_TOLD = rf"{_MASKED}{_UNTOLD}`?(?=[^\s`]{{0,64}}[0-9#$%^&*+=_~@])(?P<told>[^\s\"'`<>,;]{{5,512}}[^\s\"'`<>,;.?!)])"
_TOLD_KEY = (
    rf"{_MASKED}{_UNTOLD}`?(?=[^\s`]{{0,64}}\d)(?=[^\s`]{{0,64}}[a-z])"
    r"(?P<told>[^\s\"'`<>,;]{7,512}[^\s\"'`<>,;.?!)])"
)


# Not every key is one to hide.
_KEY_OF = "|".join(
    rf"(?<={word}{sign})key" for word in ("api", "access", "account", "auth", "private") for sign in ("", "[_ -]")
)


class _Shape(NamedTuple):
    """A kind of secret: what it begins with (in lower case where `folded`), and the pattern tried there.

    What a named group holds is masked, the whole match where there is none. `then` comes after a beginning wherever the
    pattern matches: it spares most attempts, and few processes ever need more than some of the patterns.
    """

    kind: str
    begins: tuple[str, ...]
    pattern: str
    then: str = ""
    folded: bool = False

    def match(self, text: str, start: int) -> re.Match[str] | None:
        """Try the pattern in `text` from `start` on."""
        return _ready(self.pattern, re.IGNORECASE if self.folded else re.NOFLAG).match(text, start)


_ready = functools.cache(re.compile)


_SHAPES = (
    _Shape(
        "private-key",
        ("-----BEGIN ",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]|-(?!----)){0,16384}+(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    _Shape("aws-key", ("AKIA", "ASIA"), _START + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _Shape("google-key", ("AIza",), _START + r"AIza[\w-]{35}(?![\w-])"),
    _Shape("google-token", ("ya29.",), _START + r"ya29\.[\w-]{20,2048}"),
    _Shape("google-secret", ("GOCSPX-",), _START + r"GOCSPX-[\w-]{20,64}"),
    _Shape("azure-secret", ("8Q~",), r"(?<=\w{3})8Q~[\w~.-]{31,40}"),
    _Shape("azure-key", ("sig=",), r"(?<=[?&])sig=(?P<key>[\w+/%=-]{20,512})"),
    _Shape("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _START + r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    _Shape("github-token", ("github_pat_",), _START + r"github_pat_\w{20,255}"),
    _Shape(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-"),
        _START + r"gl[a-z]{2,4}-[\w.-]{20,255}",
    ),
    _Shape("slack-token", ("xox", "xapp-"), _START + r"x(?:ox[abceoprs]|app)-[\w-]{10,255}"),
    _Shape("slack-webhook", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows)/(?P<key>[\w/]{20,128})"),
    _Shape("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), _START + r"[sr]k_(?:live|test)_\w{10,255}"),
    _Shape("stripe-secret", ("whsec_",), _START + r"whsec_[\w+/=]{20,128}"),
    _Shape("anthropic-key", ("sk-ant-",), _START + r"sk-ant-[\w-]{16,255}"),
    _Shape("openai-key", ("sk-",), _START + r"sk-(?!ant-)(?=[\w-]{0,64}[A-Z0-9])[\w-]{20,255}"),
    _Shape("api-key", ("hf_", "npm_", "gsk_", "xai-"), _START + r"(?:hf_|npm_|gsk_|xai-)[A-Za-z0-9]{30,128}"),
    _Shape("pypi-token", ("pypi-Ag",), _START + r"pypi-Ag[\w-]{50,512}"),
    _Shape("sendgrid-key", ("SG.",), _START + r"SG\.[\w-]{16,64}\.[\w-]{16,64}"),
    _Shape("cloud-token", ("dop_v1_", "dapi"), _START + r"(?:dop_v1_[0-9a-f]{64}|dapi[0-9a-f]{32})"),
    _Shape("age-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[0-9A-Z]{50,64}"),
    _Shape("bot-token", (":AA",), r"(?<=\d{8}):AA[\w-]{33}(?![\w-])"),
    _Shape("jwt", ("eyJ",), _START + r"eyJ[\w-]{8,8192}\.[\w-]{8,8192}\.[\w-]{8,1024}"),
    _Shape(
        "bearer-token",
        ("bearer",),
        r"bearer\s{1,4}(?=[\w.~+/=-]{0,64}\d)(?P<key>[\w.~+/=-]{12,4096})",
        r"\s",
        folded=True,
    ),
    _Shape(
        "basic-credentials",
        ("authorization",),
        r"authorization\\*[\"']?\s{0,2}[:=]\s{0,2}\\*[\"']?basic\s{1,4}(?P<key>[\w+/=-]{8,512})",
        r"\\*[\"']?\s{0,2}[:=]",
        folded=True,
    ),
    # Greedy up to the last "@" of the word: people paste passwords with "@", "/" or ":" unescaped.
    _Shape(
        "password",
        ("://",),
        rf"://[^\s:/@\"'<>]{{0,128}}:{_MASKED}{_UNTOLD}(?!\d{{1,5}}[/?#])(?P<key>[^\s\"'<>]{{1,128}})@(?=[\w\[])",
        r"[^\s:/@\"'<>]{0,128}:",
    ),
    _Shape(
        "password",
        ("pass", "pwd"),
        r"(?:pass(?:word|wd|phrase)|pwd)(?![a-z])(?:_?\d)?\\*[\"']?"
        rf"(?:\s{{0,3}}[:=]>?\s{{0,3}}{_QUOTED}|\s{{0,3}}=\s{{0,3}}{_BARE}|(?:\s{{0,3}}:|\s{{1,3}}(?:is|was))\s{{1,3}}{_TOLD})",
        r"(?:(?<=pass)(?:word|wd|phrase)|(?<=pwd))(?![a-z])(?:_?\d)?\\*[\"']?\s{0,3}(?:[:=]|is|was)",
        folded=True,
    ),
    _Shape(
        "secret",
        ("secret", "token", "key"),
        r"(?:secret(?:[_-]?(?:access[_-]?)?key)?|token|" + _KEY_OF + r")(?![a-z_])\\*[\"']?"
        rf"(?:\s{{0,3}}[:=]>?\s{{0,3}}{_QUOTED}|\s{{0,3}}=\s{{0,3}}{_BARE}|\s{{0,3}}:\s{{0,3}}{_TOLD_KEY})",
        r"(?:(?<!key)|(?<=[isthe]key)|(?<=[isthe][_ -]key))(?:[_-]?(?:access[_-]?)?key)?(?![a-z_])\\*[\"']?\s{0,3}[:=]",
        folded=True,
    ),
)  # fmt: skip


class _Search(NamedTuple):
    """From one `char` to the next: where one of the beginnings stands, each with its place of `char` and its shape."""

    char: str
    pattern: re.Pattern[str]
    begins: tuple[tuple[str, int, _Shape], ...]


_RARE = "~_=:/.-AJGzxk"  # rarest first, more or less; none of them where a beginning has none


def _searches(folded: bool) -> tuple[_Search, ...]:
    by_char: dict[str, list[tuple[str, int, _Shape]]] = {}
    for shape in _SHAPES:
        for begin in shape.begins if shape.folded is folded else ():
            char = next((char for char in _RARE if char in begin), begin[0])
            by_char.setdefault(char, []).append((begin, begin.index(char), shape))
    return tuple(_Search(char, _together(char, begins), tuple(begins)) for char, begins in by_char.items())


def _together(char: str, begins: list[tuple[str, int, _Shape]]) -> re.Pattern[str]:
    """Return what finds all beginnings that hold `char`. It is first in the pattern, which is what makes that fast."""
    at_once = [_after(begin, at) + shape.then for begin, at, shape in begins if not at]
    later = [f"(?<={re.escape(begin[: at + 1])}){_after(begin, at)}{shape.then}" for begin, at, shape in begins if at]
    if later:
        before = "".join(sorted({re.escape(begin[at - 1]) for begin, at, _ in begins if at}))
        at_once.append(f"(?<=[{before}]{re.escape(char)})(?:{'|'.join(later)})")
    return re.compile(f"{re.escape(char)}(?:{'|'.join(at_once)})")


def _after(begin: str, at: int) -> str:
    return re.escape(begin[at + 1 :])


_EXACT, _FOLDED = _searches(False), _searches(True)


class Masker:
    """Masks the known shapes and an operator's own patterns. Immutable; safe to use from several threads."""

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._own = tuple(compiled for compiled in map(_compiled, patterns) if isinstance(compiled, re.Pattern))

    def mask(self, text: str) -> tuple[str, int]:
        """Return `text` with each secret replaced by `[masked-<kind>]`, and how many there were. Idempotent."""
        found: list[tuple[int, int, str]] = []
        _look_for(_EXACT, text, text, found)
        # Lower case of the same length, so that places in the one are places in the other.
        folded = text.lower()
        if len(folded) != len(text):
            folded = text.replace("\u0130", "I").lower()
        _look_for(_FOLDED, text, folded, found)
        for own in self._own:
            found += [(*match.span(), "secret") for match in own.finditer(text) if match[0]]
        return _replaced(text, found) if found else (text, 0)


def masked(text: str) -> str:
    """Return `text` as it may be shown: without passwords of connection strings and without known secrets."""
    return masker(()).mask(mask_dsn(text))[0]


def pattern_problem(pattern: str) -> str:
    """Return why an operator's pattern cannot be used, in words; "" when it can."""
    compiled = _compiled(pattern)
    return compiled if isinstance(compiled, str) else ""


@functools.lru_cache(maxsize=64)
def masker(patterns: tuple[str, ...]) -> Masker:
    """Return the masker with these patterns besides the known shapes."""
    return Masker(patterns)


def _look_for(searches: tuple[_Search, ...], text: str, searched: str, found: list[tuple[int, int, str]]) -> None:
    for search in searches:
        first = searched.find(search.char)
        ends = dict.fromkeys((begin for begin, _, _ in search.begins), 0)  # of the last match
        for hit in search.pattern.finditer(searched, first) if first >= 0 else ():
            for begin, at, shape in search.begins:
                start = hit.start() - at
                if start < ends[begin] or not searched.startswith(begin, start):
                    continue
                if (match := shape.match(text, start)) is not None:
                    group = match.lastgroup or 0
                    found.append((match.start(group), match.end(group), shape.kind))
                    ends[begin] = match.end()


def _replaced(text: str, found: list[tuple[int, int, str]]) -> tuple[str, int]:
    kept: list[str] = []
    position = count = 0
    for start, end, kind in sorted(found, key=lambda span: (span[0], -span[1])):
        if end <= position:
            continue
        # What two shapes share is masked once, by the one that begins first.
        if start >= position:
            kept += [text[position:start], f"[masked-{kind}]"]
            count += 1
        position = end
    return "".join([*kept, text[position:]]), count


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | str:
    """Return the pattern ready for use, or what is wrong with it."""
    if len(pattern) > PATTERN_MAX_CHARS:
        return f"longer than {PATTERN_MAX_CHARS} characters"
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return "no regular expression"
    if compiled.search("") is not None:
        return "also found in an empty text"
    return "too slow, with repetitions inside repetitions" if _is_slow(pattern, compiled) else compiled


def _is_slow(pattern: str, compiled: re.Pattern[str]) -> bool:
    """Return whether time explodes on long runs of what the pattern looks for, tried in ever longer steps."""
    letters = dict.fromkeys([*"a0A-_ /.=", *(char for char in pattern if char.isalnum())])
    runs = [*letters, *(re.findall(r"[A-Za-z0-9]{2,}", pattern)[:4]), "a0"]
    for run in runs[:40]:
        for length in _PROBE_CHARS:
            text = (run * length)[:length] + "\x00"
            started = time.thread_time()
            compiled.search(text)
            if time.thread_time() - started > _PROBE_S:
                return True
    return False


_MASK = "***"
_SECRET_KEY = r"(?<![a-z])(?:pg|ssl)?(?:password|passwd|pwd)|oauth_client_secret|scram_(?:client|server)_key"
# Greedy up to the last "@" of the word: people paste passwords with "@", "/" or ":" unescaped.
_URI = re.compile(r"(://[^\s:/@]*:)(\S*)@")
# libpq takes spaces in a URI's password as they are.
_URI_SPACED = re.compile(r"(postgres(?:ql)?(?:\+\w+)?:/{1,2}[^\s:/@]*:)([^@/\n]*)@", re.IGNORECASE)
# Without the scheme, as some paste it.
_LOGIN = re.compile(r"((?<![^\s'\"({=/])[\w.+-]{1,64}:)(?![/:])(\S{1,256})@(?=[\w\[])")
# Without a host, and with what is no port where one would be.
_CUT_URI = re.compile(
    r"(postgres(?:ql)?://[^\s:/@\[]*:)(?!\d{1,5}(?:[,/?\s'\"\\)\]}]|$))([^@\n]+)$", re.IGNORECASE | re.MULTILINE
)
_QUERY = re.compile(rf"([?&](?:{_SECRET_KEY})=)([^&\s]*)", re.IGNORECASE)
# An unquoted value runs to the next blank and may hold escaped blanks. Each repr around it escapes quotes once more:
# the quote that ends a value has as many backslashes before it as the one that began it, and more mean another quote.
_PAIR = re.compile(
    rf"(?<![?&])((?:{_SECRET_KEY})\s*[=:]\s*|['\"](?:{_SECRET_KEY})\\*['\"]\s*:\s*)"
    r"((?P<quote>\\*['\"])(?:.*?(?<!\\)(?P=quote)|.*)|(?:[^\s\\]|\\+.)+)",
    re.IGNORECASE | re.DOTALL,
)
# Of what libpq quotes of a string that it cannot read.
_FRAGMENT = re.compile(r'(?P<told>"="|(?:option |invalid URI query parameter: )"\w+"$)|".*"', re.DOTALL)


def mask_dsn(text: str, dsn: str = "") -> str:
    """Replace the passwords of libpq URIs and key=value strings in `text` by ***.

    With `dsn`, every piece of that connection string's password is replaced as well, wherever it stands, and all that
    is quoted but a sign or the name of an option: libpq quotes fragments of a malformed string in its errors, without
    the key they came from. Masks too much rather than too little.
    """
    if dsn:
        text = _FRAGMENT.sub(lambda found: found["told"] or f'"{_MASK}"', text)
    for piece in _secret_pieces(dsn) if dsn else ():
        text = text.replace(f'"{piece}"', f'"{_MASK}"') if len(piece) < 3 else text.replace(piece, _MASK)
    lowered = text.lower()
    if ":" in text and "@" in text:
        for pattern in (_URI, _URI_SPACED, _LOGIN):
            text = pattern.sub(rf"\1{_MASK}@", text)
    if "postgres" in lowered:
        text = _CUT_URI.sub(rf"\1{_MASK}", text)
    if any(word in lowered for word in ("pass", "pwd", "secret", "scram")):
        text = _PAIR.sub(rf"\1{_MASK}", _QUERY.sub(rf"\1{_MASK}", text))
    return text


def _secret_pieces(dsn: str) -> list[str]:
    """Return the password in `dsn`, whole, decoded and in the fragments a parser may stumble over; longest first."""
    patterns = (_URI, _URI_SPACED, _LOGIN, _CUT_URI, _QUERY, _PAIR)
    found = [match.group(2) for pattern in patterns for match in pattern.finditer(dsn)]
    # An unquoted password with a blank in it: all words up to the next key are part of it.
    found += re.findall(rf"(?i)(?:{_SECRET_KEY})\s*[=:]\s*(.*?)(?=\s+\w+\s*=|$)", dsn, re.DOTALL)
    pieces: set[str] = set()
    for secret in found:
        bare = re.sub(r"\\(.)", r"\1", secret.strip("'\""))
        pieces.update((secret, bare, unquote(secret)))
        pieces.update(re.split(r"[\s'\"@:/?&=]+", secret))
    return sorted((piece for piece in pieces if piece and piece != _MASK), key=len, reverse=True)


DIGEST_CHARS: Final = 16
_MARK: Final = "~"  # stands before the digest that took an identifier's place; what follows it is never masked again

_EMAIL = r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
_ACCOUNT = r"\+?\d{6,20}(?:[:.-]\d{1,3})?@\w{1,32}"  # as messengers write it: 491701234567@lid
_PHONE = r"(?:\+|00(?=[1-9]))[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .()-]{0,2}\d){6,14}(?!\d)"
_SURE = re.compile(rf"(?<![\w.+%~-])(?:{_EMAIL}|{_ACCOUNT})|(?<![\w+~]){_PHONE}")
# A number alone between separators; a date is none, and neither are 16 digits and more.
_NUMBER = re.compile(r"(?:(?<=[:/ ])|^)(?!(?:19|20)\d\d-?[01]\d-?[0-3]\d)\(?\d(?:[ .()-]{0,2}\d){8,14}(?=[:/ ]|$)")
_KEY: Final = "agent:"  # how a session key of the host begins
_DIGITS = re.compile(r"\d{3}|@")


def identity_digest(text: str, key: str = "") -> str:
    """Return 16 hex digits of the text's sha256, with a `key` of its HMAC-SHA256.

    Without a key whoever knows all telephone numbers can find the one that was meant; with one, only its owner.
    """
    plain = text.encode("utf-8", "surrogatepass")
    if key:
        return hmac.new(key.encode(), plain, hashlib.sha256).hexdigest()[:DIGEST_CHARS]
    return hashlib.sha256(plain).hexdigest()[:DIGEST_CHARS]


def mask_identifiers(text: str, key: str = "", *, numbers: bool = False) -> str:
    """Put `~` and a digest in the place of each e-mail address, messenger account and telephone number.

    A telephone number begins with + or 00; with `numbers` also 9 to 15 digits that stand alone or between colons,
    slashes or blanks, and so where a session key of the host stands. Idempotent.
    """
    if _DIGITS.search(text) is None:
        return text

    def masked(found: re.Match[str]) -> str:
        return _MARK + identity_digest(found[0], key)

    text = _SURE.sub(masked, text)
    return _NUMBER.sub(masked, text) if numbers or _KEY in text else text
