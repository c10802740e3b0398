"""Which sides of a turn are stored, and which messages are searched for."""

from __future__ import annotations

import time
from functools import partial
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.capture.turn_filter import (
    SYNTHETIC_PREFIXES,
    Verdict,
    is_synthetic,
    is_trivial_query,
    judge,
    only_goes_on,
    own_words,
    weighs,
)

MIN_CHARS = 40
judged = partial(judge, min_chars=MIN_CHARS)
LONG = "The staging database listens on port 5433 and only accepts connections from the build network."
REPORT = LONG * 3


def reason_to_skip(user: str, assistant: str, min_chars: int = MIN_CHARS) -> str:
    """Why nothing of a turn is stored; empty when some of it is."""
    verdict = judge(user, assistant, min_chars)
    return "" if verdict.store_user or verdict.store_assistant else verdict.reason


ACKNOWLEDGEMENTS = [
    "ok", "OK!!!", "okkkk", "k", "Thanks!", "thaaanks", "thank you very much", "sounds good, thanks!",
    "got it 👍🏽", "yes please", "no", "continue", "go on", "please continue", "You're welcome!", "You’re welcome",
    "thanks thanks thanks", "Danke schön!", "alles klar", "passt", "in Ordnung, danke", "mach weiter",
    "merci beaucoup", "D’accord", "c'est bon", "gracias", "sí, claro", "muchas gracias", "vale", "obrigado!",
    "muito obrigada", "não", "grazie mille", "va bene", "dank je wel", "bedankt", "dziękuję", "dzieki",
    "w porządku", "спасибо!", "большое спасибо", "понял", "teşekkürler", "Anladım", "ANLADIM", "sağ ol", "tamam",
    "好的，谢谢！", "好的谢谢", "收到", "继续", "謝謝", "ありがとうございます！", "はい、お願いします", "了解です",
    "네 감사합니다", "네감사합니다", "알겠습니다", "ㅇㅋ", "धन्यवाद", "ठीक है 🙏", "شكراً جزيلاً", "شكرا", "حسناً",
    "תודה רבה", "ขอบคุณครับ", "terima kasih", "cảm ơn", "ευχαριστώ", "hello", "Hi there!", "👍", "🎉🎉", ":-)",
    "<3", "???", "...", "gracias, eso es todo", "merci, c'est tout", "danke, das wars", "grazie, è tutto",
    "Bye, see you tomorrow", "Okay, I have to go now, bye!", "Thanks a lot, have a nice weekend", "one moment please",
    "Tschüss, bis morgen", "Danke, das war's für heute. Schönen Feierabend!", "Merci, à demain", "¡Hasta pronto!",
    "A domani, buona serata", "明天见", "じゃあ、また明日",
]  # fmt: skip

CONTENT = [
    "What port?", "5432", "2", "no, use port 5433", "ok, but the deploy is broken", "yes I live in Berlin",
    "我的猫叫米粒", "はい、猫の名前はミケです", "네 제 이름은 민수", "E_CONN_17", "c++", "не работает",
    "ne marche pas", "danke, aber falsch", "मेरा नाम राम है", "اسمي احمد", "ok3", "main.py", "1️⃣", "why",
    "see you Monday", "until Friday", "I have to go to Berlin", "bis Montag",
]  # fmt: skip

STATED = (
    "no, use port 5433", "ok, but the deploy is broken", "yes I live in Berlin", "네 제 이름은 민수", "मेरा नाम राम है",
    "I have to go to Berlin",
)  # fmt: skip


@pytest.mark.parametrize("text", ACKNOWLEDGEMENTS)
def test_acknowledgements_are_neither_stored_nor_searched(text: str) -> None:
    assert is_trivial_query(text)
    assert judged(text, "You are welcome, tell me if there is anything else I can do for you today.") == Verdict(
        False, False, "acknowledgement"
    )
    assert reason_to_skip(text, "Sure.") == "acknowledgement"


@pytest.mark.parametrize("file", ["acknowledgements.txt", "acknowledgements_unspaced.txt"])
def test_every_phrase_of_the_lists_is_an_acknowledgement(file: str) -> None:
    listing = files("hermes_memory_pgvector.capture").joinpath(file).read_text(encoding="utf-8")
    phrases = [phrase for part in listing.split(",") if (phrase := part.strip())]
    assert len(phrases) > 200
    assert [phrase for phrase in phrases if not is_trivial_query(phrase)] == []


@pytest.mark.parametrize("text", ACKNOWLEDGEMENTS)
def test_an_acknowledgement_does_not_lose_the_report_after_it(text: str) -> None:
    assert judged(text, REPORT) == Verdict(False, True, "acknowledgement")


@pytest.mark.parametrize("text", CONTENT)
def test_short_content_stays_with_its_long_answer(text: str) -> None:
    assert not is_trivial_query(text)
    assert judged(text, LONG) == Verdict(True, True, "")
    assert reason_to_skip(text, "Noted.") == ("" if text in STATED else "too_short")


@pytest.mark.parametrize(
    "text",
    [
        "run the tests again", "OK, run the tests again please.", "Fix it!", "revert that", "undo",
        "still failing", "same error", "fix it and run it again", "ok, lass die tests nochmal laufen",
        "mach das rückgängig",
        "geht immer noch nicht", "immer noch derselbe Fehler", "2", "1.", "b)", "Option 2", "1 and 3", "1, 2 und 4",
    ],
)  # fmt: skip
def test_what_only_goes_on_names_nothing_and_is_stored_with_its_answer(text: str) -> None:
    assert only_goes_on(text)
    assert judged(text, LONG) == Verdict(True, True, "")


@pytest.mark.parametrize(
    "text",
    [
        "run the tests", "deploy", "commit it and push it", "fix the timeout", "undo the migration",
        "the same error as in E_CONN_17", "still failing in invoice.py", "404", "10.2.3.4", "v2", "A4",
        "nochmal zum Loadbalancer", "run it with redis",
    ],
)  # fmt: skip
def test_what_names_something_does_not_only_go_on(text: str) -> None:
    assert not only_goes_on(text)


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b\ufeff", "\x01"])
def test_blank_messages(text: str) -> None:
    assert is_trivial_query(text)
    assert judged(text, LONG) == Verdict(False, True, "empty")
    assert judged(text, "") == Verdict(False, False, "empty")
    assert judged(LONG, text) == Verdict(True, False, "empty")


def test_the_floor_is_the_length_of_one_side() -> None:
    assert reason_to_skip("x" * 39, "y" * 39) == "too_short"
    assert judged("x" * 40, "y" * 39) == Verdict(True, True, "")
    assert judged("x" * 39, "y" * 40) == Verdict(True, True, "")
    assert reason_to_skip("  " + "x" * 39 + "  ", "") == "too_short"
    assert judged(LONG, "Got it.") == Verdict(True, False, "acknowledgement")
    assert judge("port?", "5432", 0) == Verdict(True, True, "")


@pytest.mark.parametrize(
    ("text", "enough"),
    [
        ("我们把生产数据库搬到了法兰克福的新机房里", True),
        ("请记住我住在柏林", False),
        ("本番のデータベースは東京リージョンにあります", True),
        ("우리 서비스의 운영 데이터베이스는 서울에 있습니다", True),
        ("a" + " " * 500 + "b" * 20, False),
        (" " * 5000 + "b" * 40, True),
        ("word " * 100_000, True),
    ],
)
def test_characters_that_carry_more_count_more(text: str, enough: bool) -> None:
    assert weighs(text, 40) is enough
    assert (reason_to_skip(text, "") == "") is enough


@pytest.mark.parametrize(
    ("user", "assistant"),
    [
        ("Brightwater moved delivery to Feb 2", "Brightwater delivery is 2 February."),
        ("checkout_v3 rollout to 40%", "checkout_v3 is at 40% now."),
        ("Mia hat jetzt Schuhgröße 36", "Gemerkt, Schuhgröße 36."),
        ("Which port has staging now?", "Port 5433 since Monday."),
    ],
)
def test_need_03_a_short_exchange_that_tells_something_is_stored(user: str, assistant: str) -> None:
    assert judged(user, assistant) == Verdict(True, True, "")


@pytest.mark.parametrize(
    "note", ["HR 88, BP 130/80, K 4.2, afeb", "B7 Hb 9.4, mobilised to chair", "钢琴课改到周日下午两点了"]
)
def test_need_03_a_note_in_few_words_is_stored_without_its_reply(note: str) -> None:
    assert judged(note, "Noted.") == Verdict(True, False, "acknowledgement")


@pytest.mark.parametrize(
    ("statement", "reply"),
    [
        ("ferritin is up at 31 now", "Nice, the iron helped."),
        ("Mia is allergic to nuts", "Okay."),
        ("I'm vegan now", "Got it."),
        ("i quit my job", "Oh, how come?"),
        ("we had a baby girl", "Congratulations!"),
        ("we got a dog", "How nice!"),
        ("Rent is 1280 now", "Okay."),
        ("I can’t stand coriander", "Noted."),
        ("dentist tuesday 14:30", "Okay."),
        ("Use tabs, not spaces", "Okay."),
        ("Ich bin schwanger", "Glückwunsch!"),
        ("Ik ben zwanger", "Gefeliciteerd!"),
        ("Tengo gatos siameses", "Qué bien."),
        ("J'ai trois chats", "D'accord."),
    ],
)
def test_need_03_a_short_statement_is_stored_whatever_the_reply(statement: str, reply: str) -> None:
    assert judged(statement, reply).store_user


@pytest.mark.parametrize(
    ("user", "assistant"),
    [
        ("Can you make it shorter?", "Sure, here you go."),
        ("Wie geht es dir heute?", "Mir geht es gut, danke!"),
        ("Please try that once more", "Here is another version."),
        ("Run the tests again", "All 12 passed."),
        ("What port?", "5432"),
        ("Are we done yet?", "Yes."),
        ("when is the dentist appointment", "At nine."),
        ("wo ist der Ersatzschlüssel", "Beim Nachbarn."),
        ("show me my calendar", "Here it is."),
        ("this isn't what I want", "Sorry."),
        ("make the button blue", "Done."),
        ("no, the other one", "Okay."),
        ("Mach das nochmal kürzer", "Gerne."),
        ("it's broken again", "Let me look."),
    ],
)
def test_a_short_exchange_that_tells_little_is_not(user: str, assistant: str) -> None:
    assert reason_to_skip(user, assistant) == "too_short"


def test_an_operator_who_wants_longer_turns_gets_them() -> None:
    assert (
        reason_to_skip("Brightwater moved delivery to Feb 2", "Brightwater delivery is 2 February.", 500) == "too_short"
    )


@pytest.mark.parametrize("prefix", SYNTHETIC_PREFIXES)
def test_need_12_synthetic_turns_are_not_the_user_s_words(prefix: str) -> None:
    for text in (f"{prefix} abc finished with exit code 0 and wrote a lot of output]", f"\n {prefix}\n\nmore text"):
        assert is_synthetic(text)
        assert own_words(text) == text
        assert judged(text, LONG) == Verdict(False, True, "synthetic")
        assert judged(text, "Fine.") == Verdict(False, False, "synthetic")


def test_need_12_words_behind_a_note_of_the_host_are_the_user_s() -> None:
    switched = "[Note: model was just switched from a to b via c. Adjust your self-identification accordingly.]"
    session = "[System note: The user's previous session expired due to inactivity.]"
    assert own_words(f"{switched}\n\nWhat port?") == "What port?"
    assert own_words(f"{session}\r\n\r\n{switched}\n\nWhat port?\n\nTell me.") == "What port?\n\nTell me."
    assert own_words("What port?") == "What port?"
    for unchanged in (switched, f"{switched}\n\n ", f"{switched} on one line", f"[Voice channel now: x]\n\n{session}"):
        assert own_words(unchanged) == unchanged
        assert is_synthetic(unchanged)


DOCUMENT = (
    "[The user sent a document: 'lease.pdf'. It is saved at: /cache/lease.pdf. Its text is not inlined here (it's a "
    "binary format such as PDF or DOCX). To read it, extract the document's text yourself before answering.]"
)
IMAGE = (
    "[The user sent an image~ Here's what I can see:\nA note: [x] buy milk\n\nand bread]\n"
    "[If you need a closer look, use vision_analyze with image_url: /cache/list [1].png ~]"
)

ATTACHED = (
    "[The user attached an image. Here's what it contains:\nA note: [x] buy milk\n\nand bread]\n"
    "[If you need a closer look, use vision_analyze with image_url: /tmp/list [1].png]"
)


@pytest.mark.parametrize(
    "note",
    [
        DOCUMENT,
        IMAGE,
        f"{IMAGE}\n\n{IMAGE}",
        f"[Triggering message id: `17` — use as `message_id` for reply/react/pin.]\n\n{DOCUMENT}\n\n{IMAGE}",
        "[The user sent a voice message: /cache/a.ogg (duration: 3 s)]",
        "[The user sent an audio file attachment: 'a.mp3'. It is saved at: /cache/a.mp3.]",
        "[The user sent a video attachment: 'a.mp4'. It is saved at: /cache/a.mp4.]",
        "[The user sent an image but I couldn't quite see it this time (>_<)]",
        # One that is not put into the message, for its size for example.
        "[The user sent a text document: 'a.log'. Its content has been included below. The file is also saved at: /a]",
        "[voice message could not be transcribed]",
        # The command line's, and its terminal interface's.
        ATTACHED,
        f"{ATTACHED}\n\n{ATTACHED}",
        "[The user attached an image but it couldn't be analyzed. You can try it using image_url: /a.png]",
        "[The user attached an image but analysis failed ([Errno 2]). You can try it using image_url: /a.png]",
        "[The user attached an image:\nA [b]\n\nc]\n[You can examine it with vision_analyze using image_url: /a.png]",
        "[The user attached an image but analysis failed.]\n"
        "[You can examine it with vision_analyze using image_url: /a.png]",
    ],
)
def test_need_12_what_a_user_writes_beside_an_attachment_is_theirs(note: str) -> None:
    words = "Keep in mind [please] that our lease\n\nends in May of next year"
    assert own_words(f"{note}\n\n{words}") == words
    assert judged(own_words(f"{note}\n\n{words}"), LONG) == Verdict(True, True, "")
    for silent in (own_words(note), own_words(f"{note}\n\n(The user sent a message with no text content)")):
        assert judged(silent, LONG) == Verdict(False, True, "synthetic")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        # As the host passes on a turn with images, and as it writes that turn down.
        ("[1 image] Our lease ends in May", "Our lease ends in May"),
        ("[1 image] Our lease [x]\n\nends\n\n[Image attached at: /a b/c.png]", "Our lease [x]\n\nends"),
        ("Our lease ends\n[screenshot]\n[screenshot]", "Our lease ends"),
        ("[screenshot]\nOur lease ends\n", "Our lease ends"),
        ("Our lease\n\n[Image attached: http://a/b.png]\n[Attached image — stripped after compression]", "Our lease"),
        ("[1 image] [System note: The session expired.]\n\nWhat port?\n\n[Image attached at: /c.png]", "What port?"),
        ("[3 images]", ""),
        ("[screenshot]\n[screenshot]", ""),
        ("[1 image] What do you see in this image?\n\n[Image attached at: /c.png]", ""),
        ("What do you see in this image?\n\n[Image attached at: /c.png]\n[screenshot]", ""),
        ("What do you see in this image?", "What do you see in this image?"),
        ("The build log says [error]\n\n[screenshot of it]", "The build log says [error]\n\n[screenshot of it]"),
    ],
)
def test_need_12_what_the_host_says_of_images_is_not_the_user_s_words(message: str, words: str) -> None:
    assert own_words(message) == words


SKILL = (
    '[IMPORTANT: The user has invoked the "tides" skill, indicating they want you to follow its instructions. The full '
    "skill content is loaded below.]\n\n# Tides\nAlways look up Emden first."
)
ASKED = "The user has provided the following instruction alongside the skill invocation: "
SKILLS = (
    '[IMPORTANT: The user has invoked the "sea" skill bundle, loading 2 skills together. Treat every skill below as '
    "active guidance for this turn.]\n\nBundle: sea\nSkills loaded: tides, winds"
)
LOADED = '[Loaded as part of the "sea" skill bundle.]\n\n# Tides\nAlways look up Emden first.'


def test_need_12_a_skill_that_the_user_invokes_is_not_the_user_s_words() -> None:
    words = "When is high tide\n\nin Leer?"
    assert own_words(f"{SKILL}\n\n{ASKED}{words}") == words
    assert own_words(f"{SKILL} It says: {ASKED}x\n\n{ASKED}{words}\n\n[Runtime note: no tools]") == words
    assert own_words(f"{SKILLS}\n\nUser instruction: {words}\n\n{LOADED}\n\n{LOADED}") == words
    for alone in (SKILL, f"{SKILLS}\n\n{LOADED}"):
        assert judged(own_words(alone), LONG) == Verdict(False, True, "synthetic")


def test_need_12_a_document_that_stands_in_the_message_is_not_the_user_s_words() -> None:
    text = (
        "[The user sent a text document: 'a.txt'. Its content has been included below. The file is also saved at: /a]"
        "\n\n[Content of a.txt]:\nthe words of somebody else\n\nWhat does it say?"
    )
    assert judged(own_words(text), LONG) == Verdict(False, True, "synthetic")


def test_a_voice_message_that_was_written_down_is_the_user_s_words() -> None:
    spoken = "[Voice] Please remember that the lease of the office ends in May"
    assert judged(own_words(spoken), LONG) == Verdict(True, True, "")


def test_notes_without_end_hold_no_hook_up() -> None:
    text = "[System note: x]\n\n" * 25_000 + "What port?"
    assert own_words(text) == "What port?"


@settings(deadline=None)
@given(st.text(max_size=80), st.text(max_size=80), st.integers(0, 60))
def test_verdicts_are_consistent(user: str, assistant: str, min_chars: int) -> None:
    verdict = judge(user, assistant, min_chars)
    assert (verdict.reason == "") == (verdict.store_user and verdict.store_assistant)
    assert verdict.store_user <= bool(user.strip()) and verdict.store_assistant <= bool(assistant.strip())
    if verdict.store_user or verdict.store_assistant:
        assert reason_to_skip(user, assistant, 0) == ""


def test_judging_costs_a_hook_little() -> None:
    user, assistant = "thanks so much " * 26 + "x", "a b " * 250_000
    assert min(_cpu_s(user, assistant) for _ in range(5)) < 0.1


def _cpu_s(user: str, assistant: str) -> float:
    started = time.thread_time()
    judged(user, assistant)
    return time.thread_time() - started
