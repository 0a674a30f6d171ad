import pytest

from gateway.text.parsing.delta import Text
from gateway.text.parsing.families.around import AroundParser
from gateway.text.parsing.families.family_registry import output_format, recognised
from tests.gateway.text.parsing.answers import Answer, answer

TAGS = ("<response>", "</response>")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<response>It is <4>.</response>", "It is <4>."),
        ("\n <response>a</response> b</response>", "a b</response>"),
        ("<response>a </respons", "a </respons"),
        ("<response>", ""),
        (" <respon", " <respon"),
        ("A <response>b</response>", "A <response>b</response>"),
        ("", ""),
    ],
)
def test_tags_around_the_text(text: str, expected: str) -> None:
    for pieces in ([text], list(text)):
        assert answer(AroundParser(TAGS, None), *pieces) == Answer(expected)


def test_text_flows() -> None:
    parser = AroundParser(TAGS, None)
    assert parser.flow() is None
    assert parser.feed("<response>a") == [Text("a")]
    assert parser.flow() == Text("")
    assert parser.feed("<") == []
    assert parser.flow() is None
    assert not parser.thinking


def test_the_family_that_has_them() -> None:
    told = "Write your thoughts between <think></think> and your response between <response></response>."
    assert recognised(told, ()).reasoning == "granite"
    form = output_format(None, "granite")
    assert form is not None
    assert set(TAGS) < form.marks
    text = "<think>2</think>\n\n<response>4</response>"
    for pieces in ([text], list(text)):
        parser = form.parser(None, "")
        assert parser is not None
        assert answer(parser, *pieces) == Answer("4", "2")
