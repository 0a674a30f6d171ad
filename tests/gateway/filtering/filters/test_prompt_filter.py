"""Prompts before sizes, floods and guards, which look at messages and not at one text alone."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.filtering.filters.filter_policy import FloodRule, GuardRule, Policy, SizeRule
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.floods import FloodGate
from gateway.filtering.filters.prompt_filter import PassedPrompt, ask_guards, pass_prompt
from gateway.filtering.filters.questions import MOST_QUESTIONS
from gateway.filtering.prompt_text import PromptText
from gateway.inference.generate_request import scratch_record
from protos.errors import ContentFiltered, FilterFailed, StoreUnavailable
from safety.action import Action
from safety.guard import GuardFailed
from safety.match import Match
from safety.sizes import Sizes


class Finds:
    """A guard that finds a word wherever it is; fails where it is told to."""

    def __init__(self, word: str, *, fails: bool = False) -> None:
        self.word = word
        self.fails = fails
        self.asked: list[str] = []

    async def verdict(self, text: str, prompt: str | None = None, tenant: str = "") -> list[Match]:
        self.asked.append(text)
        if self.fails:
            raise GuardFailed("out of order")
        found, at = [], text.find(self.word)
        while at >= 0:
            found.append(Match(at, at + len(self.word), "word"))
            at = text.find(self.word, at + len(self.word))
        return found


class Counts(FloodGate):
    """Notes the prompts that it is to count; the n-th of a kind and those after it are too many."""

    def __init__(self, most: int = 1000, *, away: bool = False) -> None:
        self.most = most
        self.away = away
        self.counted: list[list[str]] = []

    async def check(self, tenant: str, filter_name: str, texts: Sequence[str]) -> list[Match]:
        if self.away:
            raise StoreUnavailable
        self.counted.append(list(texts))
        return [Match(0, 1, "identical_prompts")] if self.counted.count(list(texts)) > self.most else []


def guard_rule(guard: Finds, action: Action, **fields: Any) -> GuardRule:
    return GuardRule("own", guard, action, **({"parallel": False, "window": 100, "spans": True} | fields))


def policy(
    *guards: GuardRule, sizes: Sizes | None = None, gate: FloodGate | None = None, fail_open: bool = False
) -> Policy:
    return Policy(
        {},
        () if sizes is None else (SizeRule("small", sizes, Action.BLOCK),),
        () if gate is None else (FloodRule("flood", gate, Action.BLOCK),),
        guards,
        (),
        (),
        fail_open=fail_open,
        record_text=False,
    )


def chat(*messages: tuple[str, str]) -> list[PromptText]:
    return [
        PromptText(role, f"messages[{at}].content", ("messages", at, "content"), text)
        for at, (role, text) in enumerate(messages)
    ]


def many(count: int) -> list[PromptText]:
    return chat(*[("user", f"text {number}") for number in range(count)])


def prompts(*texts: str) -> list[PromptText]:
    return [PromptText("user", f"prompt[{at}]", ("prompt", at), text) for at, text in enumerate(texts)]


def pass_(rules: Policy, texts: Sequence[PromptText], recorder: Recorder | None = None) -> PassedPrompt:
    own = recorder or Recorder(scratch_record(), "acme", False)

    async def main() -> PassedPrompt:
        passed = await pass_prompt(rules, texts, own)
        await ask_guards(rules, passed, own)
        return passed

    return asyncio.run(main())


def refused(rules: Policy, texts: Sequence[PromptText]) -> tuple[str | None, str]:
    with pytest.raises(ContentFiltered) as caught:
        pass_(rules, texts)
    return caught.value.param, str(caught.value)


@pytest.mark.parametrize("count", [MOST_QUESTIONS, MOST_QUESTIONS + 1, 100, 1000])
def test_what_many_texts_have_is_redacted_in_each_of_them(count: int) -> None:
    texts = many(count)
    for at in (0, 1, count - 1):
        texts[at] = texts[at]._replace(text=f"a secret, {at} secrets")
    guard = Finds("secret")
    passed = pass_(policy(guard_rule(guard, Action.REDACT)), texts)
    assert dict(passed.replaced) == {texts[at].path: f"a [WORD], {at} [WORD]s" for at in (0, 1, count - 1)}
    assert [at.text for at in passed.texts] == [at.text.replace("secret", "[WORD]") for at in texts]
    assert len(guard.asked) <= MOST_QUESTIONS
    assert sum(text.count("secret") for text in guard.asked) == 6


def test_a_finding_is_cut_to_the_texts_that_it_lies_in() -> None:
    texts = [at._replace(text="") for at in many(2 * MOST_QUESTIONS)]
    for at, text in enumerate(("one end", "middle", "begin two", "other")):
        texts[3 * at] = texts[3 * at]._replace(text=text)
    for at in range(20, 60):  # empty ones are in no question: so many make four texts in one
        texts[at] = texts[at]._replace(text="x")
    rule = guard_rule(Finds("end\n\nmiddle"), Action.REDACT)
    assert dict(pass_(policy(rule), texts).replaced) == {texts[0].path: "one [WORD]", texts[3].path: "[WORD]"}
    assert pass_(policy(guard_rule(Finds("\n\n"), Action.REDACT)), texts).replaced == {}


@pytest.mark.parametrize("parallel", [True, False])
def test_what_is_not_redacted_counts_once_where_it_begins(parallel: bool) -> None:
    texts = many(100)
    whole = guard_rule(Finds("text 40\n\ntext 41"), Action.BLOCK, parallel=parallel)
    assert refused(policy(whole), texts)[0] == "messages[40].content"
    assert pass_(policy(guard_rule(Finds("\n\n"), Action.BLOCK, parallel=parallel)), texts).replaced == {}
    recorder = Recorder(scratch_record(), "acme", False)
    flags = guard_rule(Finds("text 40\n\ntext 41"), Action.FLAG, parallel=parallel)
    pass_(policy(flags), texts, recorder)
    assert [verdict.times for verdict in recorder.record.verdicts] == [1]


@pytest.mark.parametrize("count", [1, 100])
def test_many_texts_and_a_judge_that_fails(count: int) -> None:
    rules = [guard_rule(Finds("secret", fails=True), Action.REDACT), guard_rule(Finds("text 0"), Action.REDACT)]
    assert list(pass_(policy(*rules, fail_open=True), many(count)).replaced.values()) == ["[WORD]"]
    with pytest.raises(FilterFailed):
        pass_(policy(*rules), many(count))


@pytest.mark.parametrize("parallel", [True, False])
def test_each_judge_is_asked_about_its_roles(parallel: bool) -> None:
    texts = chat(*[(role, role) for role in ("system", "developer", "user", "assistant", "tool", "function")])
    texts.append(PromptText("system", "tools[0].function.description", ("tools", 0), "tools"))
    usual, instructing = Finds("secret"), Finds("secret")
    rules = [
        guard_rule(usual, Action.BLOCK, parallel=parallel),
        guard_rule(instructing, Action.BLOCK, parallel=parallel, roles=("system", "user")),
    ]
    pass_(policy(*rules), texts)
    assert usual.asked == ["user", "assistant", "tool", "function"]
    assert instructing.asked == ["system", "user", "tools"]


def test_tools_and_parts_are_no_messages() -> None:
    parts = [
        PromptText("user", f"messages[0].content[{n}].text", ("messages", 0, "content", n), "a") for n in range(50)
    ]
    tools = [PromptText("system", f"tools[{n}].type", ("tools", n, "type"), "tool") for n in range(5)]
    for sizes in (Sizes(messages=1), Sizes(message_characters=50), Sizes(prompt_characters=70)):
        pass_(policy(sizes=sizes), parts + tools)
    param, message = refused(policy(sizes=Sizes(message_characters=49)), parts + tools)
    assert param == "messages[0]"
    assert "message_too_long" in message
    assert refused(policy(sizes=Sizes(prompt_characters=69)), parts + tools)[0] == "tools[4].type"
    assert refused(policy(sizes=Sizes(messages=2)), chat(*[("user", "a")] * 3) + tools)[0] == "messages[2]"


def test_sizes_of_prompts() -> None:
    suffix = PromptText("user", "suffix", ("suffix",), "cd")
    one = PromptText("user", "prompt", ("prompt",), "ab")
    pass_(policy(sizes=Sizes(messages=1, message_characters=4)), [one, suffix])
    assert refused(policy(sizes=Sizes(message_characters=3)), [one, suffix])[0] == "suffix"
    assert refused(policy(sizes=Sizes(message_characters=1)), [one])[0] == "prompt"
    assert refused(policy(sizes=Sizes(messages=2)), prompts("a", "b", "c"))[0] == "prompt[2]"


SAID = [("user", "Say it."), ("assistant", "It."), ("user", "Again.")]


@pytest.mark.parametrize(
    ("texts", "counted"),
    [
        (chat(*SAID), [["Say it.", "Again."]]),
        (chat(*SAID, ("system", "Be kind.")), [["Say it.", "Again."]]),
        (chat(*SAID, ("developer", "Be kind.")), [["Say it.", "Again."]]),
        (chat(*SAID, ("assistant", "So")), [["Say it.", "Again."]]),
        (chat(*SAID, ("assistant", "call"), ("tool", "result")), []),
        (chat(*SAID, ("assistant", "call"), ("function", "")), []),
        (chat(("system", "Say it."), ("developer", "Now.")), [["Say it.", "Now."]]),
        (chat(("system", "Say it."), ("user", " "), ("assistant", "It")), [["Say it."]]),
        (chat(("assistant", "It")), [["It"]]),
        (prompts("a", "b", "a"), [["a"], ["b"], ["a"]]),
        ([PromptText("user", "prompt", ("prompt",), "a"), PromptText("user", "suffix", ("suffix",), "b")], [["a"]]),
        ([PromptText("user", "input", ("input",), "a")], []),
    ],
)
def test_which_prompts_are_counted(texts: list[PromptText], counted: list[list[str]]) -> None:
    gate = Counts()
    pass_(policy(gate=gate), texts)
    assert sorted(gate.counted) == sorted(counted)


def test_a_flood_in_one_request() -> None:
    gate = Counts(most=7)
    assert "identical_prompts" in refused(policy(gate=gate), prompts(*["same"] * 8))[1]
    assert len(gate.counted) == 8
    with pytest.raises(StoreUnavailable):
        pass_(policy(gate=Counts(away=True)), prompts("a", "b"))
    recorder = Recorder(scratch_record(), "acme", False)
    pass_(policy(gate=Counts(away=True), fail_open=True), prompts("a", "b"), recorder)
    assert [verdict.rule for verdict in recorder.record.verdicts] == ["flood"]
