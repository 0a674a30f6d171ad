"""What was found clean is not looked at twice, apart for tenants and rules."""

import asyncio

from gateway.filters.clean_texts import CleanTexts
from gateway.filters.policy import Policy
from gateway.filters.prompts import pass_prompt
from gateway.filters.records import Recorder
from gateway.http.prompt_texts import PromptText
from gateway.request import unrecorded
from safety.action import Action
from safety.match import Match
from safety.screen import Rule
from safety.terms import TermFilter

ONE = (Rule("a", TermFilter("a", ["bad"], words=True), Action.FLAG),)
OTHER = (Rule("b", TermFilter("b", ["worse"], words=True), Action.FLAG),)


class Counting(TermFilter):
    """Counts what it looks at; fails on demand."""

    looks = 0
    broken = False

    def scan(self, text: str) -> list[Match]:
        self.looks += 1
        if self.broken:
            raise RuntimeError
        return super().scan(text)


def test_tenants_and_rules_are_apart() -> None:
    clean = CleanTexts()
    name = clean.name_of("acme", ONE, "hello")
    clean.add(name)
    assert clean.name_of("acme", ONE, "hello") in clean
    assert clean.name_of("globex", ONE, "hello") not in clean
    assert clean.name_of("acme", OTHER, "hello") not in clean
    assert clean.name_of("acme", ONE, "hello!") not in clean
    assert name not in CleanTexts()


def test_it_is_bounded_and_forgets_what_is_not_met_again() -> None:
    clean = CleanTexts(most=10)
    names = [clean.name_of("acme", ONE, str(number)) for number in range(30)]
    for name in names:
        assert name not in clean
        clean.add(name)
        assert names[0] in clean or name == names[0]
    assert sum(name in clean for name in names) <= 20
    assert names[1] not in clean


def test_a_prompt_is_looked_at_once() -> None:
    filter_ = Counting("a", ["bad"], words=True)
    rules = (Rule("a", filter_, Action.FLAG),)
    policy = Policy({"user": rules}, (), (), (), (), (), fail_open=True, record_text=False)

    def ask(tenant: str, *texts: str) -> int:
        before = filter_.looks
        prompt = [PromptText("user", "p", ("p", index), text) for index, text in enumerate(texts)]
        asyncio.run(pass_prompt(policy, prompt, Recorder(unrecorded(), tenant, False)))
        return filter_.looks - before

    assert ask("acme", "hello", "you") == 2
    assert ask("acme", "hello", "you", "there") == 1
    assert ask("globex", "hello") == 1
    # What has something in it is looked at each time, twice to say what.
    assert ask("acme", "bad") == 2
    assert ask("acme", "bad") == 2
    filter_.broken = True
    assert ask("acme", "new") >= 1
    filter_.broken = False
    assert ask("acme", "new") == 1
