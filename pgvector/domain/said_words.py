"""Words of questions that ask only what was said or done at a time, such as "What did we talk about last time?".

In the languages of `time_words`, in lower case and without accents. In such a question no word tells what the answer is
about, so only the time does.
"""

from __future__ import annotations

import re
from functools import cache

from . import time_words as words

SAID_MAX_CHARS = 200  # a longer message says what it is about
# What was said or done: of these a question has at least one.
_DEEDS = """
    asked chat chatted chatting conversation conversations cover covered did discuss discussed discussing discussion
    discussions done happen happened happening mention mentioned recap said say session sessions speak speaking
    spoke spoken subject subjects summarise summarize summary talk talked talking tell told topic topics went work
    worked working
    angesprochen besprochen erwahnt erzahlt gearbeitet gefragt gegangen gemacht geredet gesagt geschah geschehen
    gesprach gesprache gesprochen getan ging passiert redeten sagte sagten sitzung sprachen thema themen unterhalten
    unterhaltung zusammenfassung
    discute dit fait mentionne parle parles passe raconte resume sujet sujets theme themes travaille
    charlamos comentamos conto conversacion conversamos dije dijimos dijiste hablado hablamos hable hablo hecho hice
    hicimos hiciste ocurrio paso resumen tema temas trabajamos tratado tratamos
    argomenti argomento conversazione detto discorso discusso fatto parlato parlavamo raccontato riassunto successo
    tema temi
    aconteceu assunto assuntos conversa conversas disse dissemos falado falamos falei falou fez fiz fizemos resumo
    besproken deden deed gebeurd gebeurde gedaan gehad gepraat gesprek gesprekken gesproken gezegd onderwerp
    onderwerpen praatten samenvatting spraken verteld vertelde zei zeiden
    беседа беседовали говорил говорила говорили делал делала делали обсудили обсуждали произошло разговор разговоре
    рассказал рассказала речь сделали сказал сказала сказали случилось тема темы
"""
_OTHERS = """
    a about again ai all and any anything are as ask at be been bring brought can carry come continue could do does
    doing during earlier else everything for from gist give go going had has have hello hey hi i in is it know let
    lets list lot may me much my of ok okay on only our over overview pick please quick quickly recall remember
    remind s saying so some something still that the there thing things this to together up us was we well were what
    which with would you your
    aber alles am an auf beim bitte da dann das dass dem den denn der die dir du eigentlich ein eine einmal erinnere
    erinnerst erzahl es euch fasse gab geht gib habe haben habt hallo hast hat hatte hatten ich ihr im ist kannst
    kurz lass lief los mal mich mir mit nach noch sag so stand tun uber uberblick uns unserem vom von war waren was
    weisst weiter weitermachen welche wir wofur womit woran woruber worum wovon zu zum zusammen
    au avait avez avions avons bonjour c ce cela d dans de des du elle en est et etaient etait eu faire il j je l la
    le les lieu m moi n ne nous ont peux point pour qu que quel quelle quelles quels quoi rappelle s se souviens sur
    t toi tu un une vous y
    al algo cual cuales cuenta cuentame decir del dime el ella era eran fue fueron ha habia han has he hemos hola
    las lo los nos nosotros nuestra nuestro o por recuerdame recuerdas sobre su te una uno yo
    abbiamo altro avete avevamo che chi ci ciao con cosa cose da dei della delle di e erano gli hai ho io lei li ma
    mi nei nel nella noi quale quali ricordi si sono stato su ti
    ao aos as com das dos ele em eram esse foi foram isso lembra lembras na nas no ola os para quais qual voce
    dat dingen een er hadden heb hebben hebt het ik je jij met mij nog om ons op van vertel waar waarover weet welke
    wij
    был была были в вам вами вас во вспомни вы дела и из к как какая какие какои мне мы на нам нами напомни нас о об
    он она они по помнишь расскажи с тебе то тобои ты у чем что шла это я
"""
_TIMES = """
    st nd rd th er ago vor fa geleden назад last past day afternoon evening morning night today tonight week heute
    woche diese dieser aujourd hui cette semaine hoy esta semana oggi questa settimana hoje vandaag deze week сегодня
    этои неделе
"""
_SPEAKING = frozenset(_DEEDS.split())
# Characters, since these languages set no spaces between words.
_CJK_ALLOWED = frozenset(
    "我你您他她它們们咱俩的地得在是了过過聊谈談说說讲講讨討论論话話题題什么麼甚哪些事情做干幹發发生都有那呢吗嗎和跟与與關关於于對对內内容很多主要一下请請问問"
    "回忆憶记記告诉訴总總结結天日号號早上下中晚午间間时時候里裡还還会會起来來今这這个個周週星期"
    "何をのはにがでとへも話しまたかこと出題容私達僕君言っいてつどんなすねよ教え覚議仕ちしゃ"
    "무엇뭐슨얘기이야했지어나요우리에을를대해말하던었는것들은가주제내용화떤일있억알려줘너저와과도날그때오늘번"
)
_CJK_SPEAKING = re.compile("[聊谈談说說讲講做干幹話言内內]|讨论|討論|发生|發生|얘기|이야기|대화|말|했|무슨 일")
_NUMBER = re.compile(r"\d{1,4}(?:st|nd|rd|th|er)?")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


@cache
def _present() -> re.Pattern[str]:
    """Return the pattern for this week or today."""
    return re.compile(
        r"\b(?:(?P<week>this week|diese[rn]? woche)|today|this (?:morning|afternoon|evening)|heute)\b"
        r"|(?:(?P<cjk_week>[这這][个個]?(?:周|星期)|今週|이번 ?주)|今天|今日|오늘).*(?:[了过過]|した|했)"
    )


@cache
def _allowed() -> frozenset[str]:
    return _SPEAKING | frozenset(re.findall(r"\w+", " ".join((_OTHERS, _TIMES, *words.phrases()))))


@cache
def _sessions() -> re.Pattern[str]:
    """Return the pattern for the first or last conversation, in the groups `first` and `last`, or for its `end`."""
    talk = r"(?:time|conversation|session|chat|talk|discussion)"
    gesprach = r"(?:mal|unterhaltung|gesprach|sitzung)"
    return re.compile(
        rf"\b(?:(?P<end>where (?:did |had |have )?we (?:leave|left|stop|stopped)(?: off)?|where were we"
        r"|wo (?:waren|sind) wir (?:steh?en ?geblieben)|wo waren wir|ou en (?:etions|est)[- ](?:nous|on)|ou en est-on"
        r"|donde (?:lo dejamos|nos quedamos|quedamos)|(?:a che punto|dove) eravamo(?: rimasti)?|onde (?:nos )?paramos"
        r"|waar waren we(?: gebleven)?|на чем мы остановились)"
        rf"|(?P<last>(?:last|previous|most recent) {talk}|(?:letzte[nmrs]?|vorige[nmrs]?) {gesprach}"
        r"|(?:derniere|precedente) (?:fois|conversation|discussion)"
        r"|ultima (?:vez|conversacion|volta|conversazione|conversa)"
        r"|(?:vorige|laatste) (?:keer|gesprek)|(?:в )?прошлыи раз|прошлого раза|последнего разговора)"
        rf"|(?P<first>first {talk}|erste[nmrs]? {gesprach}|premiere (?:fois|conversation|discussion)"
        r"|prim(?:era|a|eira) (?:vez|conversacion|volta|conversazione|conversa)|eerste (?:keer|gesprek)"
        r"|первыи раз|первого разговора))\b"
        r"|(?P<cjk_end>上次[我咱]?[们們]?[聊说說谈談讲講]到哪[里裡儿兒]?|어디까지)"
        r"|(?P<cjk_last>上一?次|前回|지난번|저번에?)|(?P<cjk_first>第一次|初めて|最初|처음)"
    )


def session_named(plain: str) -> str:
    """Return which session a text names: `first`, `last`, the `end` of the last one, or "" if none."""
    found = _sessions().search(plain)
    return "" if found is None or found.lastgroup is None else found.lastgroup.removeprefix("cjk_")


def only_said(plain: str, *, limited: bool = False) -> bool:
    """Return whether a text asks what was said or done, and has no other words but those of times and sessions.

    With `limited` it need not name what was said: "everything" is enough beside a limit in time.
    """
    speaks = limited or session_named(plain) == "end"
    plain = _sessions().sub(" ", plain)
    if _CJK.search(plain):
        speaks = speaks or _CJK_SPEAKING.search(plain) is not None
        for pattern in (words.cjk_date(), words.cjk_ago(), words.cjk_last()):
            plain = pattern.sub(" ", plain)
    said = set(re.findall(r"\w+", plain))
    return (speaks or not _SPEAKING.isdisjoint(said)) and all(map(_is_allowed, said))


def _is_allowed(word: str) -> bool:
    if _CJK.fullmatch(word):
        return _CJK_ALLOWED.issuperset(word)
    return word in _allowed() or _NUMBER.fullmatch(word) is not None


def present_named(plain: str) -> str:
    """Return which present time such a text names: `week`, `day`, or "" if neither."""
    found = _present().search(plain)
    if found is None:
        return ""
    return "week" if found["week"] or found["cjk_week"] else "day"
