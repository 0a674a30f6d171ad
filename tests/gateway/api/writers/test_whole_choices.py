from gateway.api.writers.whole_choices import retold
from gateway.text.parsing.delta import CallStart, Delta, Reasoning, Text

CALL = CallStart(0, "1", "f")


def test_text_turns_out_to_have_been_reasoning() -> None:
    assert retold([Text("a"), Text("b"), Reasoning(""), Text("c"), CALL]) == [
        Reasoning("a"),
        Reasoning("b"),
        Text("c"),
        CALL,
    ]
    assert retold([Reasoning(""), Text("c")]) == [Text("c")]


def test_other_answers_are_as_they_were() -> None:
    deltas: list[Delta] = [Reasoning("a"), Text("b"), CALL]
    assert retold(deltas) == deltas
    assert retold([]) == []
