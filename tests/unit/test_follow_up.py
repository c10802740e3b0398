"""Which messages are about what an earlier one names."""

from __future__ import annotations

import time

import pytest

from hermes_memory_pgvector.recall.follow_up import goes_on, in_context, is_follow_up, subject_of

FOLLOW_UPS = """
And how large is its budget?
What is his number?
When did they marry?
So what did she decide about the move?
On which port can it be reached?
does he have a dog
Where do we keep the spare data of it?
And his number?
What about Sundays?
How about the evening?
And on Fridays?
Und am Freitag?
Wie hoch ist sein Budget?
Was ist mit Sonntag?
Wann fing er damit an?
¿Y el domingo?
¿Dónde viven ellos?
How much does that cost?
When was that?
What happens after that?
What did we do before that?
Which one is cheaper?
the next one?
What else?
On Sundays?
And the tour?
Was kostet das?
Wer hat das gemacht?
Was machen wir danach?
Combien ça coûte ?
¿Cuándo fue eso?
它的预算是多少？
那个多少钱？
然后呢？
价格呢？
那他的电话号码是多少？
"""
ALONE = """
How large is the budget of garnet?
Where did my brother park his car?
When did John tell his mom?
Who looks after Ada and her cats?
How long do suppliers wait for their money?
does anna like her job?
How long does it take to bake bread?
Is it going to rain tomorrow?
What time is it?
What does the gym cost, and when is it due?
Is there a key, and who has it?
And what did we pay for the oven?
Do you remember where the spare key is?
I like it.
Her number is 4711.
It is late.
Should I call the plumber if they are open?
Wo hat mein Bruder sein Rad?
What does that mean?
Is that possible?
What is that song I like?
Did that restaurant call?
Which one of the kayaks is cheaper?
In which drawer is the key?
Where is the letter that we wrote about that?
Wer macht das Essen?
Wie lange dauert es, Brot zu backen?
Comment ça va ?
¿Por eso vino Marta?
你在做什么呢？
如果我选错了呢？
如果她还是很生气怎么办？
那个39岁的人的电话号码是多少？
"""


@pytest.mark.parametrize("text", FOLLOW_UPS.strip().splitlines())
def test_a_message_that_names_nothing_itself_is_about_the_one_before(text: str) -> None:
    assert is_follow_up(text)


@pytest.mark.parametrize("text", ["", *ALONE.strip().splitlines(), "And his number? " * 10])
def test_a_message_with_a_subject_of_its_own_is_not(text: str) -> None:
    assert not is_follow_up(text)


def test_what_it_is_about_stands_before_the_first_question() -> None:
    about = "Who repairs the oven?"
    assert in_context("Thanks! And his number? Also, when is the rent of the office due?", about) == (
        "Who repairs the oven? his number?",
        "when is the rent of the office due?",
    )
    assert in_context("And on Fridays?", about) == ("Who repairs the oven? on Fridays?",)
    assert in_context("When is the rent due?", about) == ("When is the rent due?",)
    assert in_context("What is his number?", "") == ("What is his number?",)


def test_what_about_another_thing_may_be_a_new_subject() -> None:
    about, another = "When does the gym open?", "What about the spare key?"
    assert in_context(another, about) == (f"{about} {another}", another)
    assert in_context("What about on Sundays?", about) == (f"{about} What about on Sundays?",)
    for message, searched in (("And the tour?", "the tour?"), ("Und mein Sohn?", "Und mein Sohn?"), ("价格呢？",) * 2):
        assert in_context(message, about) == (f"{about} {searched}", searched)
        assert subject_of(message, about) == f"{about} {searched}"
    for message, searched in (("And Kyoto?", "Kyoto?"), ("and 4440?", "4440?"), ("¿Y Moussa?", "¿Y Moussa?")):
        assert in_context(message, about) == (f"{about} {searched}", searched)
        assert subject_of(message, about) == f"{about} {searched}"
    for message in ("And after work?", "and why?", "And tomorrow?", "Und danach?", "¿Y luego?", "and yours?"):
        assert len(in_context(message, about)) == 1
    for message in ("and today?", "¿y ahora?", "¿Y mañana?", "et maintenant ?", "et demain ?", "and without it?"):
        assert len(in_context(message, about)) == 1
        assert subject_of(message, about) == about
    for message in ("And the one before that?", "and the next one?", "¿Y el anterior?", "Und das letzte?", "然后呢？"):
        assert len(in_context(message, about)) == 1
        assert subject_of(message, about) == about
    assert subject_of(another, about) == f"{about} {another}"
    assert subject_of(another, "") == another
    assert subject_of(another, "a" * 240) == another


@pytest.mark.parametrize(
    ("about", "message", "searched"),
    [
        ("What did we do on Monday?", "And on Tuesday?", "What did we do on Tuesday?"),
        ("What did we do on Monday?", "And in June?", "What did we do in June?"),
        ("What did we do on Monday?", "And in May?", "What did we do in May?"),
        ("What did we do at the end of October?", "And on Monday?", "What did we do Monday?"),
        ("What did we do last summer?", "And over Christmas?", "What did we do over Christmas?"),
        ("Who called yesterday?", "What about last week?", "Who called last week?"),
        ("Worüber haben wir am Montag gesprochen?", "Und am Dienstag?", "Worüber haben wir am Dienstag gesprochen?"),
        ("De quoi avons-nous parlé lundi ?", "Et mardi ?", "De quoi avons-nous parlé mardi ?"),
        ("¿De qué hablamos el lunes?", "¿Y el martes?", "¿De qué hablamos el martes?"),
        ("周一我们聊了什么？", "周二呢？", "周二我们聊了什么？"),
        ("上周我们聊了什么？", "那昨天呢？", "昨天我们聊了什么？"),
    ],
)
def test_another_time_takes_the_place_of_the_one_that_was_asked_for(about: str, message: str, searched: str) -> None:
    assert in_context(message, about) == (searched,)
    assert subject_of(message, about) == searched


def test_a_time_beside_a_question_without_one_is_joined_to_it() -> None:
    about = "When does the gym open?"
    assert in_context("And on Tuesday?", about) == (f"{about} on Tuesday?",)
    assert subject_of("And on Tuesday?", about) == about
    joined, _ = in_context("And the tour?", "What did we do on Monday?")
    assert joined == "What did we do on Monday? the tour?"


def test_a_conversation_stays_about_the_last_question_that_names_something() -> None:
    about = "Who repairs the oven?"
    assert subject_of(about, "") == about
    assert subject_of("And his number?", about) == about
    assert subject_of(f"{about} And when is the rent due?", "") == "when is the rent due?"
    for reply in ("Great, thanks!", "Great, that helped a lot!", "Whatever."):
        assert subject_of(reply, about) == about
    assert subject_of("I moved to a new flat in Oslo.", about) == "I moved to a new flat in Oslo."
    assert subject_of("The log says: " + "out of memory " * 100, about) == ""


@pytest.mark.parametrize(
    "part", ["it is ", "and ", "und ", "its", " " * 9, "it still really also ", "that ", "does that ", "呢", "in a "]
)
def test_need_19_many_such_words_take_no_time(part: str) -> None:
    started = time.thread_time()
    is_follow_up(part * 10_000)
    is_follow_up((part * 120)[:119] + "?")
    assert time.thread_time() - started < 2


GO_ON = """
No, I meant 648, typo
Sorry I meant 8.40 for the red one
No, I meant Friday. And her name is Birte
scratch that, not petrol, I took the moss green one
wrong: the 9th is the optician
wait, not lift 2, lift 3
I said +1, make that +2
correction, 84 plates
it was the connector, corroded pin 2
Turned out it was the rear left hose
I skipped it with --to-offset 88120935
we moved it to the 9th
that did it, 45 min for the role
She starts on Monday
Her number is 0171 88
Nein, ich meinte die Gliederung
Tippfehler: nicht Brandt sondern Brenner
Es lag am Zeilenabstand
perdón, quería decir el jueves
era el ventilador, 130 euros
Lo cambiamos a Línea Directa
that did it
Thanks, that worked
I meant to write Friday
my mistake, Birte
not Monday, Tuesday
not at 5, at 6
Non, je voulais dire mardi
moving the db off nfs did it
The ground lift did the trick
lag an der Butter, war zu warm
Der neue Filter hat geholfen
le nettoyage du tambour a suffi
con otro cable funcionó
no 502s since, with the shorter timeout
Change of plan: the 2nd, same time
Änderung: doch erst am 2. Dezember
Nein Quatsch, 46 Euro
sorry, 48. 72 was the old plan
sorry, 48 euros
the noise is gone with the new belt
mit dem neuen Kabel läuft alles wieder
hat an der Butter gelegen
changed my mind about the limit. 5000
finalement 3 décembre, ils ont avancé
make it 6, Poppy is in
"""
STAND_ALONE = """
The raffle at the autumn regatta made 648
The plumber fixed it
My sister said he would come
Dylan forgot his glasses
No, thanks
No idea who painted the door
Not bad, thanks: the soup was fine
Correction fluid costs 3 euros
The correction of the exam is done
It's Ben who has the key
It was 8 degrees this morning
It is raining all day
Did you move it to the 9th?
No, that's all, thanks
no it's fine
That was great, I love it
Nein, das ist gut so
Non, c'est bon
No, not yet
I am going home, I meant to buy milk
Sorry, I meant well by the gift
Not urgent, take your time
Not much, just reading
My bad knee hurts
My mistake was to trust the plumber
Al final de mes pagamos el alquiler
Grandma is gone to Spain
There has been no rain since June
Ada works now at the bakery
We did the job for 300 euros
Anna geht wieder zur Schule
Das Buch hat auf dem Tisch gelegen
Jetzt geht alles an Maria
Mi hermana me ayudó con la mudanza
Paul a aidé Camille au jardin
sorry, 5 minutes late
The plumber did it by hand
make it a good one for Ben
"""


@pytest.mark.parametrize("text", GO_ON.strip().splitlines())
def test_need_37_a_correction_and_what_has_only_a_pronoun_go_on_about_what_was_said(text: str) -> None:
    assert goes_on(text)


@pytest.mark.parametrize("text", STAND_ALONE.strip().splitlines())
def test_need_37_a_statement_with_a_subject_of_its_own_does_not_go_on(text: str) -> None:
    assert not goes_on(text)
