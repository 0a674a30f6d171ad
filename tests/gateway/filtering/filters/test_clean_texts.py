"""What was found clean is not looked at twice, apart for tenants and rules."""

import asyncio

from gateway.filtering.filters.clean_texts import CleanTexts
from gateway.filtering.filters.filter_policy import Policy
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.prompt_filter import pass_prompt
from gateway.filtering.prompt_text import PromptText
from gateway.inference.generate_request import scratch_record
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

    def scan(self, text: str, plain: bytes | None = None) -> list[Match]:
        self.looks += 1
        if self.broken:
            raise RuntimeError
        return super().scan(text, plain)


def is_new(clean: CleanTexts, tenant: str, rules: tuple[Rule, ...], text: str) -> bool:
    return clean.new(tenant, id(rules), text) is not None


def remember(clean: CleanTexts, text: str) -> None:
    name = clean.new("acme", id(ONE), text)
    assert name is not None
    clean.add(name)


def test_tenants_and_rules_are_apart() -> None:
    clean = CleanTexts()
    remember(clean, "hello")
    assert not is_new(clean, "acme", ONE, "hello")
    assert is_new(clean, "globex", ONE, "hello")
    assert is_new(clean, "acme", OTHER, "hello")
    assert is_new(clean, "acme", ONE, "hello!")
    assert is_new(CleanTexts(), "acme", ONE, "hello")


def test_it_is_bounded_and_forgets_what_is_not_met_again() -> None:
    clean = CleanTexts(most=10)
    for number in range(30):
        remember(clean, str(number))
        assert not is_new(clean, "acme", ONE, "0")
    assert sum(not is_new(clean, "acme", ONE, str(number)) for number in range(30)) <= 20
    assert is_new(clean, "acme", ONE, "1")


def test_without_a_secret_key_nothing_is_remembered() -> None:
    clean = CleanTexts(key_is_secret=False)
    for _ in range(3):
        remember(clean, "hello")


def test_a_prompt_is_looked_at_once() -> None:
    filter_ = Counting("a", ["bad"], words=True)
    rules = (Rule("a", filter_, Action.FLAG),)
    policy = Policy({"user": rules}, (), (), (), (), (), fail_open=True, record_text=False)

    def ask(tenant: str, *texts: str) -> int:
        before = filter_.looks
        prompt = [PromptText("user", "p", ("p", index), text) for index, text in enumerate(texts)]
        asyncio.run(pass_prompt(policy, prompt, Recorder(scratch_record(), tenant, False)))
        return filter_.looks - before

    assert ask("acme", "hello", "you") == 2
    assert ask("acme", "hello", "you", "there") == 1
    assert ask("globex", "hello") == 1
    # What has something in it is looked at each time.
    assert ask("acme", "bad") == 1
    assert ask("acme", "bad") == 1
    filter_.broken = True
    assert ask("acme", "new") >= 1
    filter_.broken = False
    assert ask("acme", "new") == 1
