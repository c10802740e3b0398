"""Words of questions that ask only what was said or done at a time, such as "What did we talk about last time?".

In the languages of `time_words`, in lower case and without accents. In such a question no word tells what the answer is
about, so only the time does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from functools import cache

from . import east_asian_times as east_asian
from . import time_words as words
from .numbered_times import calendar_week, names_a_number
from .patterns import late_pattern
from .text import has_cjk
from .time_patterns import asks_for_a_plan, last, part_of_present, past_languages, share_before, weekdays_ago
from .time_ranges import spoken_times
from .times_of_year import without_parts_of_year

SAID_MAX_CHARS = 200  # a longer message says what it is about
# Of each group of languages the words for what was said or done, of which a question has at least one; those that tell
# of what kind it was, of which it may have one instead; and its other words. The groups are kept apart, because a word
# such as "war", "hat", "van" or "os" is a subject in another language.
_LANGUAGES = (
    (
        """
        asked chat chatted chatting conversation conversations cover covered did discuss discussed discussing
        discussion discussions done happen happened happening mention mentioned recap said say session sessions speak
        speaking spoke spoken subject subjects summarise summarize summary talk talked talking tell told topic topics
        went work worked working
        """,
        "agree agreed change changed decide decided decision decisions explain explained learn learned learnt",
        """
        a about again all an and any anything are as ask at be been bring brought can carry come continue could didn
        do does doing during earlier else everything for from gist give go going had has have hello hey hi i in is it
        know let lets list lot may me much my of ok okay on only our over overview pick please quick quickly recall
        remember remind saying so some something still that the there thing things this to together up us was we
        well were what which with would you your
        """,
    ),
    (
        """
        angesprochen besprochen erwahnt erzahlt gearbeitet gefragt gegangen gemacht geredet gesagt geschah geschehen
        gesprach gesprache gesprochen getan ging passiert redeten sagte sagten sitzung session sprachen thema themen
        unterhalten unterhaltung zusammenfassung
        """,
        "beschlossen entscheidung entscheidungen entschieden erklart geandert gelernt vereinbart",
        """
        aber all alles am an auf beim bitte chat da dann das dass dem den denn der die dir du eigentlich ein eine
        einmal erinnere erinnerst erzahl es euch fass fasse gab geht gib hab habe haben habt hallo hast hat hatte hatten
        hey hi ich ihr im in ist kannst kurz lass lief los mal mich mir mit nach noch ok okay sag so stand tun uber
        uberblick und uns unserem vom von war waren was weisst weiter weitermachen welche wir wofur womit woran woruber
        worum wovon zu zum zusammen
        """,
    ),
    (
        """
        discute dit fait mentionne parle parles passe raconte resume session sujet sujets theme themes travaille
        charlamos comentamos conto conversacion conversamos dije dijimos dijiste hablado hablamos hable hablo hecho
        hice hicimos hiciste ocurrio paso platicamos resumen tema temas trabajamos tratado tratamos
        argomenti argomento conversazione detto discorso discusso fatto parlato parlavamo raccontato riassunto
        successo temi
        aconteceu assunto assuntos conversa conversas disse dissemos falado falamos falei falou fez fiz fizemos
        resumo
        """,
        """
        appris change convenu decide decision decisions explique
        acordado acordamos acordo aprendi aprendimos aprendido cambiado cambiamos decidi decidido decidimos decidiste
        explicado explicaste
        concordato deciso decisioni imparato spiegato
        aprendemos combinamos decisoes explicou mudamos
        """,
        """
        a ai as au avait avez avions avons bonjour c ce cela d dans de des du elle en est et etaient etait eu faire
        il j je l la le les lieu m moi n ne nous on ont peux point pour qu que quel quelle quelles quels quoi rappelle
        s se souviens sur t toi tu un une vous y
        acuerdas al algo cual cuales cuenta cuentame decir del dime el ella era eran es fue fueron ha habia han has he
        hemos hola las lo los me nos nosotros nuestra nuestro o por recuerdame recuerdas sobre su te una uno yo
        abbiamo all altro avete avevamo che chi ci ciao con cosa cose da dall dalla dei della delle di e erano gli hai
        ho i in io lei li ma mi nei nel nella noi quale quali ricordi si sono stato ti
        ao aos com das do dos ele em eram esse foi foram isso lembra lembras na nas no ola os para quais qual voce
        ok
        """,
    ),
    (
        """
        besproken deden deed gebeurd gebeurde gedaan gehad ging hadden gepraat gesprek gesprekken gesproken gezegd
        onderwerp onderwerpen praatten samenvatting sessie spraken verteld vertelde zei zeiden
        """,
        "afgesproken beslissing beslissingen besloten geleerd uitgelegd veranderd",
        """
        al chat dat de die dingen een en er had hadden hallo heb hebben hebt het hey hoi ik in is je jij jullie
        kan kun me met mij nog ok om ons op over te u van vertel waar waarover was wat we weet welke wij
        """,
    ),
    (
        """
        беседа беседовали говорил говорила говорили делал делала делали обсудили обсуждали произошло разговор
        разговоре рассказал рассказала речь сделали сказал сказала сказали случилось тема темы
        """,
        "договорились объяснил объяснила решение решения решил решила решили узнали",
        """
        был была были в вам вами вас во вспомни вы дела и из к как какая какие какои мне мы на нам нами напомни нас о
        об он она они по помнишь расскажи с тебе то тобои ты у чем что шла это я
        """,
    ),
)
_TIMES = """
    st nd rd th er ago vor hace fa geleden назад last past between zwischen entre until from bis von hasta day
    afternoon evening morning night today tonight week so far back heute heut bisher diese dieser diesem dieses jour
    aujourd hui cette ce cet semaine mois ci hoy esta este noche oggi questa questo settimana stasera hoje noite
    vandaag vanavond deze dit сегодня этои этом неделе утром днем вечером
"""
# Chinese, Japanese and Korean, each word before those that it begins with. Single signs do not tell what is a subject:
# those of "生日" are in "发生" and "今日" as well.
_CJK_WORDS = (
    "我们|我們|咱们|咱俩|你们|你們|他们|她们|聊天|谈话|谈论|談話|談論|讨论|討論|话题|話題|主题|主題|什么|什麼|甚么|甚麼|哪些|事情|发生|發生|那天|这天|這天|当天|當天"
    "|关于|關於|对话|對話|会话|會話|内容|內容|很多|主要|所有|全部|一切|一下|一起|回忆|回憶|记得|記得|告诉|告訴|总结|總結|今天|早上|上午|下午|晚上|中午|时候|時候|起来"
    "|起來|这个|這個|星期|提到|我|你|您|他|她|它|的|得|在|是|了|过|過|聊|谈|談|说|說|讲|講|哪|些|事|做|干|幹|都|有|那|呢|吗|嗎|和|跟|与|與|对|對|请|請|问"
    r"|問|早|晚|里|裡|中|还|還|会|會|来|來|到|这|這|个|個|周|週|\d+[日号號]",
    "話し合いました|話していた|話したか|話した|しましたっけ|していました|話し合った|言いました|ましたっけ|でしたっけ|起きました|ありました|やりました|しました|していた|している|いました|について|ください"
    "|まとめて|私たち|僕たち|あなた|言った|言って|ました|います|でした|だった|どんな|教えて|覚えて|起きた|あった|やった|すべて|私達|曜日|何か|なに|なん|話題|話し|話す|会話|議論|内容"
    "|した|して|ます|った|って|いた|いる|です|こと|その|この|とき|また|今日|今週|今朝|今夜|全部|私|僕|君|何|を|の|は|に|が|で|と|も|へ|か$|ね$|よ$|話|だ|事"
    r"|時|\d+日",
    "나눴[가-힣]{0,3}|나눈|내용|얘기|이야기|대화|말|주제|무엇|무슨|뭐야?|뭘|어떤|했[가-힣]{0,4}|하였[가-힣]{0,3}|한|해?줘|있었[가-힣]{0,3}|대해서?"
    "|관해서?|알려|주세요|줄래|기억(?:나|해)?|라고|나니|나요|하니|그때|그날|오늘|이번|우리|당신|제가|네가|내가?|나랑?(?!이)|저|너랑?|요약|모두|전부|것|거|일|그|날|때|번|^주에?$|들"
    r"|[을를은는이가에의도과와]$|에[는서]|\d+일",
)
_CJK_SPEAKING = late_pattern(
    "[聊谈談说說讲講做干幹話言内內]|讨论|討論|告诉|告訴|对话|對話|发生|發生|した|얘기|이야기|대화|말|했|무슨 일"
)
# "Was war gestern?"; of "Was war das?" something else is the subject.
_WHAT_WAS = late_pattern(r"\W*(?:und )?was (?:war|gab es|gabs|lief)(?: (?:denn|eigentlich|so|alles|los))*\b")
_ORDERS = frozenset(words.split("agree change decide decision decisions explain explique learn"))
_ORDERED = late_pattern(rf"\W*(?:(?:please|ok|okay|now|then)\W+)*(?:{words.either(_ORDERS)})\b")
# Beside one of these words, what was said or done is a noun: "about work" names a subject, "did we work on" none.
_AS_NOUN = late_pattern(r"\b(?:about|at|from|with|for|in|after|before)\s+(?:(?:my|your|the)\s+)?(?:work|go|list)\b")
_SHORTENED = late_pattern(r"(?<=\w)['\u2019](?:s|t|d|m|ve|re|ll)\b")
_NUMBER = late_pattern(rf"\d{{1,4}}(?:st|nd|rd|th|er|h|hrs?|mins?|{words.either(words.SHORT_UNITS)})?")


@cache
def _today() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words.TODAY})\b|(?:今天|今日|오늘).*(?:[了过過]|した|했)")


@cache
def _vocabularies() -> tuple[tuple[frozenset[str], frozenset[str]], ...]:
    """Return the words for what was said or done, and all that are allowed, of each group of languages."""
    spoken = ((frozenset(f"{deeds} {kinds}".split()), frozenset(others.split())) for deeds, kinds, others in _LANGUAGES)
    return tuple((deeds, deeds | others | _times()) for deeds, others in spoken)


@cache
def _kinds() -> frozenset[str]:
    return frozenset(word for _, kinds, _ in _LANGUAGES for word in kinds.split())


@cache
def _times() -> frozenset[str]:
    return frozenset(re.findall(r"\w+", " ".join((_TIMES, *words.phrases()))))


@cache
def _cjk_words() -> tuple[re.Pattern[str], ...]:
    return tuple(map(re.compile, _CJK_WORDS))


@cache
def _sessions() -> re.Pattern[str]:
    """Return the pattern for the first or last conversation, in the groups `first` and `last`, or for its `end`."""
    talk = r"(?:time|conversation|session|chat|talk|discussion)"
    gesprach = r"(?:mal|unterhaltung|gesprach|sitzung|session)"
    return re.compile(
        rf"\b(?:(?P<end>where (?:did |had |have )?we (?:leave|left|stop|stopped)(?: off)?|where were we"
        r"|wo (?:waren|sind) wir (?:steh?en ?geblieben)|wo waren wir|ou en (?:etions|est)[- ](?:nous|on)|ou en est-on"
        r"|donde (?:lo dejamos|nos quedamos|quedamos)|(?:a che punto|dove) eravamo(?: rimasti)?|onde (?:nos )?paramos"
        r"|waar waren we(?: gebleven)?|на чем мы остановились)"
        rf"|(?P<last>(?:last|previous|most recent) {talk}|(?:letzte[nmrs]?|vorige[nmrs]?) {gesprach}"
        r"|(?:derniere|precedente) (?:fois|conversation|discussion)"
        r"|recently|lately|zuletzt|in letzter zeit|recemment|dernierement|ces derniers temps|recientemente|ultimamente"
        r"|ultima (?:vez|conversacion|volta|conversazione|conversa)"
        r"|(?:vorige|laatste) (?:keer|gesprek)|(?:в )?прошлыи раз|прошлого раза|последнего разговора)"
        rf"|(?P<first>(?:very )?first (?:{talk}|things?|message|question)|erste[nmrs]? {gesprach}"
        r"|premiere (?:fois|conversation|discussion)"
        r"|prim(?:era|a|eira) (?:vez|conversacion|volta|conversazione|conversa)|eerste (?:keer|gesprek)"
        r"|первыи раз|первого разговора))\b"
        r"|(?P<cjk_end>上次[我咱]?[们們]?[聊说說谈談讲講]到哪[里裡儿兒]?|어디까지)"
        r"|(?P<cjk_last>最近|上一?次|前回|지난번|저번에?)|(?P<cjk_first>第一次|初めて|最初|처음)"
    )


@cache
def _conversation() -> re.Pattern[str]:
    """Return the pattern for a conversation, which is named in other words than "the last time"."""
    return re.compile(
        r"\b(?:conversations?|sessions?|chat|talk|discussion|unterhaltung|gesprach|sitzung|conversacion|conversazione"
        r"|conversa|gesprek|разговора)\b"
    )


def session_named(plain: str) -> str:
    """Return which session a text names: `first`, `last`, the `end` of the last one, or "" if none."""
    found = _sessions().search(plain)
    return "" if found is None or found.lastgroup is None else found.lastgroup.removeprefix("cjk_")


def only_said(plain: str, *, limited: bool) -> bool:
    """Return whether a text asks what was said or done, and has no other words but those of times and sessions.

    With `limited` it need not name what was said: "everything" is enough beside a limit in time.
    """
    if not limited and not _may_speak(plain):
        return False
    if asks_for_a_kind(plain) and not _tells_what_was(plain):
        return False
    rest = _SHORTENED.sub(" ", _sessions().sub(" ", without_parts_of_year(plain)))
    if _AS_NOUN.search(rest) or asks_for_a_plan(plain):
        return False
    said = _words_in(_without_dates(rest))
    speaks = limited or _names_a_conversation(plain) or _asks_what_was(plain, rest, said)
    asian = set(filter(has_cjk, said))
    return _is_asian_talk(asian) and _is_talk(said - asian, speaks=speaks)


def _may_speak(plain: str) -> bool:
    """Return whether a text has any word for what was or was said, or for a session, or is Asian; most have none."""
    said = set(re.findall(r"\w+", plain))
    spoken = any(not said.isdisjoint(deeds) for deeds, _ in _vocabularies())
    return bool(spoken or session_named(plain) or has_cjk(plain) or _WHAT_WAS.match(plain))


def _asks_what_was(plain: str, rest: str, said: Set[str]) -> bool:
    """Return whether a text asks what was said or was, at a time where no word tells that it was said.

    `rest` is the text without sessions and parts of a year, `said` are its words without dates as well.
    """
    if _CJK_SPEAKING.search(rest):
        return True
    return _WHAT_WAS.match(plain) is not None and (rest != plain or _may_name_a_time(rest, said))


def _may_name_a_time(rest: str, said: Set[str]) -> bool:
    """Return whether a text may name a time; `said` are its words without dates."""
    return names_a_number(rest) or said != _words_in(rest) or not words.SIGNS.isdisjoint(said)


def _words_in(plain: str) -> set[str]:
    return {word for word in re.findall(r"\w+", plain) if not _NUMBER.fullmatch(word)}


def asks_for_a_kind(plain: str) -> bool:
    """Return whether a text asks for what was decided, explained or the like, and not for all that was said."""
    return not _kinds().isdisjoint(re.findall(r"\w+", plain))


def _tells_what_was(plain: str) -> bool:
    """Return whether words such as "change" and "explain" are about what was, and no order."""
    said = set(re.findall(r"\w+", plain))
    if _kinds() & said <= _ORDERS:
        return _ORDERED.match(plain) is None and bool(past_languages(plain, said))
    return True


def only_a_time(plain: str) -> bool:
    """Return whether a text has no words but those of a time, as "on Tuesday" and "last week" have not."""
    rest = east_asian.without_weekdays(_without_dates(without_parts_of_year(plain)))
    said = _words_in(rest)
    return said <= _times() | {"the"} and (bool(said) or rest.strip() != plain.strip())


def _names_a_conversation(plain: str) -> bool:
    """Return whether a text names a session by a word for talking, or by where it ended."""
    named = session_named(plain)
    return named == "end" or (named != "" and _conversation().search(plain) is not None)


def _without_dates(plain: str) -> str:
    """Return a text without days and months; "May" and the like may be other words."""
    rest = plain
    if not words.SIGNS.isdisjoint(re.findall(r"\w+", plain)):
        rest = _without(rest, spoken_times(rest))
        for pattern in (part_of_present(), last(), weekdays_ago()):
            rest = _without(rest, pattern.finditer(rest))
    rest = _without(rest, calendar_week().finditer(rest))
    if not has_cjk(rest):
        return rest
    for pattern in east_asian.every_time():
        rest = pattern.sub(" ", rest)
    return rest


def _without(plain: str, times: Iterable[re.Match[str]]) -> str:
    """Return a text without some times of it and what tells which part of each is meant."""
    rest, end = "", 0
    for match in times:
        part = share_before(plain, match.start())
        start = part[0] if part else match.start()
        rest, end = f"{rest}{plain[end:start]} ", match.end()
    return rest + plain[end:]


def _is_talk(said: Set[str], *, speaks: bool) -> bool:
    """Return whether one group of languages has all these words, and one for what was said unless the text `speaks`."""
    return any((speaks or not deeds.isdisjoint(said)) and allowed >= said for deeds, allowed in _vocabularies())


def _is_asian_talk(said: Set[str]) -> bool:
    """Return whether Chinese, Japanese or Korean has all that these texts are made of."""
    return not said or any(not any(each.sub("", text) for text in said) for each in _cjk_words())


def names_today(plain: str) -> bool:
    """Return whether such a text names today."""
    return _today().search(plain) is not None
