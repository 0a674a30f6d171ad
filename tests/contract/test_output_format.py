"""What every `OutputFormat` and its parsers keep to, and the parsers of forced calls, too."""

import re
from collections.abc import Callable, Iterable

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.parsing.families.family_registry import CHANNELS, FAMILIES, THINK_TAGS, output_format
from gateway.text.parsing.forced import forced_parser
from gateway.text.parsing.offered_tools import ToolChoice, ToolUse
from gateway.text.parsing.parser import OutputParser
from gateway.text.tokens.detokenizer import is_calm
from tests.gateway.text.parsing.answers import CLOCK, SEARCH, SINGLE, USE, WEATHER, Call, answer, fed, joined
from tests.gateway.text.parsing.written_calls import WRITTEN

CITY = '{"city": "Paris"}'
NESTED = '{"city": "a } ] \\" {", "options": {"x": [1, {"y": "é \\\\"}], "z": null}}'


CALL_PARTS = ("[", "]", "(", ")", ",", "=", ";", "'", "\\", " ", "\n", "get_weather", "x", '"name"', '"parameters"')
#: Families that have calls at the answer's begin only, or channels.
LEADING = {*CHANNELS, "llama3_json", "pythonic", "phi4_mini"}
UNITS = (
    *("<", "{", "[", "\\", '"', " ", "a", '{"name":', "[search(", '[{"name": "search", "arguments": {}},'),
    *("<tool_call>", "[TOOL_CALLS]", "<|channel|>", "<|tool_call_begin|>", "<｜tool▁call▁begin｜>", "<think>"),
)
TAGS = tuple(tag for tags in THINK_TAGS.values() for tag in tags)


def parser_of(tools: str | None, reasoning: str | None, use: ToolUse | None, prompt_end: str = "") -> OutputParser:
    form = output_format(tools, reasoning)
    assert form is not None
    parser = form.parser(use, prompt_end)
    assert parser is not None
    return parser


def every_parser() -> list[tuple[str, Callable[[], OutputParser]]]:
    """All that parsers are made for, by a name to tell them by."""
    made: list[tuple[str, Callable[[], OutputParser]]] = []
    for name in FAMILIES["tools"]:
        reasoning = name if name in CHANNELS else "think"
        made += [
            (name, lambda name=name: parser_of(name, None, USE)),  # type: ignore[misc]
            (f"{name}, one call", lambda name=name: parser_of(name, None, SINGLE)),  # type: ignore[misc]
            (f"{name}, thoughts", lambda name=name, r=reasoning: parser_of(name, r, USE)),  # type: ignore[misc]
            (
                f"{name}, thinking",
                lambda name=name, r=reasoning: parser_of(name, r, USE, "<think>\n"),  # type: ignore[misc]
            ),
        ]
    for name in THINK_TAGS:
        made.append((name, lambda name=name: parser_of(None, name, None)))  # type: ignore[misc]
    required = ToolUse(USE.tools, ToolChoice.REQUIRED)
    made += [
        ("required", lambda: forced_parser(required)),
        ("required, one call", lambda: forced_parser(ToolUse(USE.tools, ToolChoice.REQUIRED, parallel=False))),
        ("named", lambda: forced_parser(ToolUse(USE.tools, ToolChoice.NAMED, "search"))),
    ]
    return made


PARSERS = every_parser()
parsers = pytest.mark.parametrize("new", [new for _, new in PARSERS], ids=[name for name, _ in PARSERS])
families = pytest.mark.parametrize("name", list(WRITTEN))

texts = st.lists(
    st.one_of(
        st.sampled_from([part for family in WRITTEN.values() for part in family.parts] + list(CALL_PARTS + TAGS)),
        st.sampled_from([CITY, NESTED, *(family.calls(("search", CITY)) for family in WRITTEN.values())]),
        st.text(max_size=4),
        st.sampled_from(list("<>[]{}|\"'\\: \n")),
    ),
    max_size=14,
).map("".join)


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(texts)
    if draw(st.booleans()):
        return text, list(text)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@parsers
@given(cut_texts())
@settings(max_examples=60, deadline=None)
def test_cuts_change_nothing_and_no_text_raises(new: Callable[[], OutputParser], cut: tuple[str, list[str]]) -> None:
    text, pieces = cut
    assert joined(fed(new(), pieces)) == joined(fed(new(), [text]))


@parsers
@given(st.lists(st.one_of(texts, st.sampled_from([" word", "word", ",", ", and", "é", "1"])), max_size=14))
@settings(max_examples=60, deadline=None)
def test_calm_pieces_flow_unchanged(new: Callable[[], OutputParser], pieces: list[str]) -> None:
    assert joined(flowing(new(), pieces)[0]) == joined(fed(new(), pieces))


def flowing(parser: OutputParser, pieces: Iterable[str]) -> tuple[list[Delta], int]:
    """What comes of it when what flows is not fed, and how many pieces that were."""
    out: list[Delta] = []
    flowed = 0
    for piece in pieces:
        kind = parser.flow()
        if kind is None or not piece or not is_calm(piece):
            out += parser.feed(piece)
        else:
            assert not isinstance(kind, CallStart)
            out.append(kind._replace(text=piece))
            flowed += 1
    return out + parser.finish(), flowed


@families
@given(cut_texts())
@settings(max_examples=40, deadline=None)
def test_text_that_calls_nothing_comes_back_as_it_was(name: str, cut: tuple[str, list[str]]) -> None:
    if name in CHANNELS:
        return
    unknown = ToolUse((CLOCK,))
    got = answer(parser_of(name, None, unknown), *cut[1])
    assert got.calls or got.text == cut[0]


@families
def test_plain_text_comes_at_once(name: str) -> None:
    parser = parser_of(name, None, USE)
    for piece in ("The ", "weather", " in Paris: 2 < 3, [maybe", "] {or}", "\nnot", "é𝄞"):
        assert joined(parser.feed(piece)) == [Text(piece)]
    kind = parser.flow()
    assert isinstance(kind, Text)
    assert parser.finish() == []
    assert not parser.thinking


@families
def test_without_tools_there_is_nothing_to_parse(name: str) -> None:
    form = output_format(name, None)
    assert form is not None
    assert form.calls
    if name not in CHANNELS:
        for use in (None, ToolUse(()), ToolUse(USE.tools, ToolChoice.NONE)):
            assert form.parser(use, "") is None
    written = WRITTEN[name].calls(("search", CITY))
    assert all(mark in written or not mark.isalnum() for mark in form.marks)


@families
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_calls(name: str, size: int) -> None:
    text = WRITTEN[name].calls(("get_weather", NESTED), ("search", '{"query": "größe 𝄞"}'))
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    got = answer(parser_of(name, None, USE), *pieces)
    assert got.text == ""
    assert [(call.name, orjson.loads(call.arguments)) for call in got.calls] == [
        ("get_weather", orjson.loads(NESTED)),
        ("search", {"query": "größe 𝄞"}),
    ]


@families
def test_a_call_without_arguments(name: str) -> None:
    assert answer(parser_of(name, None, USE), WRITTEN[name].calls(("time_now", "{}"))).calls == (
        Call("time_now", "{}"),
    )


@families
def test_a_call_begins_with_its_name(name: str) -> None:
    parser = parser_of(name, None, USE)
    text = WRITTEN[name].calls(("get_weather", CITY))
    seen: list[Delta] = []
    for character in text[: text.index("Paris")]:
        seen += parser.feed(character)
    assert isinstance(seen[0], CallStart)
    assert seen[0].name == "get_weather"


@families
def test_arguments_come_as_they_are_written(name: str) -> None:
    if name in {"pythonic", "lfm2"}:
        return
    parser = parser_of(name, None, USE)
    text = WRITTEN[name].calls(("search", '{"query": "a long question"}'))
    end = text.index("long")
    parser.feed(text[:end])
    assert parser.flow() == CallArguments(0, "")
    assert parser.feed("lo") == [CallArguments(0, "lo")]


@families
def test_only_one_call(name: str) -> None:
    text = WRITTEN[name].calls(("search", CITY), ("time_now", "{}"), ("search", CITY))
    got = answer(parser_of(name, None, SINGLE), *text)
    assert [call.name for call in got.calls] == ["search"]
    assert got.text == ""


@families
def test_unknown_tools_are_text_as_written(name: str) -> None:
    text = WRITTEN[name].calls(("erase_all", CITY))
    for pieces in ([text], list(text)):
        got = answer(parser_of(name, None, USE), *pieces)
        assert got.calls == ()
        assert got.text == text


@families
def test_an_unknown_tool_after_a_call(name: str) -> None:
    text = WRITTEN[name].calls(("search", CITY), ("erase_all", CITY))
    got = answer(parser_of(name, None, USE), *text)
    assert [call.name for call in got.calls] == ["search"]
    assert "erase_all" in got.text


@families
@pytest.mark.parametrize("calls", [1, 2])
def test_a_call_cut_short(name: str, calls: int) -> None:
    text = WRITTEN[name].calls(*[("get_weather", NESTED)] * calls)
    whole = answer(parser_of(name, None, USE), text).calls
    # A control token comes whole: no answer ends within one.
    marks = [range(found.start() + 1, found.end()) for found in re.finditer(r"<\|\w+\|>", text)]
    for end in range(len(text)):
        if any(end in mark for mark in marks):
            continue
        got = answer(parser_of(name, None, USE), text[:end])
        for call, all_of_it in zip(got.calls, whole, strict=False):
            assert all_of_it.arguments.startswith(call.arguments)
        if not got.calls:
            assert got.text in {text[:end], ""} if name in CHANNELS else got.text == text[:end]


@families
def test_text_before_and_after(name: str) -> None:
    if name in LEADING:
        return
    text = "I look.\n" + WRITTEN[name].calls(("search", CITY)) + "\n\nNow then."
    got = answer(parser_of(name, None, USE), *text)
    assert got.text == "I look.\nNow then."
    assert [call.name for call in got.calls] == ["search"]


@families
@pytest.mark.parametrize("opened", [False, True])
def test_thoughts_before_calls(name: str, opened: bool) -> None:
    if name in CHANNELS:
        return
    text = "\nLet me see: <tool_call> [\n</think>\n\n" + WRITTEN[name].calls(("search", CITY))
    parser = parser_of(name, "think", USE, "<|assistant|><think>\n" if opened else "<|assistant|>")
    assert parser.thinking is opened
    got = answer(parser, *(text if opened else "<think>" + text))
    assert got.reasoning == "Let me see: <tool_call> [\n"
    assert [call.name for call in got.calls] == ["search"]
    assert got.text == ""
    assert not parser.thinking


@pytest.mark.parametrize("reasoning", list(THINK_TAGS))
def test_thoughts(reasoning: str) -> None:
    opening, closing = THINK_TAGS[reasoning]
    text = f" \n{opening}\n\nWhy?\n{opening} {closing[:-1]}\n{closing}\n\n42 {opening}"
    parser = parser_of(None, reasoning, None)
    assert parser.flow() is None
    parser.feed(f"{opening}\n\nWhy?")
    assert isinstance(parser.flow(), Reasoning)
    parser = parser_of(None, reasoning, None)
    assert joined(fed(parser, text)) == [Reasoning(f"Why?\n{opening} {closing[:-1]}\n"), Text(f"42 {opening}")]


@parsers
def test_long_answers_are_read_once(new: Callable[[], OutputParser]) -> None:
    """Were it not linear, this would take minutes."""
    for unit in UNITS:
        text = unit * (60_000 // len(unit))
        fed(new(), [text])
        fed(new(), [text[start : start + 60] for start in range(0, len(text), 60)])


def test_that_all_families_are_here() -> None:
    assert set(WRITTEN) == set(FAMILIES["tools"])
    assert {tool.name for tool in (WEATHER, SEARCH, CLOCK)} == {"get_weather", "search", "time_now"}
