"""Which texts are about another thing than a question asks for, though of the same kind."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.recall.numbered_names import names_another

ANOTHER = [
    ("INC-9120?", "INC-8841: the billing queue was stuck"),
    ("What happened with inc-9120?", "We had INC-8841 this morning, a consumer had died."),
    ("What was issue 6044 about?", "Priya works on issue #5127."),
    ("please look at OPS-450 again", "I will remind you of OPS-311."),
    ("Is v2.9.0 out?", "The v2.3.1 build is held back."),
    ("invoice 2026-0999", "Invoice 2026-0417 is disputed."),
    ("Was ist mit Auftrag 90311?", "Auftrag 77120 ging an die falsche Adresse."),
    ("anything on db-12?", "Host db-07 has the broken fan."),
    ("Is the A-320 ready?", "A-310 went to the paint shop."),
]
MAY_ANSWER = [
    ("INC-9120?", "INC-9120 is the same as INC-8841."),
    ("INC-9120?", "Duplicate of 9120, like INC-8841."),
    ("INC-9120: why is the queue stuck?", "INC-8841: the queue was stuck because a consumer had died."),
    ("When does LH2044 leave?", "My flight home is LH1129, it leaves at 7:25 pm."),
    ("INC-9120 and INC-8841?", "INC-8841: the billing queue was stuck"),
    ("What was the budget 2025?", "The budget 2024 was too small."),
    ("Is there room for 5 people?", "The room holds 12 people."),
    ("Which bills came with order 90311?", "The bill of order 77120 is unpaid."),
    ("Wann kommt die Küche von Auftrag 90311?", "Auftrag 77120 ist die Küche."),
    ("¿Dónde está el camión del pedido 90311?", "El camión del pedido 77120 salió de Lyon."),
    ("What did the roof cost, about 9000?", "The tiler charged about 8500."),
    ("INC-9120?", "The billing queue was stuck."),
    ("What is new?", "INC-8841: the billing queue was stuck"),
    ("订单90311什么时候送到?", "订单77120周五送到"),
    ("INC-9120?", "INC-8841. " + "The billing queue was stuck. " * 100),
    ("", ""),
]


@pytest.mark.parametrize(("question", "text"), ANOTHER)
def test_a_text_with_nothing_but_the_kind_of_thing_in_common_is_about_another_one(question: str, text: str) -> None:
    assert names_another(question, text)


@pytest.mark.parametrize(("question", "text"), MAY_ANSWER)
def test_a_text_that_may_answer_is_not(question: str, text: str) -> None:
    assert not names_another(question, text)
