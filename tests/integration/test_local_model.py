"""Recall by meaning with a model in the agent's process and no endpoint, and without it."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.admin.doctor.prove import prove
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.blocked_packages import PoorEnvironment
from tests.support.hostile import plain_lines
from tests.support.local_models import link_model
from tests.support.memory import called, landed
from tests.support.model_files import MODEL_NAME, model_dir

from .conftest import Run

LOCAL = {"embed_url": f"local:{MODEL_NAME}", "recall_deadline_s": 30.0, "prefetch_deadline_s": 8.0}
FACTS = [
    "Our kitten sleeps on the radiator all afternoon.",
    "The quarterly revenue grew by twelve percent in Europe.",
    "Restart the database after changing shared_buffers.",
]


def test_a_question_without_a_shared_word_finds_its_answer(home: Path, make_provider: MakeProvider) -> None:
    link_model(home)
    provider = make_provider(LOCAL)
    for fact in FACTS:
        provider.on_memory_write("add", "memory", fact)
    assert provider.runtime is not None and provider.runtime.writer.flush(60)

    answer = json.loads(provider.handle_tool_call("recall_memory", {"query": "Where does a cat like to rest?"}))

    assert answer["mode"] == "hybrid"
    assert answer["results"][0]["content"] == FACTS[0]
    assert FACTS[0] in provider.prefetch("Where does a cat like to rest?")


PREFERENCES = [
    "I dislike the cheap look of plastic chairs.",
    "Swimming is not for me, I prefer sports on land.",
    "I am allergic to shellfish, so no shrimp or lobster on my plate.",
    "Small hotels are nicer than large ones.",
    "The car gets its new tyres in October.",
    "The baker paid the invoice XJ-4471 twice.",
]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("I'm looking for a workout that builds endurance. What would you suggest?", PREFERENCES[1]),
        ("I'm looking for seafood dishes to cook tonight, any ideas?", PREFERENCES[2]),
        ("I'm looking for somewhere to stay in Madrid for three nights.", PREFERENCES[3]),
        ("I look at the books each week and wonder what went wrong with XJ-4471, can you help?", PREFERENCES[5]),
    ],
)
def test_one_common_word_of_many_does_not_outweigh_the_meaning(
    asked: str, answer: str, home: Path, make_provider: MakeProvider
) -> None:
    """Each question has "look" in common with the chairs; of the words that tell what it asks for no row holds any."""
    link_model(home)
    provider = make_provider(LOCAL)
    for each in PREFERENCES:
        provider.on_memory_write("add", "memory", each)
    landed(provider)

    assert called(provider, "recall_memory", {"query": asked})["results"][0]["content"] == answer


# By their script: what is remembered, a question about the first of it, and messages that nothing of it answers.
IN_OTHER_SCRIPTS = {
    "chinese": (
        ["房东姓陈,电话是 138 0013 4410。", "妈妈住在苏州,膝盖不好。", "新办公室在南京西路 28 楼。"],
        "房东的电话是多少?",
        ["天空为什么是蓝色的?", "帮我写一首关于秋天的诗", "怎么煮米饭?"],
    ),
    "japanese": (
        ["妹は札幌に住んでいて、看護師をしています。", "会議は毎週水曜日の午後2時からです。", "車検は三月に切れます。"],
        "妹はどこに住んでいる?",
        ["空はなぜ青いの?", "フランスの首都を教えて", "英語でありがとうは何と言う?"],
    ),
    "russian": (
        ["Антон переезжает в Казань в январе.", "У Лены аллергия на орехи и мёд.", "Собрание отдела во вторник."],
        "Куда переезжает Антон?",
        ["Почему небо голубое?", "Напиши стихотворение про осень", "Как сварить рис?"],
    ),
}


@pytest.mark.parametrize("script", IN_OTHER_SCRIPTS)
def test_need_37_a_model_for_english_leaves_questions_in_other_scripts_to_the_words(
    script: str, home: Path, make_provider: MakeProvider
) -> None:
    """To the model any two texts in another script are alike, and so each would stand before every message."""
    link_model(home)
    remembered, asked, besides = IN_OTHER_SCRIPTS[script]
    provider = make_provider(LOCAL | {"tools": ["forget"]})
    for fact in remembered:
        provider.on_memory_write("add", "memory", fact)
    landed(provider)

    (line,) = plain_lines(provider.prefetch(asked))
    assert remembered[0] in line
    assert [provider.prefetch(message) for message in besides] == [""] * len(besides)
    shown = called(provider, "forget", {"query": asked})["would_forget"]
    assert [entry["content"] for entry in shown] == remembered[:1]


def test_need_37_to_a_model_for_english_memories_in_another_language_must_be_as_near_as_turns(
    home: Path, make_provider: MakeProvider
) -> None:
    link_model(home)
    provider = make_provider(LOCAL | {"text_languages": ["marketing=german"]})
    for fact in (
        "Der Schornsteinfeger kommt am 19. Dezember zwischen 8 und 10 Uhr.",
        "Mein Fahrrad steht bei Pedalwerk in der Reparatur, die Bremse ist defekt.",
        "Unser Steuerberater heißt Ottmar Kling und sitzt in der Ulmenstraße.",
    ):
        provider.on_memory_write("add", "memory", fact)
    landed(provider)

    (line,) = plain_lines(provider.prefetch("Wer macht unsere Steuern?"))
    assert "Ottmar Kling" in line
    for message in ("Warum ist der Himmel blau?", "Wie kocht man Reis?", "Empfiehl mir einen guten Roman"):
        assert provider.prefetch(message) == ""


def test_need_37_to_a_model_for_english_what_answers_in_another_language_must_be_nearer(
    home: Path, make_provider: MakeProvider
) -> None:
    link_model(home)
    provider = make_provider(LOCAL)
    for said in (
        "Der Heizungsmonteur war da, Firma Brückner. Das Ausdehnungsgefäß ist kaputt, der Austausch kostet 420 Euro.",
        "Frohe Ostern! Opa Heinz hat den Kindern im Garten 24 Eier versteckt, eins haben wir nicht gefunden",
        "Lammkeule war zu trocken, nächstes Mal bei 80 Grad garen und 4 Stunden",
        "Frau Özdemir von nebenan gießt die Blumen und leert den Briefkasten",
        "Wir brauchen noch einen Schornsteinfegertermin vor Weihnachten",
        "Und Mia hat seit gestern die Schuhgröße 34, bitte merken für den Schuhkauf",
        "kuehlschrank macht geraeusche, techniker sagt kompressor, lohnt nicht mehr",
    ):
        provider.sync_turn(said, None, session_id="before")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)
    for message in ("Wie kocht man ein weiches Ei?", "Warum ist der Himmel blau?", "Welche Farbe hat unser Auto?"):
        assert provider.prefetch(message) == ""
    assert "Özdemir" in provider.prefetch("Wer gießt die Blumen?")
    assert "80 Grad" in provider.prefetch("Wie lange gart die Lammkeule?")


# An exchange about a fence, messages about something else that sound like it, and one about the fence.
THE_FENCE = (
    "Hi. I have set all the posts for the new fence, and I am happy with how straight they are. What would be the next "
    "step, and what do you need from me to get going?",
    "That is great to hear! Now that the posts are set, the next step is to fix the rails, with the galvanised screws. "
    "For that I need to know how wide the gaps are. Shall we go through it together?",
)
SOUNDING_ALIKE = (
    "Hi again! The slides for the board are done, and I feel good about them. Which part should we work on now, and is "
    "there anything that I should send you before we go on?",
    "Thanks, that is really helpful! I have booked the ferry now. Let us move on to the rooms, please. What should I "
    "tell you so that we can get started?",
    "Hi again! The slides for the board are done, and they look good. Which part comes after that, and is there "
    "anything I should send you before we continue?",
)
ABOUT_THE_FENCE = (
    "Hi. The fence has stood the storm well, and I would like to go on. What did we say about the rails, and which "
    "screws did I want to use for them?"
)


def test_need_37_a_message_that_only_sounds_like_an_earlier_one_is_not_answered_by_it(
    home: Path, make_provider: MakeProvider
) -> None:
    link_model(home)
    provider = make_provider(LOCAL)
    provider.sync_turn(*THE_FENCE, session_id="before")
    landed(provider)

    assert [provider.prefetch(message, session_id=f"later {n}") for n, message in enumerate(SOUNDING_ALIKE)] == [""] * 3
    (line,) = plain_lines(provider.prefetch(ABOUT_THE_FENCE, session_id="later"))
    assert "galvanised screws" in line


def test_need_20_a_word_that_was_no_slip_keeps_nothing_from_a_turn(home: Path, make_provider: MakeProvider) -> None:
    """The model's vocabulary lacks "expire" as a whole word, and has "empire"."""
    link_model(home)
    provider = make_provider(LOCAL)
    provider.on_memory_write("add", "memory", "The voucher is good until March.")
    landed(provider)
    assert "voucher" in provider.prefetch("When does the coupon expire?")


def test_need_16_forget_takes_only_what_fits_the_question(
    dsn: str,
    home: Path,
    make_provider: MakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a theme of three memories each is among the nearest five."""
    link_model(home)
    provider = make_provider(LOCAL | {"tools": ["forget"]})
    for fact in FACTS:
        provider.on_memory_write("add", "memory", fact)
    assert provider.runtime is not None and provider.runtime.writer.flush(60)

    shown = json.loads(provider.handle_tool_call("forget", {"query": "where the kitten sleeps"}))
    assert [entry["content"] for entry in shown["would_forget"]] == FACTS[:1]

    for name, value in (("DSN", dsn), ("DIMS", str(DIMS)), ("EMBED_URL", f"local:{MODEL_NAME}")):
        monkeypatch.setenv(f"HERMES_PGVECTOR_{name}", value)
    main(["forget", "--query", "where the kitten sleeps", "--json", "--hermes-home", str(home)])
    planned = json.loads(capsys.readouterr().out)
    assert [row["content"] for row in planned["rows"]] == FACTS[:1]
    assert any("2 other results fit too little" in note for note in planned["notes"])


def test_need_20_the_search_command_mends_common_words_as_the_agent_does(
    dsn: str, home: Path, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words that the model knows are mended, so it has to be loaded first, by a process that asks only once."""
    link_model(home)
    provider = make_provider(LOCAL)
    for fact in FACTS:
        provider.on_memory_write("add", "memory", fact)
    landed(provider)
    for name, value in (("DSN", dsn), ("DIMS", str(DIMS)), ("EMBED_URL", f"local:{MODEL_NAME}")):
        monkeypatch.setenv(f"HERMES_PGVECTOR_{name}", value)
    asked = "Where does an aninal like to rest?"
    process = [sys.executable, "-P", "-c", "import sys; from hermes_memory_pgvector.cli import main; sys.exit(main())"]
    options = ["--store", "memories", "--explain", "--json", "--hermes-home", str(home)]
    done = subprocess.run([*process, "search", asked, *options], capture_output=True, timeout=120, check=True)
    first = json.loads(done.stdout)["results"][0]
    assert (first["content"], first["explain"]["question"]) == (FACTS[0], "Where does an animal like to rest?")


def test_the_proof_shows_recall_by_meaning(
    dsn: str, home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    link_model(home)
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", str(DIMS))
    monkeypatch.setenv("HERMES_PGVECTOR_EMBED_URL", f"local:{MODEL_NAME}")
    monkeypatch.setenv("HERMES_PGVECTOR_RECALL_DEADLINE_S", "60")  # the new process loads the model first

    assert prove(home), capfd.readouterr().out

    (line,) = [line for line in capfd.readouterr().out.splitlines() if "by meaning alone" in line]
    assert line.strip().startswith("recalled") and "radiator" in line


@pytest.mark.parametrize("installed", [True, False])
def test_doctor_says_which_model_is_active_and_what_to_run(
    dsn: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], installed: bool
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", str(DIMS))
    monkeypatch.setenv("HERMES_PGVECTOR_EMBED_URL", f"local:{MODEL_NAME}")
    if installed:
        link_model(home)

    main(["doctor", "--json", "--hermes-home", str(home)])

    checks = json.loads(capsys.readouterr().out)["checks"]
    (check,) = [each for each in checks if each["name"] == "embedding"]
    if installed:
        assert check["state"] == "ok"
        assert f"local model {MODEL_NAME} in this process, {DIMS} dimensions" in check["said"]
    else:
        assert check["state"] == "fail"
        assert "hermes-pgvector model list" in check["said"]


def test_need_02_another_local_model_installed_by_the_same_name_is_told(
    home: Path, tmp_path: Path, make_provider: MakeProvider, dsn: str, cli: Run
) -> None:
    """Old vectors and new ones are compared with each other, and nothing fits any more."""
    source = tmp_path / "mine"
    source.mkdir()
    shutil.copy(model_dir() / "model.onnx", source)
    words = (model_dir() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    settings = {"dsn": dsn, "embed_url": "local:mine", "dims": DIMS}
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": settings}}), encoding="utf-8")

    def installed(vocabulary: list[str]) -> None:
        (source / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
        assert cli("model", "install", "mine", "--from", str(source)).returncode == 0

    def found() -> dict[str, str]:
        checks = json.loads(cli("doctor", "--json").stdout)["checks"]
        return next(check for check in checks if check["name"] == "embedding")

    installed(words)
    provider = make_provider(LOCAL | {"embed_url": "local:mine"})
    for fact in FACTS:
        provider.on_memory_write("add", "memory", fact)
    landed(provider)
    close_all()
    assert found()["state"] == "ok"

    # The same network with its words in another order is another model of the same length.
    installed([*words[:1000], *reversed(words[1000:])])
    said = found()
    assert said["state"] == "fail" and "3 of 3 stored texts would get another vector" in said["said"], said
    assert said["fix"].startswith("put its former files back; or embed everything anew"), said
    assert "reembed --again --yes --admin-dsn DSN" in said["fix"]


def test_a_model_that_is_not_there_leaves_words_and_comes_back_by_itself(
    home: Path, make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    provider = make_provider(LOCAL)
    provider.on_memory_write("add", "memory", FACTS[0])
    assert provider.runtime is not None and provider.runtime.writer.flush(60)
    for _ in range(4):
        answer = json.loads(provider.handle_tool_call("recall_memory", {"query": "kitten radiator"}))
        assert [hit["content"] for hit in answer["results"]] == [FACTS[0]]
        assert answer["mode"] != "hybrid"

    assert len([said for said in records(logging.WARNING) if MODEL_NAME in said]) == 1


_LEXICAL = """
import json, sys
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
provider = PgvectorMemoryProvider({"dsn": sys.argv[2], "dims": 384, "embed_url": "local:" + sys.argv[3]})
assert provider.is_available()
provider.initialize("s", hermes_home=sys.argv[1], platform="api_server", gateway_session_key="marketing")
provider.on_memory_write("add", "memory", "Our kitten sleeps on the radiator.")
assert provider.runtime.writer.flush(60)
answer = json.loads(provider.handle_tool_call("recall_memory", {"query": "kitten"}))
print(json.dumps([answer["mode"], len(answer["results"])]))
provider.shutdown()
"""


def test_without_onnxruntime_words_go_on(tmp_path: Path, dsn: str, home: Path) -> None:
    link_model(home)
    poor = PoorEnvironment(tmp_path / "site", ["onnxruntime"])

    done = poor.run(_LEXICAL, str(home), dsn, MODEL_NAME, home=home)

    assert done.returncode == 0, done.stderr
    mode, found = json.loads(done.stdout.splitlines()[-1])
    assert mode != "hybrid"
    assert found == 1
