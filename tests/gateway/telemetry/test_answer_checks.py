import json

import pytest

from gateway.telemetry.answer_checks import are_valid, found_in, is_json_text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" \n", ("empty",)),
        ("I'm sorry, but I can't help with that.", ("refused",)),
        ("I cannot do that.", ("refused",)),
        ("As an AI, I have no body.", ("refused",)),  # it begins as those that decline do, and mostly is one
        ("No AI has a body.", ()),
        ("Es tut mir leid, dabei helfe ich nicht.", ("refused",)),
        ("抱歉，我无法回答。", ("refused",)),
        ("The word sorry is from Old English.", ()),
        ("I can help with that: yes.", ()),
    ],
)
def test_it_tells_nothing_and_refusals_from_answers(text: str, found: tuple[str, ...]) -> None:
    assert found_in(text) == found


def test_a_call_is_of_an_offered_tool_with_what_it_requires() -> None:
    city = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
    offered = {"weather": city, "now": {}}
    assert are_valid(["weather", "now"], ['{"city": "Rome", "days": 2}', ""], offered)
    assert not are_valid(["weather"], ["{}"], offered)
    assert not are_valid(["weather"], ['{"city": "Ro'], offered)
    assert not are_valid(["weather"], ['["Rome"]'], offered)
    assert not are_valid(["whether"], ['{"city": "Rome"}'], offered)
    assert are_valid(["anything"], ["{}"], None)
    assert is_json_text("[1]")
    assert not is_json_text("[1")
    assert is_json_text('{"city": "Rome"}', json.dumps(city))
    assert not is_json_text('{"city": 3}', json.dumps(city))
    assert not are_valid(["weather"], ['{"city": 3}'], offered)
