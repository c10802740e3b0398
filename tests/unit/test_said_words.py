"""Which questions name only a time, so that what was said then answers them, and which have a subject as well."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from hermes_memory_pgvector.domain.named_times import asks_what_was_said, named_periods, session_asked
from hermes_memory_pgvector.domain.said_words import SAID_MAX_CHARS

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)

ONLY_SAID = """
Didn't we talk about something last week?
What's the last thing we discussed yesterday?
What have we discussed in May?
Tell me about our conversation yesterday
What did we talk about tonight?
What did we talk about an hour ago?
What have we discussed since Monday?
What did we decide last week?
What was decided yesterday?
Was haben wir gestern beschlossen?
Qu'avons-nous décidé hier ?
¿Qué decidimos ayer?
What did we talk about in the last 24 hours?
What did we talk about in May and June?
What did we discuss between 3 and 5 May?
Summarize our conversations from May to June
What have we talked about since last week?
Worüber haben wir vor einer Stunde gesprochen?
Was haben wir seit Montag besprochen?
Where did we leave off?
What was our last conversation about?
Do you remember our first session?
What was the first thing we talked about?
What was the very first question I asked you?
Was habe ich dir gestern erzählt?
Was haben wir in der letzten Session besprochen?
Was haben wir im Mai gemacht?
Fass zusammen, was wir gestern besprochen haben
De quoi avons-nous parlé la semaine dernière ?
Qu'est-ce qu'on a fait hier soir ?
De quoi avons-nous parlé hier ?
Qu'est-ce que je t'ai dit hier ?
De quoi avons-nous parlé ce soir ?
De quoi avons-nous parlé aujourd'hui ?
¿De qué hablamos la última vez?
¿De qué hemos hablado hoy?
¿Qué hicimos en mayo?
¿De qué hablamos esta noche?
Di cosa abbiamo parlato l'ultima volta?
Di cosa abbiamo discusso a maggio?
Do que falamos na semana passada?
O que eu te disse ontem?
Wat hebben we gisteren besproken?
Waar ging het de vorige keer over?
Waar hebben we het vanavond over gehad?
О чём мы говорили в прошлый раз?
Что мы делали на прошлой неделе?
你还记得我们上周聊了些什么吗？
5月3日我们说了什么？
前天发生了什么事？
你记得我昨天告诉你什么吗？
请总结一下我们昨天的对话
前回何を話したか覚えていますか？
昨日は何をしましたか？
先週の金曜日に何を話しましたか？
昨日の会話をまとめてください
昨日私たちは何について話した？
지난주에 우리 무슨 얘기했어?
지난번에 무슨 이야기를 했나요?
어제 내가 뭐라고 했어?
어제 대화 내용 기억해?
지난주에 우리가 이야기한 내용이 뭐야?
5월 4일에 무슨 대화를 나눴지?
"""
WITH_A_SUBJECT = """
What did we say about the war last week?
What did Marco say yesterday?
What did April say yesterday?
What did I say about the van yesterday?
What did we say about the OS last week?
What did we discuss about C last week?
What did you say about AI yesterday?
What happened at work yesterday?
What did we do in Go last week?
What did I say about the list yesterday?
Was hat Jan gestern gesagt?
Was haben wir gestern über Marco gesagt?
Cosa ha detto Marco ieri?
Qu'est-ce que Juin a dit hier ?
我上周说的生日是什么时候？
我昨天说的日记是什么？
昨天的會議說了什麼？
先週の会議で何を話しましたか？
昨日すしについて何を話しましたか？
昨日の仕事の話をした？
어제 제주도에 대해 무슨 얘기했어?
어제 요리 얘기했어?
어제 과일 얘기했어?
Change it to what we had yesterday.
Explain it again, please
Please change the list
Explique-moi ça
We met for the first time yesterday.
It was the last time
What is the first thing to do?
What was the first question?
"""


@pytest.mark.parametrize("question", ONLY_SAID.strip().splitlines())
def test_only_a_time_is_named(question: str) -> None:
    assert asks_what_was_said(question)
    assert named_periods(question, NOW) or session_asked(question)


@pytest.mark.parametrize("question", WITH_A_SUBJECT.strip().splitlines())
def test_a_subject_is_one_in_its_own_language(question: str) -> None:
    assert not asks_what_was_said(question)


@pytest.mark.parametrize("word", ["했", "이야기했던", "这个", "しましたっけ", "about work ", "may "])
def test_need_19_many_such_words_take_no_time(word: str) -> None:
    started = time.thread_time()
    assert not asks_what_was_said((word * SAID_MAX_CHARS)[: SAID_MAX_CHARS - 1] + "猫")
    assert time.thread_time() - started < 2
