"""Words for times in English, German, French, Spanish, Italian, Portuguese, Dutch and Russian.

All are in lower case and without accents. `time_patterns` makes patterns of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain


def split(words: str) -> list[str]:
    """Return the words of a table, or its phrases if there are commas."""
    return words.split(",") if "," in words else words.split()


def numbered(groups: Iterable[str], first: int = 0) -> dict[str, int]:
    """Return the number of its group for each word, from `first` on."""
    return {word: number for number, words in enumerate(groups, first) for word in split(words)}


def either(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(set(words), key=lambda word: (-len(word), word)))


# For each language, the names of the months, and the words after which such a name means the month even without a day:
# "march" and "may" are verbs, "June", "Jan" and "Julio" people, Mars a planet.
LANGUAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (
            "january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
            "september sept sep", "october oct", "november nov", "december dec",
        ),
        "in of since during last this until before after by from early late mid to",
    ),
    (
        (
            "januar janner", "februar", "marz", "april", "mai", "juni", "juli", "august", "september", "oktober okt",
            "november", "dezember",
        ),
        "im seit vom bis ab anfang mitte ende letzten",
    ),
    (
        (
            "janvier", "fevrier", "mars", "avril", "mai", "juin", "juillet", "aout", "septembre", "octobre", "novembre",
            "decembre",
        ),
        "en depuis debut fin mi",
    ),
    (
        (
            "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre setiembre", "octubre",
            "noviembre", "diciembre",
        ),
        "en desde hasta",
    ),
    (
        (
            "gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre", "ottobre",
            "novembre", "dicembre",
        ),
        "a in da dal inizio meta fine",
    ),
    (
        (
            "janeiro", "fevereiro", "marco", "abril", "maio", "junho", "julho", "agosto", "setembro", "outubro",
            "novembro", "dezembro",
        ),
        "em desde ate",
    ),
    (
        (
            "januari", "februari", "maart", "april", "mei", "juni", "juli", "augustus", "september", "oktober",
            "november", "december",
        ),
        "in sinds vanaf begin eind",
    ),
    (
        (
            "января январь январе", "февраля февраль феврале", "марта март марте",
            "апреля апрель апреле", "мая маи мае", "июня июнь июне",
            "июля июль июле", "августа август августе", "сентября сентябрь сентябре",
            "октября октябрь октябре", "ноября ноябрь ноябре", "декабря декабрь декабре",
        ),
        "в с до по начале конце",
    ),
)  # fmt: skip
MONTHS = {word: number for months, _ in LANGUAGES for word, number in numbered(months, 1).items()}
ENGLISH_MONTHS = frozenset(numbered(LANGUAGES[0][0]))
# Other words as well: beside a number they are months only if the context says so, see `means_a_day`.
OTHER_WORDS = frozenset(split("may march mar mai mars marco"))
NEVER_BEFORE = {"may": "this to", "march": "this to", "jan": "of by from to", "mar": "of by from to", "april": "by"}
BEFORE_DAY = frozenset(
    split(
        "on since until till before after from by between and am vom seit bis ab zum den dem le du au depuis avant "
        "apres el desde hasta il dal em op sinds"
    )
)

ENGLISH_WEEKDAYS = numbered(split("monday tuesday wednesday thursday friday saturday sunday"))
GERMAN_WEEKDAYS = numbered(("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag sonnabend", "sonntag"))
FRENCH_WEEKDAYS = numbered(split("lundi mardi mercredi jeudi vendredi samedi dimanche"))
SPANISH_WEEKDAYS = numbered(split("lunes martes miercoles jueves viernes sabado domingo"))
WEEKDAYS = (
    ENGLISH_WEEKDAYS
    | GERMAN_WEEKDAYS
    | FRENCH_WEEKDAYS
    | SPANISH_WEEKDAYS
    | numbered(
        (
            "lunedi segunda segunda-feira maandag понедельник",
            "martedi terca terca-feira dinsdag вторник",
            "mercoledi quarta quarta-feira woensdag среду",
            "giovedi quinta quinta-feira donderdag четверг",
            "venerdi sexta sexta-feira vrijdag пятницу",
            "sabato zaterdag субботу",
            "domenica zondag воскресенье",
        )
    )
)
# Only behind such words as "last" and "on": many are other words as well.
ENGLISH_SHORT_WEEKDAYS = numbered(("mon", "tue tues", "wed", "thu thur thurs", "fri", "sat", "sun"))
GERMAN_SHORT_WEEKDAYS = numbered(split("mo di mi do fr sa"))
SHORT_WEEKDAYS = ENGLISH_SHORT_WEEKDAYS | GERMAN_SHORT_WEEKDAYS
WEEKENDS = frozenset(split("weekend,week-end,wochenende,fin de semana,finde,fim de semana,fine settimana"))
# The number of days in a day, a week, a fortnight, a month or a year, by the word for it.
UNITS = {
    word: days
    for days, words in {
        1: "day days tag tage tagen jour jours dia dias giorno giorni dag dagen день дня днеи",
        7: "week weeks woche wochen semaine semaines semana semanas settimana settimane weken неделю недели "
        "недель неделе",
        14: "fortnight fortnights",
        91: "quarter quarters quartal quartals quartale quartalen trimestre trimestres trimestri kwartaal kwartalen "
        "квартал квартала кварталов квартале",
        30: "month months monat monate monaten monats mois mes meses mese mesi maand maanden месяц месяца месяцев "
        "месяце",
        365: "year years jahr jahre jahren jahres an ans annee annees ano anos anno anni jaar год года году лет",
    }.items()
    for word in words.split()
}
# Words only beside a count: "3d ago".
SHORT_UNITS = {"d": 1, "w": 7, "wk": 7, "wks": 7, "mo": 30, "mos": 30, "y": 365, "yr": 365, "yrs": 365}
_HOURS = "hour hours hr hrs h stunde stunden heure heures hora horas ora ore uur uren час часа часов"
_MINUTES = "minute minutes min mins minuten minuto minutos minuti minuut минуту минуты минут"
HOUR_UNITS = (
    dict.fromkeys(_HOURS.split(), timedelta(hours=1))
    | dict.fromkeys(_MINUTES.split(), timedelta(minutes=1))
    | dict.fromkeys(("viertelstunde", "quart d'heure"), timedelta(minutes=15))
)
# The least and the greatest count that a word means.
COUNTS: dict[str, tuple[float, float]] = (
    {
        word: (number, number)
        for word, number in numbered(
            (
                "a an one ein eine einem einer nem ner 'nem 'ner un une una uno um uma een один одну",
                "two,a couple of,couple of,un par de,um par de,un paio di,zwei,deux,dos,due,dois,duas,twee,два,две",
                "three drei trois tres tre drie три",
                "four vier quatre cuatro quattro quatro четыре",
                "five funf cinq cinco cinque vijf пять",
                "six sechs seis sei zes шесть",
                "seven sieben sept siete sette sete zeven семь",
                "eight acht huit ocho otto oito восемь",
                "nine neun neuf nueve nove negen девять",
                "ten zehn dix diez dieci dez tien десять",
                "eleven elf onze once undici одиннадцать",
                "twelve zwolf douze doce dodici doze twaalf двенадцать",
            ),
            1,
        ).items()
    }
    | dict.fromkeys(
        split(
            "a few,few,several,some,einigen,einige,ein paar,n paar,'n paar,wenigen,quelques,unos,unas,algunos,"
            "algunas,pocos,pocas,pochi,poche,alcuni,alcune,qualche,alguns,algumas,poucos,poucas,enkele,een paar,paar,"
            "несколько"
        ),
        (2.0, 6.0),
    )
    | dict.fromkeys(
        split("half a,half an,einem halben,einer halben,un demi,une demi,medio,media,mezzo,mezza,meio,meia,een half"),
        (0.25, 0.75),
    )
    | dict.fromkeys(split("anderthalb,eineinhalb"), (1.5, 1.5))
    | {"zweieinhalb": (2.5, 2.5), "vierzehn": (14, 14), "fourteen": (14, 14)}
    # Of days, two weeks.
    | dict.fromkeys(split("quinze quince quindici"), (14, 15))
)
# Beside a count or a unit, half of one more.
AND_A_HALF = split("and a half,et demi,et demie,y medio,y media,e mezzo,e mezza,e meio,e meia,en een half,с половиной")
# Before a unit in the plural, the last few of them.
LAST_FEW = dict.fromkeys(
    split(
        "in recent,in den letzten,die letzten,ces derniers,ces dernieres,en los ultimos,en las ultimas,estos ultimos,"
        "estas ultimas"
    ),
    (2.0, 6.0),
)
# How long ago a day is, at least and at most.
DAYS_AGO: dict[str, tuple[int, int]] = {
    word: (number, number)
    for word, number in numbered(
        (
            "this morning,earlier today,heute morgen,heute fruh,heut morgen,heut fruh,ce matin,esta manana,"
            "stamattina,esta manha,vanmorgen",
            "yesterday,last night,last evening,gestern,letzte nacht,vergangene nacht,hier,hier soir,hier matin,d'hier,"
            "la nuit derniere,ayer,anoche,ieri,ontem,gisteren,gisteravond,вчера",
            "day before yesterday,vorgestern,avant-hier,anteayer,antier,antes de ayer,anteanoche,l'altro ieri,"
            "anteontem,eergisteren,позавчера",
            "vorvorgestern",
        )
    ).items()
} | dict.fromkeys(split("the other day,neulich,kurzlich,letztens,l'autre jour,el otro dia,l'altro giorno"), (1, 10))
# A pattern.
TODAY = (
    r"today|tonight|this (?:morning|afternoon|evening)|heute?|aujourd'hui|ce soir|cet apres-midi|hoy"
    r"|esta (?:noche|tarde|noite)|oggi|stasera|hoje|vandaag|vanavond|сегодня"
)
# Of these days the evening and the night.
NIGHTS = split("last night,last evening,letzte nacht,vergangene nacht,hier soir,la nuit derniere,anoche,gisteravond")
HIER = "hier"  # "here" in German and Dutch, and yesterday beside one of these words
FRENCH = frozenset(
    split(
        "nous vous il elle ils j quoi qu que qui quel quelle quels quelles avons avez avions avait avaient est etait "
        "etaient sont suis ete parle discute pourquoi quand combien cette notre votre une pour avec sur chez"
    )
)
LAST_BEFORE = [
    "this past",
    *split(
        "last letzten letzter letzte letztes letztem vergangenen vergangener vergangene vergangenes vorigen vorige "
        "voriges vorig afgelopen "
        "pasado pasada scorso scorsa прошлои прошлом прошлым прошлыи прошлую прошлое прошлого"
    ),
]
LAST_AFTER = split("dernier derniere passe passee pasado pasada scorso scorsa passato passata passado passada")
WITHIN = split(
    "last past letzten vergangenen afgelopen laatste ultimos ultimas ultimi ultime последние последних derniers "
    "dernieres"
)
BEFORE_LAST_BEFORE = split("vorletzte vorletzten vorletzter vorletztes vorletztem avant-derniere avant-dernier")
BEFORE_LAST_AFTER = split("before last,antepasado,antepasada")
# What part of a month, a week or the like is meant, as shares of it: "early May", "the end of the week".
PARTS = {
    word: share
    for share, words in (
        (
            (0, 1 / 3),
            "early start beginning anfang beginn debut principios inicios comienzos inizio inizi inicio comeco begin "
            "начале",
        ),
        ((1 / 3, 2 / 3), "mid middle mitte mi mediados meta meados midden середине"),
        ((2 / 3, 1), "late end ende fin finales fines fine fim final finais eind einde конце"),
        ((0, 1 / 2), "first half,ersten halfte,premiere moitie,primera mitad,prima meta"),
        ((1 / 2, 1), "second half,zweiten halfte,seconde moitie,segunda mitad,seconda meta"),
        ((0, 1 / 4), "first week,first days,ersten woche,ersten tagen,premiere semaine,primera semana"),
        ((3 / 4, 1), "last week,last days,letzten woche,letzten tagen,derniere semaine,ultima semana"),
    )
    for word in split(words)
}
# The same, also without "of" or the like.
PARTS_ALONE = split("early mid late anfang beginn mitte ende debut mi fin inizio eind начале середине конце")
# In English, words behind a time, before which it is no part of a name such as "the other day shift".
BEHIND_TIMES = split(
    "i we you he she they it about when that on in at with and or was were did had for from to by as there my our the "
    "a an last this"
)
_GERMAN_DAYTIMES = split("abend nachmittag vormittag mittag morgen nacht fruh")
DAYTIMES = [
    *split("morning afternoon evening night soir matin apres-midi tarde noche manana"),
    *_GERMAN_DAYTIMES,
]
# "Montagabend"
MAYBE_DAYTIME = f"(?:{either(_GERMAN_DAYTIMES)})?"
GERMAN_EVENINGS = [f"{day}{time}" for day in GERMAN_WEEKDAYS for time in _GERMAN_DAYTIMES]

YEAR = r"(?:19|20)\d\d"


def phrases() -> Iterable[str]:
    """Return the words and phrases that times are named with, besides numbers and months, which are names as well."""
    days = (WEEKDAYS, WEEKENDS, DAYS_AGO, DAYTIMES, GERMAN_EVENINGS, BEFORE_DAY)
    counts = (UNITS, (unit for unit in SHORT_UNITS if len(unit) > 1), HOUR_UNITS, COUNTS, AND_A_HALF, LAST_FEW)
    lasts = (LAST_BEFORE, LAST_AFTER, WITHIN, BEFORE_LAST_BEFORE, BEFORE_LAST_AFTER)
    return chain.from_iterable((*days, *counts, *lasts))


# Without one of these a text needs no pattern.
SIGNS = frozenset(
    re.findall(r"\w+", phrase)[-1]
    for words in (MONTHS, WEEKDAYS, GERMAN_EVENINGS, WEEKENDS, UNITS, DAYS_AGO)
    for phrase in words
) | {
    "ago",
    "past",
    *LAST_BEFORE,
    *ENGLISH_SHORT_WEEKDAYS,
    *(f"{day}{end}" for day in (*WEEKDAYS, *WEEKENDS) for end in ("s", "en", "n")),
}  # "3d" is one word
HOUR_SIGNS = HOUR_UNITS.keys() | {"ago", *WITHIN}  # and so is "2h"
# With one of these a question in a language is about the past: "on Monday" alone may as well be the next one.
# "Was" is German for "what".
_WAS = frozenset(split("did was were had said told discussed talked mentioned asked decided agreed happened spoke"))
_WAR = frozenset(
    split(
        "war waren wurde wurden hatte hatten gab gesagt besprochen gesprochen erzahlt erwahnt notiert gefragt gemacht "
        "passiert beschlossen entschieden vereinbart"
    )
)
_AVAIT = frozenset(split("ai as avons avez ont avais avait avions aviez avaient etait etaient"))
_DIJO = frozenset(
    split(
        "dije dijiste dijo dijimos dijeron hable hablaste hablamos hablaron charlamos platicamos hice hiciste hizo "
        "hicimos decidi decidiste decidimos acordamos conte contaste comente comentamos mencione mencionaste pregunte "
        "preguntaste quedamos tratamos vimos paso ocurrio era eran fue fueron hubo"
    )
)
PAST = {"en": _WAS, "de": _WAR, "fr": _AVAIT, "es": _DIJO}
# What somebody did, as a pattern; the regular ones end in "ed".
IRREGULAR = (
    "ate|began|bought|broke|came|did|fell|found|gave|got|had|left|lost|made|met|paid|ran|said|saw|sent|sold|told|took|went"
    "|was|were|won|wrote"
)
# With one of these a weekday is more likely any such day than the last one.
HABITS = frozenset(
    split(
        "every each usually always normally open opens hours jeden jede immer meistens offen geoffnet offnet "
        "offnungszeiten chaque toujours ouvert ouvre horaires cada todos siempre abierto abre horario"
    )
)
