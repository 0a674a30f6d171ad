"""Run filters on a text as a gateway does: each filter's matches, and the text that results from all."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from gateway.cli.safety.safety_rules import ChosenRules
from gateway.filtering.filters.filter_policy import GuardRule, SizeRule
from gateway.filtering.filters.questions import guarded
from gateway.filtering.guards.bounded import BoundedGuard
from safety.action import Action
from safety.match import Match
from safety.screen import Finding, Rule, Screened, applied, screened
from safety.sizes import Part, oversized


class Found(NamedTuple):
    """A rule's match, located in the original text."""

    rule: Rule | SizeRule | GuardRule
    match: Match


class Guards:
    """Run guards and wait for their verdicts; a context manager that closes them at its end."""

    def __init__(self, rules: Sequence[GuardRule]) -> None:
        self._rules = rules
        # The runner covers no more than this: where nothing is awaited, it would keep Ctrl-C from interrupting.
        self._runner = asyncio.Runner()

    def __enter__(self) -> "Guards":
        return self

    def __exit__(self, *error: object) -> None:
        for rule in self._rules:
            if isinstance(rule.guard, BoundedGuard):
                self._runner.run(rule.guard.aclose())
        self._runner.close()

    def find(self, rules: Sequence[GuardRule], text: str) -> list[Finding]:
        """Return what the guards find. Raises FilterFailed."""
        return self._runner.run(guarded(rules, text, None, "", fail_open=False)) if rules else []


def filter_text(text: str, chosen: ChosenRules, guards: Guards, *, prompt: bool) -> tuple[list[Found], Screened]:
    """Return each rule's own matches, in order, and the resulting text. Raises FilterFailed."""
    found = [Found(rule, match) for rule in chosen.rules for match in rule.filter.scan(text)]
    found += [Found(rule, match) for rule in chosen.sizes for _, match in oversized([Part(0, text)], rule.sizes)]
    for guard in chosen.guards:
        found += [Found(guard, Match(one.start, one.end, one.label, one.score)) for one in guards.find([guard], text)]
    rest = screened(text, chosen.rules)
    rest = _sized_and_guarded(rest, chosen, guards) if prompt else _guarded(rest, guards.find(chosen.guards, rest.text))
    return sorted(found, key=lambda one: one.match.start), rest


def _sized_and_guarded(rest: Screened, chosen: ChosenRules, guards: Guards) -> Screened:
    """Refuse a prompt by the first rule that blocks it; later guards see the text that earlier ones redacted."""
    if rest.blocked is not None:
        return rest
    for rule in chosen.sizes:
        if rule.action is Action.BLOCK:
            for _, match in oversized([Part(0, rest.text)], rule.sizes):
                return rest._replace(blocked=Finding.of(rule.name, rule.action, match))
    for redacts in (True, False):
        rules = [rule for rule in chosen.guards if (rule.action is Action.REDACT) is redacts]
        if rest.blocked is None:
            rest = _guarded(rest, guards.find(rules, rest.text))
    return rest


def _guarded(rest: Screened, found: Sequence[Finding]) -> Screened:
    result = applied(rest.text, found)
    return rest._replace(text=result.text, blocked=result.blocked or rest.blocked)
