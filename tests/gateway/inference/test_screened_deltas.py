"""Answers that are taken apart and screened: however they are cut, the same is shown of them."""

from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.inference.parsed_answer import ParsedAnswer
from gateway.inference.screened_deltas import Channel, ScreenedDeltas, channel_of, delta_of
from gateway.text.parsing.delta import CallArguments, CallStart, Delta, Reasoning, Text
from gateway.text.parsing.families import hermes
from gateway.text.sequence_text import TokenEntry
from observability.digests import Digests
from protos.errors import FilterFailed
from protos.types import TokenLogprobs
from safety.action import Action
from safety.pii.pii_filter import PiiFilter
from safety.screen import Rule, Screen, screened
from safety.screening import Screening
from tests.gateway.api.screened import Raises, pieces, rules

WORDS = st.lists(
    st.sampled_from(("forbidden", "for", "bid", "blue", "moon", "geheim", "GEHEIM", " ", "\n", "x", '"', "ü", "🌙")),
    max_size=12,
).map("".join)
#: The places that an answer goes through.
PLACES = st.lists(st.sampled_from((Text, Reasoning, 0, 1, 2)), min_size=1, max_size=6)
CUTS = st.lists(st.integers(0, 99), max_size=8)
ACTIONS = st.sampled_from((Action.BLOCK, Action.REDACT, Action.FLAG))


def looks(action: Action, *, patient: bool = False) -> ScreenedDeltas:
    return ScreenedDeltas(Screening(rules(action)), patient=patient)


def said(deltas: Sequence[Delta]) -> list[tuple[Channel, str]]:
    """What a client puts together: every place with all that came of it, in the order they began."""
    texts: dict[Channel, str] = {}
    for delta in deltas:
        texts[channel_of(delta)] = texts.get(channel_of(delta), "") + (
            "" if isinstance(delta, CallStart) else delta.text
        )
    return [(place, text) for place, text in texts.items() if text]


def shown(looking: ScreenedDeltas, deltas: Sequence[Delta]) -> list[Delta]:
    return [given for delta in deltas for given in looking.feed([delta])] + looking.finish()


@given(texts=st.lists(st.tuples(st.sampled_from((Text, Reasoning, 0, 1)), WORDS, CUTS), max_size=5), action=ACTIONS)
def test_any_cutting_shows_the_same(texts: list[tuple[Channel, str, list[int]]], action: Action) -> None:
    whole = [delta_of(place, text) for place, text, _ in texts if text]
    cut = [delta_of(place, piece) for place, text, cuts in texts for piece in pieces(text, cuts) if piece]
    one, other, patient = looks(action), looks(action), looks(action, patient=True)
    expected = said(shown(one, whole))
    assert said(shown(other, cut)) == said(shown(patient, cut)) == expected
    assert one.blocked == other.blocked == patient.blocked
    labels = [[finding.label for look in each.sources for finding in look.findings] for each in (one, other, patient)]
    assert labels[0] == labels[1] == labels[2]


@given(text=WORDS, cuts=CUTS, place=st.sampled_from((Text, Reasoning, 3)), action=ACTIONS)
def test_it_is_what_is_shown_of_a_text_alone(text: str, cuts: list[int], place: Channel, action: Action) -> None:
    expected = screened(text, rules(action))
    looking = looks(action)
    deltas = shown(looking, [delta_of(place, piece) for piece in pieces(text, cuts) if piece])
    assert "".join(text for _, text in said(deltas)) == expected.text
    assert looking.blocked == (expected.blocked is not None)
    assert [list(each.findings) for each in looking.sources] == ([expected.findings] if expected.findings else [])


@given(text=WORDS, cut=st.integers(0, 99), place=st.sampled_from((Text, Reasoning)))
def test_texts_around_something_else_are_one(text: str, cut: int, place: Channel) -> None:
    """No client sees all of what blocks. More may be cut off: a word that is whole before the other need not be one."""
    before, after = (text[: cut % (len(text) + 1)], text[cut % (len(text) + 1) :])
    between: list[Delta] = [CallStart(0, "id", "find"), CallArguments(0, "{}")]
    looking = looks(Action.BLOCK)
    deltas = [delta_of(place, before), *between, delta_of(place, after)]
    there = "".join(text for at, text in said(shown(looking, deltas)) if at == place)
    assert text.startswith(there)
    whole = screened(text, rules(Action.BLOCK))
    assert looking.blocked or whole.blocked is None
    assert screened(there, rules(Action.BLOCK)).blocked is None


def test_findings_around_something_else_count_once() -> None:
    looking = looks(Action.FLAG)
    shown(looking, [Text("it is forbidden"), Reasoning("hm"), Text(" and geheim")])
    assert [finding.label for each in looking.sources for finding in each.findings] == ["term", "term"]
    assert [each.received for each in looking.sources] == [15, 11]
    # What follows makes no other finding of it.
    looking = ScreenedDeltas(Screening([Rule("pii", PiiFilter(), Action.FLAG)]), patient=False)
    deltas: list[Delta] = [Text("Mail anna@mail.example.org"), CallStart(0, "i", "f"), Text("The number")]
    assert said(shown(looking, deltas)) == [(Text, "Mail anna@mail.example.orgThe number")]
    assert [finding.label for each in looking.sources for finding in each.findings] == ["email"]


def test_what_is_replaced_does_not_go_on() -> None:
    start = CallStart(0, "id", "find")
    looking = looks(Action.REDACT)
    assert said(shown(looking, [Text("I will forbidden"), start, Text("Now it is done")])) == [
        (Text, "I will [TERM]Now it is done")
    ]
    assert not looking.blocked
    looking = ScreenedDeltas(Screening([Rule("pii", PiiFilter(), Action.REDACT)]), patient=False)
    assert said(shown(looking, [Text("Mail anna@mail.example.org"), start, Text("The number")])) == [
        (Text, "Mail [EMAIL]The number")
    ]


def test_an_end_that_is_cut_into_a_match_blocks_nothing() -> None:
    looking = looks(Action.BLOCK)
    said_before = "xforbidden" + " a" * 57 + " a blue"
    assert said(shown(looking, [Text(said_before), Reasoning("hm"), Text(" moon is up")])) == [
        (Text, said_before),
        (Reasoning, "hm"),
    ]
    assert looking.blocked


def test_ids_of_calls_are_looked_at() -> None:
    looking = ScreenedDeltas(Screening([Rule("pii", PiiFilter(), Action.REDACT)]), patient=False)
    good, bad = CallStart(0, "functions.find:0", "find"), CallStart(1, "functions.find:4111111111111111", "find")
    first, second = shown(looking, [good, bad])
    assert first == good
    assert isinstance(second, CallStart)
    assert second.id.startswith("call_")


def test_what_is_held_comes_before_what_follows() -> None:
    looking = looks(Action.BLOCK)
    start = CallStart(0, "id", "find")
    assert looking.feed([Text("a blue")]) == [Text("a ")]
    assert looking.feed([start]) == [Text("blue"), start]
    assert looking.feed([CallArguments(0, '{"a": "blue')]) == [CallArguments(0, '{"a": "')]
    assert looking.finish() == [CallArguments(0, "blue")]


@pytest.mark.parametrize("escaped", [r"\u0066orbidden", r"f\u006Frbidden", r"\u0062lue moon"])
def test_escapes_of_arguments_are_undone(escaped: str) -> None:
    for size in (1, 2, 5, 100):
        text = f'{{"x": "{escaped}"}}'
        looking = looks(Action.REDACT)
        deltas: list[Delta] = [CallArguments(0, text[at : at + size]) for at in range(0, len(text), size)]
        assert said(shown(looking, deltas)) == [(0, '{"x": "[TERM]"}')]


def test_half_a_character_is_none() -> None:
    looking = looks(Action.REDACT)
    deltas: list[Delta] = [CallArguments(0, '"\ud83c'), CallArguments(0, "\udf19 \ud83c"), Text("x")]
    assert said(shown(looking, deltas)) == [(0, '"\U0001f319 \ufffd'), (Text, "x")]


@pytest.mark.parametrize("action", [Action.BLOCK, Action.REDACT, Action.FLAG])
def test_names_of_calls_are_looked_at(action: Action) -> None:
    looking = looks(action)
    deltas = shown(looking, [Text("a"), CallStart(0, "id", "forbidden"), CallArguments(0, "{}"), Text("b")])
    name = {Action.REDACT: "[TERM]", Action.FLAG: "forbidden"}.get(action)
    rest = [CallStart(0, "id", name), CallArguments(0, "{}"), Text("b")] if name else []
    assert deltas == [Text("a"), *rest]
    assert looking.blocked == (action is Action.BLOCK)


def test_nothing_comes_after_what_blocks() -> None:
    looking = looks(Action.BLOCK)
    assert said(looking.feed([Reasoning("it is forbidden "), Text("to say"), CallStart(0, "i", "f")])) == [
        (Reasoning, "it is ")
    ]
    assert looking.blocked
    assert looking.feed([Text("more")]) == looking.finish() == []


def entry(token: int) -> TokenEntry:
    return TokenEntry(token, TokenLogprobs(-0.5), 0)


def tokens(*texts: str) -> list[Delta]:
    return [Text(text, (entry(place),)) for place, text in enumerate(texts)]


def told(deltas: Sequence[Delta]) -> list[int]:
    return [one.token_id for delta in deltas if isinstance(delta, Text) for one in delta.entries]


def test_logprobs_are_those_of_what_is_shown() -> None:
    words = ("a ", "for", "bidden", " x", " blue", " sky", ".")
    assert told(shown(looks(Action.FLAG), tokens(*words))) == [0, 1, 2, 3, 4, 5, 6]
    assert told(shown(looks(Action.REDACT), tokens(*words))) == [0, 3, 4, 5, 6]
    assert told(shown(looks(Action.BLOCK), tokens(*words))) == [0]
    looking = looks(Action.REDACT)
    assert looking.feed(tokens("a", " blue")) == [Text("a", (entry(0),)), Text(" ")]
    assert looking.feed([Text(" sky", (entry(2),))]) == [Text("blue sky", (entry(1), entry(2)))]


def test_logprobs_without_text_do_not_end_what_is_replaced() -> None:
    key = "sk-ant-api03-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fG3hI5j"
    looking = ScreenedDeltas(Screening([Rule("pii", PiiFilter(), Action.REDACT)]), patient=False)
    deltas = [delta for each in tokens("The key: ", key, "", "SECRETTAIL99x", " x") for delta in looking.feed([each])]
    deltas += looking.finish()
    assert said(deltas) == [(Text, "The key: [ANTHROPIC_KEY] x")]
    assert told(deltas) == [0, 4]


@given(words=st.lists(WORDS.filter(bool), max_size=6), action=ACTIONS)
def test_no_logprobs_of_what_is_not_shown(words: list[str], action: Action) -> None:
    deltas = shown(looks(action), tokens(*words))
    starts = [sum(map(len, words[:place])) for place in range(len(words))]
    screen = Screen(rules(action))
    screen.whole("".join(words))
    assert told(deltas) == [
        place
        for place, start in enumerate(starts)
        if start + len(words[place]) <= screen.decided
        and not any(from_ < start + len(words[place]) and to > start for from_, to in screen.replaced)
    ]


@given(words=st.lists(st.tuples(st.booleans(), WORDS.filter(bool)), max_size=10), action=ACTIONS)
def test_logprobs_are_of_what_is_shown_wherever_the_answer_goes(words: list[tuple[bool, str]], action: Action) -> None:
    came: list[Delta] = [
        Reasoning(word) if elsewhere else Text(word, (entry(place),)) for place, (elsewhere, word) in enumerate(words)
    ]
    deltas = shown(looks(action), came)
    text, at = "".join(delta.text for delta in deltas if isinstance(delta, Text)), 0
    for place in told(deltas):
        at = text.index(words[place][1], at) + len(words[place][1])


def test_hashes_are_of_what_is_shown() -> None:
    digests = Digests(bytes(32))
    looking = looks(Action.REDACT)
    looking.shown = digests.begin()
    shown(looking, [Reasoning("hm"), Text("so forbidden"), CallStart(0, "id", "geheim"), CallArguments(0, "{}")])
    assert looking.shown.hexdigest() == digests.of(b"hmso [TERM][TERM]{}")


def test_filters_that_fail() -> None:
    broken = [*rules(Action.REDACT), Rule("broken", Raises(), Action.BLOCK)]
    closed = ScreenedDeltas(Screening(broken), patient=False)
    with pytest.raises(FilterFailed):
        closed.feed([Text("x")])
    leaves_out = ScreenedDeltas(Screening(broken, fail_open=True), patient=False)
    assert said(shown(leaves_out, [Text("forbidden"), CallStart(0, "i", "f")])) == [(Text, "[TERM]")]
    assert {name for each in leaves_out.sources for name in each.failures} == {"broken"}


@given(cuts=CUTS)
def test_a_key_in_a_call_between_texts(cuts: list[int]) -> None:
    text = (
        'Mail anna@ <tool_call>\n{"name": "save", "arguments": {"key": "\\u0041KIAQYLPMN5HFIZTXW2D", "n": 5}}\n'
        "</tool_call> done"
    )
    new_screen = Screening([Rule("pii", PiiFilter(), Action.REDACT)])
    parser = hermes.HermesCalls(["save"], parallel=True)
    answer = ParsedAnswer(parser, ScreenedDeltas(new_screen, patient=False))
    deltas = [delta for piece in pieces(text, cuts) for delta in answer.take(piece, ())] + answer.finish()
    runs = ["".join(d.text for d in run if not isinstance(d, CallStart)) for _, run in groupby(deltas, channel_of)]
    assert runs == ["Mail anna@ ", '{"key": "[AWS_ACCESS_KEY]", "n": 5}', "done"]
