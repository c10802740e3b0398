"""The shapes of passwords, keys and tokens that are masked: how each begins, and the pattern tried there.

A pattern is tried only where one of the beginnings of its shape is found, from there on. Every pattern is bounded: none
looks further than 16 KB.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .patterns import ready_pattern

_START = r"(?<![A-Za-z0-9_-])"
_MASKED = r"(?!\[masked-)"
# Values that only refer to a secret: a variable, a placeholder and, without quotes, a function call or an attribute.
_NO_CALL = (
    r"(?![a-z_][\w.]{0,60}[(\[]|(?:await|new)\s"
    r"|(?:self|this|settings|config|cfg|conf|env|args|options|opts|request|req|process)\.[a-z_][\w.]{0,60}(?![^\s,;)\]}]))"
)
_UNTOLD = (
    r"(?!(?-i:\$[A-Z_][A-Z0-9_]*(?=[\s\"'`]|$))|\$[{(]|\{\{|<[^<>\s]{1,40}>|\*{3}|%[sd(]|(?-i:ENC\[)"
    r"|(?:none|null|true|false|undefined|required|optional|missing|unknown)(?![\w-]))"
)
# Nor is the place of a secret one. But an address after `password=` or `token=` may be a secret itself.
_PLACE = r"\\*[\"']?(?:https?://|~/|/(?:etc|home|mnt|opt|proc|root|run|srv|tmp|usr|var)/)"
_NO_PLACE = rf"(?!{_PLACE})"
# Unless the opening quote is itself escaped, as in JSON within JSON, an escaped quote belongs to the value.
_QUOTED = (
    rf"(?:\"\"(?=\")|''(?='))?(?P<escape>\\+)?(?P<quote>[\"']){_MASKED}{_UNTOLD}(?P<quoted>(?:(?!(?P=quote))[^\n\\]|\\(?!(?P=quote))"
    r"|(?(escape)(?!)|\\(?P=quote)(?=[^\n]{0,256}?(?P=quote)))){4,256})"
)
# A separator is part of the value unless another one, a blank, a quote, `name=` or the end follows it.
_BARE = (
    rf"{_MASKED}{_UNTOLD}{_NO_CALL}"
    r"(?P<bare>(?:[^\s\"'<>,;&|`)\]}\\]|\\(?![\"'])|[,;&|)\]}](?!\s|$|[,;&|)\]}\"']|[\w -]{1,40}=)){4,512})"
)
# A colon or "is" also occurs in plain sentences: after these, a password must contain a digit or a symbol, a key both
# letters and digits.
_TOLD = rf"`?+{_MASKED}{_UNTOLD}(?=[^\s`]{{0,64}}[0-9#$%^&*+=_~@])(?P<told>[^\s\"'`<>,;]{{5,512}}[^\s\"'`<>,;.?!)])"
_TOLD_KEY = (
    rf"`?+{_MASKED}{_UNTOLD}(?=[^\s`]{{0,64}}\d)(?=[^\s`]{{0,64}}[a-z])"
    r"(?P<told>[^\s\"'`<>,;]{7,512}[^\s\"'`<>,;.?!)])"
)

# Where no colon or verb stands before it, a password must contain both letters and digits.
_MIXED = (
    rf"`?+{_MASKED}{_UNTOLD}(?=[^\s`]{{0,64}}\d)(?=[^\s`]{{0,64}}[a-z])"
    r"(?P<mixed>[^\s\"'`<>,;|]{5,512}[^\s\"'`<>,;|.?!)])"
)

# What stands between the name of a secret and the secret. The name may be quoted, or stressed as in Markdown; files
# align values in columns; and people who type Chinese or Japanese have a wide colon at hand.
_CLOSE = r"(?:\\*[\"']|[*_`]{1,3})?"
_GAP = r"\s{0,3}+[ \t]{0,40}+"
_COLON = r"[:\uff1a][*_]{0,3}"
_EQUALS = r"[=\uff1d]"
_SIGN = rf"{_GAP}(?:(?:{_COLON}{_EQUALS}?|{_EQUALS})>?|->|\u2192){_GAP}"
_ARROW = rf"{_GAP}(?:[-=]>|\u2192|[-\u2013\u2014](?=\s)|\|){_GAP}"  # also a dash, or the next cell of a table
_VALUE = r",?\s{1,40}[\"']?value(?:[\"']?\s{0,3}:\s{0,3}|=(?=[\"']))"  # name: DB_PASSWORD, value: ...
_OF = r"(?:\s(?:for|of|to|on|at|in)(?:\s[^\s.,;:!?]{1,30}){1,5}?)"  # the password for the database is ...
_IS = rf"(?:{_OF}\s|\s{{1,3}})(?:is|was):?\s{{1,3}}"
# The password is now ..., has been changed to ...; and what only the marks of code set apart from the name.
_BECAME = r"\s(?:is now|(?:(?:is|was|has been) )?(?:now )?(?:changed|reset|set|updated) to):?\s{1,3}"
_CODE = r"\s(?=`(?!-)[^\s`(\[]{1,128}`)"
_BLOCK = r":[ \t]{0,3}[|>][+-]?[ \t]{0,3}\n[ \t]{1,40}"  # of YAML, whose text is in the next line
_WORD = (
    r"(?!(?:and|are|but|for|from|had|has|her|his|its|not|our|the|their|was|were|with|your)(?![a-z]))[a-z]{3,8}(?![a-z])"
)
_ELEMENT = rf">{_MASKED}{_UNTOLD}(?P<element>[^<>\s]{{4,512}})(?=</)"
_LITERAL = rf"\s{{1,3}}'{_MASKED}{_UNTOLD}(?P<literal>[^'\s]{{4,256}})(?=')"  # as in SQL


def _up_to(option: str, command: str, *, but: str, through: str = r"[^\n]") -> str:
    """Return the pattern for a command up to an option of it, not behind one whose value is masked.

    Masked again, the text would differ otherwise. `but` is not passed, and only `through` is.
    """
    return rf"{command} (?:(?!{but}|{option}\[masked-){through}){{0,300}}?(?<=\s){option}"


# Not every key is secret, only those named with one of these words.
_KEYS = ("api", "access", "account", "auth", "private", "shared")
_KEY_OF = "|".join(rf"(?<={word}{sign})key" for word in _KEYS for sign in ("", "[_. -]"))
# In lower case these are ordinary names in code.
_KEYS_OF_VARIABLES = tuple(
    f"{word}_KEY" for word in ("APP", "ENCRYPTION", "FERNET", "IDENTITY", "LICENSE", "MASTER", "SERVER", "SIGNING")
)

# After these names a plain number says how often, or where, something passed.
_PASSES = ("FIRST", "SECOND", "THIRD", "LAST", "NEXT", "FINAL", "MIN", "NUM")
_COUNTED = (
    rf"(?!(?-i:{'|'.join(f'(?<={name}_PASS)' for name in _PASSES)})\\*[\"']?\s{{0,3}}[:=]\s{{0,3}}"
    r"\d{1,9}(?=[\s,;)\]}\"'`]|\.?$|\.\s))"
)


class SecretShape(NamedTuple):
    """A kind of secret: how it begins (in lower case if `folded`), and the pattern tried there.

    The text of a named group is masked, or the whole match if there is none. `then` follows a beginning wherever the
    pattern matches: checking it first avoids most attempts, so few processes ever compile more than some patterns.
    `run` serves the same end: the least number of letters, digits, _ and - after the rare character of a beginning.
    """

    kind: str
    begins: tuple[str, ...]
    pattern: str
    then: str = ""
    folded: bool = False
    run: int = 0

    @property
    def is_apart(self) -> bool:
        """Return whether no letter, digit, _ or - may stand before it."""
        return self.pattern.startswith(_START)

    def match(self, text: str, start: int) -> re.Match[str] | None:
        """Return the match of the pattern at `start` of `text`, if there is one."""
        return ready_pattern(self.pattern, re.IGNORECASE if self.folded else re.NOFLAG).match(text, start)


# By the pattern of the rest of a key, the prefixes before it, which no other word has.
_PREFIXED: Final = {
    r"[A-Za-z0-9]{30,128}": ("hf_", "npm_", "gsk_", "xai-"),
    r"[A-Za-z0-9]{32,128}": ("ntn_", "lin_api_", "nfp_", "jina_", "pplx-", "r8_"),
    r"(?:dev-)?[A-Za-z0-9-]{20,128}": ("tvly-",),
    r"[0-9a-f]{32,128}(?:[_-][\w-]{6,64})?": (
        "shpat_", "shpca_", "shppa_", "shpss_", "rubygems_", "sbp_", "e2b_", "sk_", "lsv2_pt_", "lsv2_sk_", "xkeysib-",
        "xsmtpsib-", "doo_v1_", "dor_v1_",
    ),
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}": ("pat-na1-", "pat-eu1-"),
    r"(?=[\w-]{0,64}\d)[\w-]{20,512}": (
        "hpg_", "dckr_pat_", "dckr_oat_", "figd_", "sb_secret_", "tgp_v1_", "pcsk_", "glsa_", "pscale_tkn_",
        "pscale_pw_", "hvs.", "hvb.", "dp.pt.", "dp.st.", "tskey-auth-", "tskey-api-", "tskey-client-", "PMAK-",
        "NRAK-", "HRKU-", "nvapi-", "sq0csp-", "sq0atp-",
    ),
    r"[\w+/=-]{40,1024}": ("sntrys_", "fm2_"),
}  # fmt: skip
# "Password" in other languages, where after a colon it must contain a digit or a symbol as well.
_WORDS = (
    "passwort", "kennwort", "contrase\u00f1a", "mot de passe", "senha", "wachtwoord",
    "\u043f\u0430\u0440\u043e\u043b\u044c", "\u5bc6\u7801", "\u5bc6\u78bc", "\u30d1\u30b9\u30ef\u30fc\u30c9",
    "\ube44\ubc00\ubc88\ud638", "contrasena", "parola", "has\u0142o", "heslo", "jelsz\u00f3", "l\u00f6senord",
    "passord", "adgangskode", "salasana", "parool", "\u015fifre", "m\u1eadt kh\u1ea9u", "kata sandi",
    "\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631", "\u05e1\u05d9\u05e1\u05de\u05d4",
)  # fmt: skip
# "la senha do wifi é ...", "das Passwort für das WLAN ist ..."
_WORDS_OF = (
    r"(?:\s(?:de|del|dell[ao]|du|des|di|da|do|para|per|pour|f[u\u00fc]r|von|vom|zu[mr]|auf|a[mn]|beim?|i[mn]|van|voor)"
    r"(?:\s[^\s.,;:!?]{1,30}){1,4}?)"
)
_WORDS_ARE = (
    rf"(?:(?:{_WORDS_OF}\s|\s{{1,3}})(?:ist|lautet|es|est|[\u00e8\u00e9]|is)(?=[\s:])"
    r"|\s?[\u662f\u4e3a\u70ba\u306f\ub294\uc740])"
)
_OF_IS = rf"(?:{_OF}\s(?:is|was)|{_WORDS_OF}\s(?:ist|lautet|es|est|[\u00e8\u00e9]))"
_OPTIONS = (
    "password", "passwd", "pass", "passphrase", "token", "auth-token", "access-token", "api-key", "apikey", "secret",
    "secret-key", "account-key", "client-secret",
)  # fmt: skip

SHAPES: Final = (
    SecretShape(
        "private-key",
        ("-----BEGIN ",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]|-(?!----)){0,16384}+(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    SecretShape("aws-key", ("AKIA", "ASIA"), _START + r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    SecretShape("google-key", ("AIza",), _START + r"AIza[\w-]{35}(?![\w-])"),
    SecretShape("google-token", ("ya29.",), _START + r"ya29\.[\w-]{20,2048}"),
    SecretShape("google-secret", ("GOCSPX-",), _START + r"GOCSPX-[\w-]{20,64}"),
    SecretShape("azure-secret", ("8Q~",), r"(?<=\w{3})8Q~[\w~.-]{31,40}"),
    SecretShape("azure-key", ("sig=",), r"(?<=[?&])sig=(?P<key>[\w+/%=-]{20,512})"),
    SecretShape("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _START + r"gh[pousr]_[A-Za-z0-9]{30,255}"),
    SecretShape("github-token", ("github_pat_",), _START + r"github_pat_\w{20,255}"),
    SecretShape(
        "gitlab-token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-"),
        _START + r"gl[a-z]{2,5}-[\w.-]{20,255}",
    ),
    SecretShape("slack-token", ("xox", "xapp-"), _START + r"x(?:ox[abcdeoprs]|app)-[\w-]{10,255}"),
    SecretShape(
        "slack-webhook", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows)/(?P<key>[\w/]{20,128})"
    ),
    SecretShape(
        "stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), _START + r"[sr]k_(?:live|test)_\w{10,255}"
    ),
    SecretShape("stripe-secret", ("whsec_",), _START + r"whsec_[\w+/=]{20,128}"),
    SecretShape("anthropic-key", ("sk-ant-",), _START + r"sk-ant-[\w-]{16,255}"),
    SecretShape("openai-key", ("sk-",), _START + r"sk-(?!ant-)(?=[\w-]{0,64}[A-Z0-9])[\w-]{20,255}"),
    *(
        SecretShape("api-key", (begin,), rf"{_START}{re.escape(begin)}{rest}(?![\w-])", run=16)
        for rest, begins in _PREFIXED.items()
        for begin in begins
    ),
    SecretShape("api-key", ("ATATT3x", "ABSK"), _START + r"(?:ATATT3x|ABSK)[\w=+/-]{60,512}"),
    SecretShape("api-key", ("?key=", "&key="), r"[?&]key=(?=[\w-]{0,64}\d)(?P<key>[\w-]{20,512})"),
    SecretShape("webhook", ("/api/webhooks/",), r"/api/webhooks/\d{15,20}/(?P<key>[\w-]{40,128})"),
    SecretShape("google-token", ("1//0",), _START + r"1//0[\w-]{30,512}"),
    SecretShape("pypi-token", ("pypi-Ag",), _START + r"pypi-Ag[\w-]{50,512}"),
    SecretShape("sendgrid-key", ("SG.",), _START + r"SG\.[\w-]{16,64}\.[\w-]{16,64}"),
    SecretShape("cloud-token", ("dop_v1_", "dapi"), _START + r"(?:dop_v1_[0-9a-f]{64}|dapi[0-9a-f]{32})"),
    SecretShape(
        "private-key",
        ("Private-Lines: ",),
        r"Private-Lines: \d{1,4}\r?\n(?P<key>(?:[A-Za-z0-9+/=]{4,80}(?:\r?\n|\Z)){1,200}+)",
    ),
    SecretShape("age-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[0-9A-Z]{50,64}"),
    SecretShape("bot-token", (":AA",), r"(?<=\d{8}):AA[\w-]{33}(?![\w-])"),
    # A Discord bot token begins with the id in Base64. Ids given since the middle of 2022 begin with the digit 1.
    SecretShape("bot-token", ("MT",), _START + r"MT[\w-]{21,26}\.[\w-]{6}\.[\w-]{27,40}(?![\w.-])", run=21),
    SecretShape("api-key", ("SK",), _START + r"SK[0-9a-f]{32}(?![\w-])", run=32),
    SecretShape("jwt", ("eyJ",), _START + r"eyJ[\w-]{8,8192}\.[\w-]{8,8192}\.[\w-]{8,1024}"),
    SecretShape(
        "bearer-token",
        ("bearer",),
        r"bearer\s{1,4}(?=[\w.~+/=-]{0,64}\d)(?P<key>[\w.~+/=-]{12,4096})",
        r"\s",
        folded=True,
    ),
    SecretShape(
        "credentials",
        ("authorization",),
        r"authorization\\*[\"']?\s{0,2}[:=]\s{0,2}\\*[\"']?(?:basic\s{1,4}(?P<basic>[\w+/=-]{8,512})"
        rf"|(?:(?!bearer)[a-z][a-z-]{{1,15}}\s{{1,4}})?{_NO_PLACE}{_NO_CALL}"
        r"(?=[\w.~+/=:-]{0,64}\d)(?P<key>[\w.~+/=:-]{16,4096}))",
        r"\\*[\"']?\s{0,2}[:=]",
        folded=True,
    ),
    SecretShape(
        "cookie",
        ("cookie:", "cookie\":", "cookie':"),
        r"cookie[\"']?:\s{0,2}[\"']?(?=(?:(?!cookie)[^\n\"']){0,512}=[\w%.~+/-]{16})"
        r"(?P<key>(?:[\w.-]{1,64}=[^\s;,\"'`]{0,4096}(?:; ?(?=[\w.-]{1,64}=))?){1,60}+)",
        folded=True,
    ),
    SecretShape("registry-login", ("\"auth\":", "_auth="), r"(?:\"auth\":\s{0,2}\"|_auth=)(?P<key>[\w+/=-]{16,1024})"),
    SecretShape(
        "password",
        (":5432:",),
        r":5432:[^\s:@/]{1,63}:[^\s:@/]{1,63}:" rf"{_MASKED}{_UNTOLD}" r"(?P<key>[^\s\"'`]{4,128})",
    ),
    SecretShape(
        "password",
        ("curl ",),
        _up_to(r"(?:-u|--user|--proxy-user)[ =]{0,2}[\"']?[^\s:'\"]{1,64}:", "curl", but="curl ")
        + rf"{_MASKED}{_UNTOLD}" r"(?P<key>[^\s'\"]{3,128})",
    ),
    SecretShape(
        "password",
        ("mysql", "mariadb"),
        _up_to(r"-p[\"']?", r"(?:mysql|mariadb)[a-z-]{0,12}", but="mysql|mariadb")
        + r"(?!rotocol|ort\b)"
        rf"{_MASKED}{_UNTOLD}" r"(?P<key>[^\s'\"]{3,128})",
        r"[a-z-]{0,12} ",
    ),
    SecretShape(
        "password",
        ("redis-cli ",),
        _up_to(r"-a\s{1,2}[\"']?", "redis-cli", but="redis-cli")
        + rf"{_MASKED}{_UNTOLD}" r"(?P<key>[^\s'\"]{3,128})",
    ),
    SecretShape(
        "password",
        ("docker login ",),
        _up_to(r"-p\s{0,2}[\"']?", "docker login", but="docker")
        + rf"{_MASKED}{_UNTOLD}" r"(?P<key>[^\s'\"`]{3,128})",
    ),
    SecretShape(
        "password",
        ("mongo",),
        _up_to(r"-p\s{0,2}[\"']?", r"mongo[a-z]{0,10}", but="mongo", through=r"[^\n&|;]")
        + r"(?![\d.:]{1,40}(?:\s|\Z))"
        rf"{_MASKED}{_UNTOLD}{_NO_PLACE}" r"(?P<key>[^\s'\"`]{3,128})",
        r"[a-z]{0,10} ",
    ),
    SecretShape(
        "password",
        ("ldap",),
        _up_to(r"-w\s{0,2}[\"']?", r"ldap[a-z]{3,9}", but="ldap[a-z]{3,9} ", through=r"[^\n&|;]")
        + rf"{_MASKED}{_UNTOLD}" r"(?P<key>[^\s'\"`]{3,128})",
        r"[a-z]{3,9} ",
    ),
    SecretShape(
        "password",
        ("-passin pass:", "-passout pass:", "-pass pass:"),
        rf"-pass(?:in|out)? pass:{_MASKED}{_UNTOLD}" r"(?P<key>[^\s'\"`]{3,128})",
    ),
    # Twelve words or more, all of which could be from the list of BIP 39: it lacks the words that join a sentence.
    SecretShape(
        "seed-phrase",
        ("seed phrase", "recovery phrase", "mnemonic"),
        rf"(?:(?:seed|recovery) phrase|mnemonic){_CLOSE}(?:{_SIGN}|\sis:?\s)[\"'`]?"
        rf"(?P<key>{_WORD}(?:\s{{1,3}}{_WORD}){{11,23}}+)",
        folded=True,
    ),
    # In the configurations of Redis and of SNMP.
    SecretShape("password", ("requirepass ", "masterauth ", "rocommunity ", "rwcommunity ", "snmp-server community "),
        rf"[a-z -]{{10,21}}\s{{1,4}}[\"']?{_MIXED}", folded=True),
    # In a .netrc.
    SecretShape(
        "password",
        ("machine ",),
        rf"machine \S{{1,255}}\s{{1,8}}login \S{{1,255}}\s{{1,8}}password\s{{1,8}}{_MASKED}{_UNTOLD}"
        r"(?P<key>[^\s\"'`]{3,128})",
    ),
    SecretShape("password", ("psk=",), rf"(?<![a-z])psk=(?:{_QUOTED}|{_BARE})", folded=True),
    SecretShape("password", ("?pass=", "&pass=", ",pass="), rf"[?&,]pass={_MIXED}"),
    # Two lines, as password managers show and people copy them.
    SecretShape(
        "password",
        ("password\n", "passwort\n", "kennwort\n"),
        rf"(?<![^\n])[a-z]{{8}}\n{_MIXED}(?=[ \t]{{0,3}}(?:\n|\Z))",
        folded=True,
    ),
    SecretShape(
        "password",
        ("pw:", "pw ", "pw=", "pw\uff1a"),
        rf"(?<![A-Za-z0-9-])pw(?:{_GAP}{_COLON}{_GAP}|{_GAP}{_EQUALS}{_GAP}|\sis:?\s){_MIXED}",
        folded=True,
    ),
    SecretShape(
        "secret",
        ("aws configure set ",),
        r"aws configure set [\w.-]{0,60}(?:secret|token)[\w.-]{0,30}\s{1,4}[\"']?"
        rf"{_MASKED}{_UNTOLD}" r"(?P<key>[^\s'\"`]{16,2048})",
    ),
    SecretShape(
        "password",
        ("IDENTIFIED BY ", "IDENTIFIED WITH "),
        r"IDENTIFIED (?:WITH [\w\"'.]{1,60} )?BY (?:PASSWORD )?"
        rf"(?:'{_MASKED}(?P<literal>[^'\n]{{1,256}})'|{_MASKED}(?P<key>[^\s'\";,)]{{4,128}}))",
    ),
    SecretShape(
        "password", ("sshpass -p",), rf"sshpass -p\s{{0,2}}[\"']?{_MASKED}{_UNTOLD}(?P<key>[^\s'\"]{{3,128}})"
    ),
    SecretShape(
        "password",
        tuple(f"--{name}{sign}" for name in _OPTIONS for sign in " ="),
        rf"--[a-z-]{{4,13}}[ =]{_NO_PLACE}(?:{_QUOTED}|{_TOLD})",
        folded=True,
    ),
    SecretShape(
        "password",
        _WORDS,
        rf"[\w ]{{2,12}}?{_CLOSE}(?:{_SIGN}{_QUOTED}|{_GAP}{_EQUALS}{_GAP}{_BARE}"
        rf"|(?:{_GAP}{_COLON}{_GAP}|{_WORDS_ARE}:?\s{{0,3}}){_TOLD}|{_ARROW}{_MIXED})",
        rf"{_CLOSE}(?:{_GAP}[:=\uff1a\uff1d|\u2192-]|{_WORDS_ARE})",
        folded=True,
    ),
    # Greedy up to the last "@" of the word: people paste passwords with "@", "/" or ":" unescaped.
    SecretShape(
        "password",
        ("://",),
        rf"://[^\s:/@\"'<>]{{0,128}}:{_MASKED}{_UNTOLD}(?!\d{{1,5}}[/?#])(?P<key>[^\s\"'<>]{{1,128}})@(?=[\w\[])",
        r"[^\s:/@\"'<>]{0,128}:",
    ),
    # A token alone before the host.
    SecretShape(
        "secret",
        ("://",),
        r"://(?=[\w-]{0,64}\d)(?P<key>[\w-]{20,255})@(?=[\w\[])",
        r"[\w-]{20}",
    ),
    SecretShape(
        "password",
        ("pass", "pwd"),
        rf"(?:pass(?:word|wd|phrase)|pwd|(?:(?-i:(?<=[A-Z]_)PASS){_COUNTED}|(?<=become_)pass|(?<=db_)pass|(?<=smtp_)pass|(?<=ssh_)pass)"
        # By itself the word also counts what passed: as a key in quotes, with a password's value.
        rf"|(?<=[\"'])pass(?=\\*[\"']{_SIGN}\\*[\"'](?=[^\s\"']{{0,64}}\d)(?=[^\s\"']{{0,64}}[a-z])[^\s\"']{{5}}))"
        rf"(?![a-z])(?:_?\d)?{_CLOSE}"
        rf"(?:(?:{_SIGN}|{_VALUE}){_QUOTED}|{_GAP}{_EQUALS}{_GAP}{_BARE}"
        rf"|(?:{_GAP}{_COLON}(?=[\s`]){_GAP}|\s{{1,3}}(?:is|was|ist|lautet|es|est|[\u00e8\u00e9]):?\s{{1,3}}){_TOLD}"
        rf"|(?:{_COLON}|{_ARROW}|{_VALUE}|{_OF_IS}:?\s|{_BECAME}|{_CODE}|{_BLOCK}){_MIXED}|{_ELEMENT}|{_LITERAL})",
        rf"(?:(?<=pass)(?:word|wd|phrase)|(?<=pwd)|(?<=_pass)|(?<=[\"']pass))(?![a-z])(?:_?\d)?{_CLOSE}"
        rf"(?:{_GAP}(?:[:=\uff1a\uff1d|\u2192>',`\u00e8\u00e9-]|is|was|has|now|changed|reset|set|updated|lautet|es|value)"
        rf"|{_OF_IS}|,?\s{{1,40}}[\"']?value)",
        folded=True,
    ),
    SecretShape(
        "secret",
        ("secret", "token", "key"),
        r"(?:secret(?:[_.-]?(?:access[_-]?)?key(?:_base)?)?|token|" + _KEY_OF + r")(?![a-z_]\w)"
        rf"{_CLOSE}(?:(?:{_SIGN}|{_VALUE}){_QUOTED}|{_GAP}{_EQUALS}{_GAP}{_BARE}"
        rf"|(?:{_GAP}{_COLON}{_GAP}|{_ARROW}|{_VALUE}|>(?=[^<>\s]{{8,512}}</)|{_IS}{_NO_PLACE}(?=[^\s`]{{12}})){_TOLD_KEY})",
        r"(?:(?<!key)|(?<=[isthed]key)|(?<=[isthed][_. -]key))(?:[_.-]?(?:access[_-]?)?key(?:_base)?)?(?![a-z_]\w)"
        rf"{_CLOSE}(?:{_GAP}(?:[:=\uff1a\uff1d|\u2192>-]|is|was)|{_OF}\s(?:is|was)|,?\s{{1,40}}[\"']?value)",
        folded=True,
    ),
    SecretShape(
        "secret",
        _KEYS_OF_VARIABLES,
        rf"[A-Z]+_KEY\\*[\"']?(?!\s{{0,3}}[:=]>?\s{{0,3}}{_PLACE})"
        rf"(?:\s{{0,3}}[:=]>?\s{{0,3}}{_QUOTED}|\s{{0,3}}=\s{{0,3}}{_BARE}|\s{{0,3}}:\s{{0,3}}{_TOLD})",
        r"\\*[\"']?\s{0,3}[:=]",
    ),
)  # fmt: skip
