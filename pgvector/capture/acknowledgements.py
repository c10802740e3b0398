"""Recognising a message that says nothing but "ok", "thanks" or "hello", in the languages people use.

A message counts when it can be cut into phrases of the vocabulary with nothing left over; emoji, punctuation, accents,
case and stretched letters do not matter.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_MAX_CHARS: Final = 400  # nobody acknowledges at greater length

# Phrases of languages that separate words, divided by commas.
_SPACED: Final = """
ok, okay, okey, okie, okie dokie, oki, k, kk, o k, k thanks, yes, yep, yeah, yup, ya, ye, aye, yes please, no,
nope, nah, no thanks, no thank you, sure, sure thing, of course, certainly, absolutely, definitely, exactly,
right, alright, all right, correct, true, indeed, agreed, i agree, fine, that's fine, thats fine, fair enough,
fair, good, good job, good work, good one, good stuff, very good, all good, sounds good, sounds great,
looks good, looks great, lgtm, great, great job, great work, nice, nice one, nice work, cool, awesome, amazing,
perfect, excellent, wonderful, brilliant, fantastic, super, neat, sweet, lovely, well done, thanks, thank you,
thank u, thankyou, thx, thnx, tnx, tks, ty, tysm, tyvm, cheers, many thanks, thanks a lot, thanks a million,
thanks a bunch, thank you very much, thank you so much, thanks so much, thanks very much, thanks again,
thanks for that, thanks for your help, thank you for your help, thanks for the help, thank you again,
much appreciated, appreciated, i appreciate it, appreciate it, got it, gotcha, i got it, i see, ah, aha, oh,
oh ok, ooh, hm, hmm, mm, mhm, uh huh, uhu, huh, wow, understood, i understand, noted, roger, roger that,
copy that, acknowledged, ack, makes sense, that makes sense, that works, works for me, that works for me,
it works, works, it worked, will do, done, do it, please do, go, go ahead, go for it, go on, carry on,
keep going, continue, please continue, continue please, proceed, please proceed, next, next one, please, pls,
plz, again, try again, retry, more, stop, wait, never mind, nevermind, nvm, no problem, no worries, np, no prob,
you're welcome, youre welcome, you are welcome, yw, my pleasure, anytime, glad to help, happy to help, lol,
haha, hahaha, hehe, ha, xd, that's all, thats all, that's it, thats it, that is all, hi, hello, hey, hiya,
hello there, hi there, hey there, howdy, yo, good morning, good evening, good afternoon, good night, bye,
goodbye, bye bye, see you, see ya, cya, take care, test, testing, ping, so, well, then, and, great thanks, now,
for now, for today, very, much,

ja, jawohl, jep, jo, joa, jup, nein, nee, ne, doch, gut, sehr gut, alles gut, alles klar, klar, na klar, genau,
stimmt, richtig, passt, passt so, das passt, in ordnung, geht klar, einverstanden, verstanden, verstehe,
ich verstehe, danke, danke dir, danke euch, danke schon, dankeschon, danke sehr, danke vielmals, vielen dank,
besten dank, herzlichen dank, tausend dank, dank dir, merci vielmals, bitte, bitte sehr, bitte schon, gern,
gerne, gern geschehen, gerne doch, kein problem, prima, toll, klasse, spitze, perfekt, wunderbar, ausgezeichnet,
weiter, mach weiter, bitte weiter, weiter so, mach das, mach mal, los, los gehts, los geht's, nochmal, noch mal,
fertig, erledigt, hallo, moin, servus, guten tag, guten morgen, guten abend, gute nacht, tschuss, tschuess,
ciao, bis dann, bis spater, schon, ach so, achso, naturlich, sicher, super danke, ok danke, stark, krass,
dankeschoen, danke schoen, bitte schoen, fur alles, fuer alles,

oui, ouais, ouaip, non, d'accord, daccord, bien, bien sur, tres bien, c'est bon, cest bon, c'est bien,
c'est parfait, ca marche, ca va, ca roule, parfait, genial, super merci, merci, merci bien, merci beaucoup,
merci a toi, merci a vous, mille mercis, je vous remercie, je te remercie, de rien, avec plaisir,
je vous en prie, je t'en prie, pas de probleme, pas de souci, compris, j'ai compris, je comprends, je vois,
entendu, note, bien note, exact, exactement, continue stp, continuez, vas y, allez y, allez, encore, suivant,
s'il te plait, s'il vous plait, stp, svp, bravo, chouette, excellent merci, bonjour, bonsoir, salut, coucou,
bonne nuit, au revoir, a bientot, a plus, pour tout,

si, claro, claro que si, por supuesto, vale, de acuerdo, bueno, muy bien, esta bien, todo bien, perfecto,
estupendo, excelente, genial gracias, gracias, muchas gracias, mil gracias, muchisimas gracias,
gracias por todo, te lo agradezco, de nada, no hay problema, sin problema, entendido, entiendo, ya veo,
lo entiendo, comprendo, exacto, correcto, listo, hecho, dale, sigue, sigue asi, siga, continua,
continue por favor, adelante, por favor, otra vez, siguiente, hola, buenas, buenos dias, buenas tardes,
buenas noches, adios, hasta luego, hasta manana, chao, orale, okey gracias, que bien, con gusto,

sim, nao, claro que sim, com certeza, certo, ta, ta bom, ta certo, tudo bem, tudo bom, beleza, blz, valeu, vlw,
show, otimo, perfeito, legal, massa, obrigado, obrigada, muito obrigado, muito obrigada, brigado, brigada, obg,
agradecido, por nada, imagina, sem problemas, sem problema, entendi, entendido obrigado, compreendo, combinado,
fechado, pronto, feito, pode continuar, continua por favor, prossiga, vai em frente, pode ir, manda ver, isso,
isso mesmo, de novo, proximo, ola, oi, bom dia, boa tarde, boa noite, tchau, ate logo, ate mais, joia,
muito bem, muito bom, bacana,

certo che si, certamente, va bene, vabbe, tutto bene, tutto ok, bene, molto bene, benissimo, perfetto, ottimo,
fantastico, grazie, grazie mille, mille grazie, tante grazie, molte grazie, ti ringrazio, la ringrazio,
grazie a te, grazie a lei, prego, di niente, di nulla, figurati, nessun problema, capito, ho capito, capisco,
chiaro, d'accordo, esatto, giusto, fatto, vai, vai avanti, avanti, procedi, prosegui, continua cosi, per favore,
ancora, buongiorno, buonasera, buonanotte, salve, arrivederci, a dopo, certo grazie, perfetto grazie,
grazie di tutto, bravissimo,

nee hoor, jazeker, zeker, natuurlijk, goed, heel goed, goed zo, prima zo, is goed, dat is goed, komt goed,
akkoord, oke, okee, begrepen, ik begrijp het, snap ik, ik snap het, duidelijk, dank je, dankje, dank je wel,
dankjewel, dank u, dank u wel, bedankt, hartelijk dank, hartstikke bedankt, heel erg bedankt, graag gedaan,
graag, geen probleem, geen dank, mooi, top, klopt, precies, ga door, ga verder, verder, doe maar, alsjeblieft,
alstublieft, volgende, opnieuw, hoi, doei, goedemorgen, goedemiddag, goedenavond, goedendag, tot ziens, lekker,
fijn,

tak, nie, no dobra, dobrze, dobra, w porzadku, spoko, jasne, oczywiscie, pewnie, zgoda, zgadza sie, dokladnie,
racja, rozumiem, zrozumiano, zrozumialem, zrozumialam, swietnie, super dzieki, doskonale, idealnie, fajnie,
dzieki, dzieki wielkie, wielkie dzieki, dziekuje, dziekuje bardzo, bardzo dziekuje, serdecznie dziekuje, prosze,
prosze bardzo, nie ma za co, nie ma problemu, nie ma sprawy, kontynuuj, dalej, jeszcze raz, zrobione, gotowe,
czesc, hej, siema, dzien dobry, dobry wieczor, dobranoc, do widzenia, pa, na razie,

да, нет, spasibo, ага, угу, ок, окей, хорошо, ладно, ясно, понятно, понял, поняла, понятно спасибо, принято, согласен,
согласна, договорились, конечно, точно, верно, правильно, отлично, супер, класс, круто, здорово, прекрасно,
замечательно, идеально, спасибо, большое спасибо, спасибо большое, огромное спасибо, спс, благодарю,
благодарю вас, пожалуйста, не за что, без проблем, нет проблем, продолжай, продолжайте, дальше, давай,
давай дальше, вперед, еще раз, еще, готово, сделано, привет, здравствуйте, здравствуй, добрый день, доброе утро,
добрый вечер, спокойной ночи, пока, до свидания, так, добре, гаразд, дякую, дуже дякую, щиро дякую, будь ласка,
зрозуміло, ні, чудово, привіт,

evet, hayir, yok, tamam, tamamdir, olur, peki, tabii, tabi, tabii ki, elbette, aynen, dogru, kesinlikle,
anladim, anlasildi, iyi, cok iyi, guzel, cok guzel, harika, mukemmel, super olmus, tesekkurler, tesekkur ederim,
cok tesekkurler, cok tesekkur ederim, sag ol, sagol, sag olun, sagolun, eyvallah, rica ederim, bir sey degil,
sorun degil, sorun yok, devam, devam et, devam edin, lutfen, tekrar, bitti, merhaba, selam, gunaydin,
iyi aksamlar, iyi geceler, iyi gunler, gorusuruz, hosca kal, hos bulduk,

نعم, لا, اي, ايوه, ايوا, اجل, بلى, حسنا, طيب, تمام, اوكي, اوك, موافق, متفق, صحيح, بالضبط, بالتاكيد, اكيد, طبعا,
مفهوم, فهمت, واضح, شكرا, شكرا لك, شكرا لكم, شكرا جزيلا, شكرا كثيرا, الف شكر, مشكور, جزاك الله خيرا,
يعطيك العافيه, عفوا, العفو, لا مشكله, ممتاز, رائع, جميل, احسنت, جيد, جيد جدا, استمر, تابع, اكمل, واصل, من فضلك,
لو سمحت, مره اخرى, مرحبا, اهلا, اهلا وسهلا, السلام عليكم, سلام, صباح الخير, مساء الخير, مع السلامه, خلاص,
ان شاء الله, انشاء الله, الحمد لله, بله, خیر, نه, باشه, خب, درسته, ممنون, خیلی ممنون, متشکرم, مرسی, مرسي, لطفا,
ادامه بده, عالی, خوبه, סבבה, כן, לא, בסדר, אוקיי, אוקי, תודה, תודה רבה, המון תודה, בבקשה, מעולה, מצוין, נהדר,
הבנתי, ברור, תמשיך, המשך, שלום, היי,

हां, हाँ, जी, जी हां, जी हाँ, नहीं, ठीक, ठीक है, ठीक हे, अच्छा, बहुत अच्छा, बहुत बढ़िया, बढ़िया, सही, सही है,
बिल्कुल, ज़रूर, जरूर, समझ गया, समझ गई, समझा, धन्यवाद, बहुत धन्यवाद, बहुत बहुत धन्यवाद, आपका धन्यवाद, शुक्रिया,
बहुत शुक्रिया, कोई बात नहीं, कृपया, जारी रखें, जारी रखो, आगे, आगे बढ़ो, फिर से, हो गया, नमस्ते, नमस्कार, थैंक्स,
ओके, थैंक यू, haan, han, ji, ji haan, nahi, theek hai, thik hai, thik h, accha, acha, achha, bahut accha,
sahi hai, samajh gaya, dhanyavad, dhanyawad, shukriya, namaste, হ্যাঁ, না, ঠিক আছে, আচ্ছা, ধন্যবাদ,
অনেক ধন্যবাদ, চালিয়ে যান, ٹھیک ہے, شکریہ, جی ہاں, بہت شکریہ,

네, 네네, 예, 응, 응응, 어, 아니, 아니요, 아뇨, 그래, 그래요, 좋아, 좋아요, 좋습니다, 알겠어, 알겠어요,
알겠습니다, 알았어, 알았어요, 오케이, 오키, 확인, 확인했습니다, 맞아, 맞아요, 맞습니다, 물론, 물론이죠, 감사,
감사해요, 감사합니다, 정말 감사합니다, 대단히 감사합니다, 고마워, 고마워요, 고맙습니다, 천만에요, 괜찮아요,
괜찮습니다, 완벽해요, 완벽합니다, 훌륭해요, 최고, 최고예요, 굿, 계속, 계속해, 계속해줘, 계속해 주세요,
계속하세요, 진행해, 진행해줘, 진행해 주세요, 다음, 다시, 부탁해, 부탁해요, 부탁합니다, 부탁드립니다, 됐어,
됐어요, 안녕, 안녕하세요, 수고, 수고하세요, 수고하셨습니다, 정말, ㅇㅇ, ㅇㅋ, ㄱㅅ, ㅋㅋ, ㅎㅎ, ㄴㄴ,

da, bine, multumesc, mersi, ano, jo dobre, dobre, dekuji, diky, diky moc, dakujem, igen, nem, rendben, koszonom,
koszi, kyll, kylla, selva, kiitos, hyva, tack, tack sa mycket, tusen tack, bra, jag forstar, takk, tusen takk,
mange takk, tak for det, mange tak, fint, javisst, hvala, u redu, vazi, ναι, οχι, ενταξει, ευχαριστω,
ευχαριστω πολυ, τελεια, καταλαβα, terima kasih, makasih, baik, oke baik, siap, lanjut, lanjutkan, sip, mantap,
cam on, cam on ban, vang, da vang, duoc, duoc roi, tiep tuc, ok ban, salamat, maraming salamat, oo, sige,
asante, asante sana, sawa, ndiyo
"""

# Phrases of languages that do not; also used for Korean words written together.
_UNSPACED: Final = """
好, 好的, 好吧, 好呀, 好啊, 好嘞, 好哒, 好滴, 好了, 行, 行吧, 可以, 可以的, 没问题, 沒問題, 嗯, 嗯嗯, 哦, 噢,
喔, 啊, 呀, 哈, 哈哈, 嘿嘿, 呵呵, 对, 對, 对的, 對的, 是, 是的, 是啊, 没错, 沒錯, 不, 不是, 不用, 不用了, 不要,
不客气, 不客氣, 不用谢, 不用謝, 没事, 沒事, 明白, 明白了, 知道, 知道了, 懂了, 了解, 了解了, 收到, 收到了,
清楚了, 谢谢, 謝謝, 谢谢你, 謝謝你, 谢谢您, 謝謝您, 多谢, 多謝, 感谢, 感謝, 非常感谢, 非常感謝, 十分感谢,
太感谢了, 万分感谢, 谢了, 谢啦, 谢谢啦, 辛苦了, 辛苦, 很好, 太好了, 太棒了, 真棒, 棒, 完美, 不错, 不錯, 厉害,
厲害, 赞, 讚, 牛, 同意, 当然, 當然, 确定, 確定, 继续, 繼續, 请继续, 請繼續, 继续吧, 继续说, 下一步, 下一个,
下一個, 再来, 再來, 再试一次, 请, 請, 麻烦了, 麻煩了, 拜托, 完成, 完成了, 你好, 您好, 嗨, 早, 早安, 早上好,
晚上好, 下午好, 晚安, 再见, 再見, 拜拜, 的, 了, 吧, 好的呢, 就这样, 就這樣, 唔該, 多謝晒, 係, はい, はーい,
うん, うんうん, ええ, いいえ, いや, いえ, おけ, おっけ, オッケー, おっけー, オーケー, オケ, 了解です,
了解しました, りょ, りょうかい, 承知, 承知しました, 承知いたしました, かしこまりました, わかった, わかりました,
分かった, 分かりました, なるほど, なるほどね, そう, そうです, そうですね, そうだね, その通り, その通りです,
いい, いいね, いいよ, いいです, いいですね, よし, よかった, 良い, 良いです, 良いですね, 大丈夫, 大丈夫です,
問題ない, 問題ないです, 問題ありません, ありがと, ありがとう, ありがとうございます, ありがとうございました,
どうもありがとう, どうもありがとうございます, どうもありがとうございました, どうも, 感謝します, サンキュー,
助かります, 助かりました, 助かる, どういたしまして, お願い, お願いします, お願いいたします, おねがいします,
よろしく, よろしくお願いします, よろしくお願いいたします, 続けて, 続けてください, 続き, 続きを,
続きをお願いします, 次, 次へ, もう一度, 完璧, 完璧です, 最高, 最高です, 素晴らしい, 素晴らしいです, すごい,
すごいです, お疲れ様, お疲れ様です, お疲れ様でした, おつかれさま, こんにちは, こんばんは, おはよう,
おはようございます, おやすみ, おやすみなさい, さようなら, またね, やあ, 本当に, とても, ね, よ, です, ครับ, ค่ะ,
คะ, ค่า, จ้า, ใช่, ไม่, ไม่ใช่, โอเค, ตกลง, ได้, ได้เลย, ดี, ดีมาก, ดีครับ, เข้าใจแล้ว, เข้าใจ, รับทราบ, ขอบคุณ,
ขอบคุณมาก, ขอบใจ, ไม่เป็นไร, เยี่ยม, เยี่ยมมาก, ต่อ, ต่อไป, ทำต่อ, สวัสดี, 네, 예, 응, 감사합니다, 감사해요,
고마워요, 고맙습니다, 알겠습니다, 알겠어요, 좋아요, 좋습니다, 확인했습니다, 확인, 수고하셨습니다, 정말,
계속해주세요, ㅋ, ㅎ, ㅇ, ㅇㅋ, ㄱㅅ
"""

_LETTERS = str.maketrans({
    "ı": "i", "ł": "l", "ø": "o", "đ": "d", "’": "'", "‘": "'", "`": "'", "´": "'", "ʼ": "'", "ـ": None,
    "أ": "ا", "إ": "ا", "آ": "ا", "ة": "ه", "ى": "ي", "ё": "е",
})  # fmt: skip
_EMOTICON = re.compile(r"(?<!\S)(?:[:;=8xX]['^]?-?[dDpPoO03)(\]|/\\*]+|<3+|\^[_.]*\^|[oO]_[oO]|xD+|:v)(?!\S)")
_RUN = re.compile(r"(.)\1+")


def is_acknowledgement(text: str) -> bool:
    """Return whether `text` is nothing but acknowledgements, greetings, emoji and punctuation; False for blank text."""
    if len(text) > _MAX_CHARS or not text.strip():
        return False
    first = text.split(None, 1)[0]
    # Most messages are told by their first word, and this is a hook's time.
    if first.isascii() and first.isalpha() and not _may_begin(first.lower()):
        return False
    words = _words(_EMOTICON.sub(" ", text))
    return not words or _covers(words)


def _may_begin(word: str) -> bool:
    """Return whether a phrase may begin with `word`."""
    return word in _first_words() or _word_covered(word)


def _fold(text: str) -> str:
    """Case, accents, width and look-alike letters levelled; the vocabulary goes through the same."""
    level = unicodedata.normalize("NFKD", text.translate(_LETTERS).casefold())
    return "".join(char for char in level if unicodedata.category(char) != "Mn").translate(_LETTERS)


def _words(text: str) -> list[str]:
    kept: list[str] = []
    previous = " "
    for char in text.translate(_LETTERS):
        kind = unicodedata.category(char)[0]
        joined = kind in "LN" or (previous != " " and (kind == "M" or char == "'"))
        previous = char if joined else " "
        kept.append(previous)
    return [folded for word in "".join(kept).split() if (folded := _fold(word).strip("'"))]


def _covers(words: Sequence[str]) -> bool:
    """Return whether the words can be cut into phrases without a rest."""
    phrases, longest = _spaced()
    reachable = {0}
    for end in range(1, len(words) + 1):
        starts = (start for start in range(max(0, end - longest), end) if start in reachable)
        if any(" ".join(words[start:end]) in phrases for start in starts) or (
            end - 1 in reachable and _word_covered(words[end - 1])
        ):
            reachable.add(end)
    return len(words) in reachable


def _word_covered(word: str) -> bool:
    if word.isascii() or word[0] < "\u0900":
        if _RUN.search(word) is None:
            return False
        stretched = _RUN.sub(r"\1", word)
        return len(word) - len(stretched) > 1 and stretched in _squeezed()
    phrases, longest = _unspaced()
    reachable = {0}
    for end in range(1, len(word) + 1):
        if any(start in reachable and word[start:end] in phrases for start in range(max(0, end - longest), end)):
            reachable.add(end)
    return len(word) in reachable


def _phrases(listing: str) -> frozenset[str]:
    parts = (" ".join(_words(part)) for part in listing.split(","))
    return frozenset(part for part in parts if part)


@functools.cache
def _spaced() -> tuple[frozenset[str], int]:
    """Return the phrases, and the number of words of the longest."""
    phrases = _phrases(_SPACED)
    return phrases, max(phrase.count(" ") + 1 for phrase in phrases)


@functools.cache
def _first_words() -> frozenset[str]:
    return frozenset(phrase.split(" ", 1)[0] for phrase in _spaced()[0])


@functools.cache
def _unspaced() -> tuple[frozenset[str], int]:
    """Return the phrases, and the number of characters of the longest."""
    phrases = _phrases(_UNSPACED)
    return phrases, max(map(len, phrases))


@functools.cache
def _squeezed() -> frozenset[str]:
    """Return single words with each run of one letter reduced to one, for "okkkkay" and "yesss"."""
    return frozenset(_RUN.sub(r"\1", phrase) for phrase in _spaced()[0] if " " not in phrase and len(phrase) > 1)


# Now rather than in the first hook: it takes milliseconds.
_first_words(), _unspaced(), _squeezed()
