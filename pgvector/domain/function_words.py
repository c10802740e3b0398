"""Words that only tell how a sentence is built, such as "wenn", "cuánto" and "est-ce", in languages other than English.

Where a theme's text is read as English, its index keeps them, and a question in another language would consist mostly
of words that no row holds. All are in lower case and without accents.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from .patterns import late_pattern
from .small_talk import says_something
from .text import QUOTES
from .time_words import split

_STEM_CHARS, _STEM_LEAST = 5, 3
_MAX_CHARS = 2000  # of a longer text the beginning tells the language
_WORDS: dict[str, str] = {
    "de": """
        ab aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bereits bin bis
        bist bitte da dabei dafur damit danach dann das dass davon davor dazu dein deine deinem deinen deiner dem den
        denn der deren des dich die dies diese diesem diesen dieser dieses dir doch dort du durch eben eigentlich ein
        eine einem einen einer eines einige einmal er es etwa etwas euch euer fuer fur gab gar gerade geht gehts gibt
        habe haben habt hast hat hatte hatten her heute hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer
        im immer in ins ist ja jede jedem jeden jeder jedes jemand jetzt kann kannst kein keine keinem keinen keiner
        koennen koennte konnen konnte machen macht mal man mehr mein meine meinem meinen meiner mich mir mit muss
        musst mussen muessen nach nicht nichts noch nochmal nun nur ob oder ohne schon sehr seid sein seine seinem
        seinen seiner seit selbst sich sie sind so sogar soll sollen sollte sollten sonst ueber uber um und uns unser
        unsere unserem unseren unserer unter viel viele vielen vom von vor wann war waren warst warum was weil welche
        welchem welchen welcher welches wem wen wenn wer werde werden weshalb wessen wie wieder wieso will willst wir
        wird wirst wo wofur wohin womit woran worauf woruber wozu wurde wurden wurde zu zum zur zwischen
    """,
    "fr": """
        a afin ai alors apres as au aucun aussi autre aux avaient avais avait avant avec avez avoir avons c ce cela
        celle celui ces cet cette ceux chez comme comment d dans de deja depuis des dois doit donc dont du elle elles
        en encore entre es est et etaient etait ete etes etre eu fait faut il ils j je jusqu aujourd hui l la le les
        leur leurs lors lui m ma mais me meme mes moi mon n ne ni nos notre nous on ont ou par parce pas pendant peu
        peut peux plus pour pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si
        sommes son sont sous suis sur t ta te tes toi ton tous tout toute toutes tres tu un une va vers vos votre vous
        y
    """,
    "es": """
        a acerca al algo alguien algun alguna ante antes asi aun aunque cada como con contra cual cuales cuando cuanta
        cuantas cuanto cuantos de debe debo del desde despues donde dos durante e el ella ellas ellos en entre era
        eran eres es esa esas ese eso esos esta estaba estamos estan estar estas este esto estos estoy fue fueron fui
        ha habia hace han has hasta hay he hemos hoy la las le les lo los mas me mi mientras mis mismo mucho muy nada
        ni no nos nosotros nuestra nuestras nuestro nuestros o os otra otro para pero poco por porque puede puedo pues
        que quien quienes se segun ser si sin sino sobre somos son soy su sus tambien tan te tenemos tengo tiene
        tienen toda todas todo todos tu tus un una unas uno unos va vamos y ya yo
    """,
    "it": """
        a abbiamo agli ai al alla alle allo anche ancora avete aveva avevamo c che chi ci cio coi col come con contro
        cosa cui da dagli dai dal dalla dalle dallo degli dei del dell della delle dello deve di dobbiamo dopo dove e
        ed era erano fa fare fino fra gia gli ha hai hanno ho i il in io l la le lei li lo loro lui ma mi mia mie miei
        mio molto ne nei nel nell nella nelle nello no noi non oggi nostra nostre nostri nostro o ogni per perche piu
        poi posso prima puo qual quale quali quando quanta quante quanti quanto quella quelle quelli quello questa
        queste questi questo qui se sei senza si sia siamo sono sta stata stato su sua sue sugli sui sul sulla suo
        suoi tra tu tua tuo tutti tutto un una uno va vi voi
    """,
    "pt": """
        a ainda alguem algum alguma ao aos apos aquela aquele as ate com como contra da das de dela dele depois desde
        deve do dos e ela elas ele eles em entre era eram essa esse esta estamos estao estava este estou eu faz foi
        foram ha hoje isso isto ja la lhe mais mas me mesmo meu meus minha minhas muito na nada nao nas nem nenhum no
        nos nossa nossas nosso nossos num numa o onde os ou para pela pelo pelos por porque posso pode qual quais
        quando quanta quantas quanto quantos que quem se seja sem ser seu seus so sobre sua suas tambem te tem temos
        tenho tinha toda todas todo todos tu tua um uma umas uns vai voce voces
    """,
    "nl": """
        aan al alle als altijd andere ben bij daar dan dat de deze die dit doch doen door dus een eens en er ge geen
        had hadden heb hebben hebt heeft hem het hier hij hoe hoeveel hun ik in is ja je jij jou jouw jullie kan kon
        kun kunnen maar me meer men met mij mijn moet moeten na naar niet niets nog nu of om omdat onder ons onze ook
        op over reeds te tegen toch toen tot u uit uw van vandaag veel voor waar waarom wanneer waren was wat we weer
        welk welke werd wezen wie wij wil worden wordt zal ze zei zelf zich zij zijn zo zonder zou
    """,
}
_ENGLISH = frozenset(
    split("""
    a about after all also am an and any are as at be been before but by can could did do does for from get give had
    has have he her him his how i if in into is it its just let me more most much my no not of off on or our out over
    please she should since so some tell than that the their them then there these they this those to under until up
    us was we were what when where which who whom whose why will with would you your
    """)
)
# English words as well, or parts of names such as "Los Angeles": alone they do not tell the language.
_OTHERWISE = _ENGLISH | frozenset(
    split("""
    als alle ante bald ben bin bis come con contra cosa da dal de del dell den des dich die do don dos du e el en er es
    et ex fa fare fin fui fur gab gar ha hay here hen hers hin hinter ho hun il im ins ja je jede kan kind l la las le
    lei li los m ma mal man mas men mes mi mia mine mit n nada na naar ne nun o om on one op os ou par pas per pro
    pour s sa sans se sera si son sous sur sui t ta tan te ten toi ton tot tout tu u un una van vi via von war wann
    wen wie wo y ya ze
    """)
)
# Who is, has or does something, and that they are or have it. An order has none of these.
_BE_OR_HAVE = frozenset(
    split("""
    am are got had has have is was were
    bin hab habe haben hat hatte hatten ist sind war waren
    era eran es esta estan hemos son tiene tienen
    avons est etait ont sont suis
    era erano hanno sono
    estao foi sao tem
    ben heb hebben heeft is zijn
    """)
)
_ASKING = frozenset(
    split("""
    how what when where which who whom whose why
    wann warum was welche welcher welches wem wen wer weshalb wessen wie wieso wo woher wohin
    como cual cuales cuando cuanto cuantos donde que quien quienes
    combien comment ou pourquoi quand quel quelle qui quoi
    che chi cosa dove perche quale quali quando quanto
    onde qual quais quem
    hoe waar waarom wanneer wat welk welke
    """)
)
_SUBJECTS = frozenset(
    split("""
    i we he she they ich wir je nous ik wij
    yo nosotros estoy soy somos tenemos tengo io noi abbiamo ho eu estou sou temos tenho
    """)
)
_OWN = frozenset(
    split("my our mein meine unser unsere mi mis nuestra nuestro mon ma mes notre nos mio mia meu minha mijn onze")
)
_OTHERS = frozenset(("he", "she", "they"))
_SHORTENED = late_pattern(r"(?:n['\u2019]t|['\u2019](m|s|re|ve|d|ll))$")
_OTHERWISE_LEAST = 2  # of such words alone
_WORD = late_pattern(r"[^\W\d_]+")
_MARKS = late_pattern(r"[\u0300-\u036f]")


def language_of(text: str) -> str:
    """Return the code of the language whose function words a text has, "" if that is English or none of these."""
    return _language(text[:_MAX_CHARS])


@lru_cache(maxsize=64)  # several steps of a recall ask it of one question
def _language(text: str) -> str:
    said = [plain(word[0]) for word in _WORD.finditer(text)]
    spanish = "\u00bf" in text or "\u00a1" in text  # of as many words, those behind such a mark are Spanish
    best, known = max(
        _function_words().items(), key=lambda each: (sum(word in each[1] for word in said), spanish and each[0] == "es")
    )
    found = [word for word in said if word in known]
    english = sum(word in _ENGLISH and word not in known for word in said)
    return best if _outweigh(found, english) else ""


def _outweigh(found: Sequence[str], english: int) -> bool:
    """Return whether the function words `found` tell the language of a text with so many that are English alone."""
    if all(word in _OTHERWISE for word in found):  # "Was kostet die Karte?"
        return len(found) >= _OTHERWISE_LEAST and not english
    return len(found) > english


def without_function_words(text: str) -> str:
    """Return a text in one of the languages without its function words, with a quoted phrase or of nothing else whole.

    A text in English or in another language is returned unchanged.
    """
    words = _function_words().get(language_of(text))
    if words is None or QUOTES.search(text):
        return text
    rest = _WORD.sub(lambda word: " " if plain(word[0]) in words else word[0], text)
    return rest if any(map(str.isalnum, rest)) else text


def function_words_of(text: str) -> list[str]:
    """Return the function words of a text, of its language or else English."""
    known = _function_words().get(language_of(text), _ENGLISH)
    return [word[0] for word in _WORD.finditer(text[:_MAX_CHARS]) if plain(word[0]) in known]


def telling_words(text: str) -> Iterator[str]:
    """Yield the words of a text, split at blanks, that are neither function words of any language nor small talk."""
    known = _every()
    return (word for word in _bare_words(text) if word and word not in known and says_something(word))


def _bare_words(text: str) -> Iterator[str]:
    """Yield the words of a text as `plain` returns them, split at blanks, without the signs around them."""
    for part in text.split():
        yield plain(part.strip("".join(char for char in part if not char.isalnum())))


def stating_words(text: str) -> set[str]:
    """Return the words of a text that tell something, with those that say who is, has or does it.

    "I'm vegan now" has three, "try again" one. A form of "be" or "have" at the beginning asks, also after a "where"
    there; an "our" there is who.
    """
    found: set[str] = set()
    before = ""
    for place, word in enumerate(_bare_words(text)):
        short = _SHORTENED.search(word)
        bare = word[: short.start()] if short else word
        asks = place == 1 and before in _ASKING
        found.update([bare] if _says_who(bare, begins=not place, asks=asks) else telling_words(bare))
        before = bare
        if short and short[1] in ("m", "re", "ve"):
            found.add(short[1])
    return found


def _says_who(word: str, *, begins: bool, asks: bool) -> bool:
    """Return whether a word says who is, has or does something, or that they are or have it.

    `begins`: nothing stands before it; `asks`: only a word such as "where" does.
    """
    return word in _SUBJECTS or (word in (_OWN if begins else _BE_OR_HAVE) and not asks)


def in_first_person(text: str) -> bool:
    """Return whether a text names whoever says it: "I", "unser", "nous"."""
    return not (_SUBJECTS - _OTHERS | _OWN).isdisjoint(_bare_words(text))


def stem_of(word: str) -> str:
    """Return the beginning of a word that its other forms share, which is less of "bills" and "rooms"."""
    return word[: max(_STEM_LEAST, min(_STEM_CHARS, len(word) - 1))]


def plain(word: str) -> str:
    """Return a word in lower case and without accents."""
    folded = word.casefold()
    return folded if folded.isascii() else _MARKS.sub("", unicodedata.normalize("NFD", folded))


@cache
def _function_words() -> dict[str, frozenset[str]]:
    return {code: frozenset(words.split()) for code, words in _WORDS.items()}


@cache
def _every() -> frozenset[str]:
    return _ENGLISH.union(*_function_words().values())
