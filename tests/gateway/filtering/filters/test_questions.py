"""Judges that fail are told apart from those that find something."""

import asyncio
import logging

import pytest

from gateway.filtering.filters.filter_policy import GuardRule
from gateway.filtering.filters.questions import guarded, log
from protos.errors import FilterFailed
from safety.action import Action
from safety.guard import GuardFailed
from safety.match import Match


class Fixed:
    """A guard with one answer."""

    def __init__(self, answer: list[Match] | None) -> None:
        self.answer = answer

    async def verdict(self, text: str, prompt: str | None = None, tenant: str = "") -> list[Match]:
        if self.answer is None:
            raise GuardFailed("out of order")
        return self.answer


def rule(name: str, answer: list[Match] | None) -> GuardRule:
    return GuardRule(name, Fixed(answer), Action.FLAG, parallel=False, window=100, spans=True)


def test_what_all_judges_find() -> None:
    rules = [rule("one", [Match(0, 2, "a")]), rule("two", []), rule("three", [Match(1, 3, "b", 0.5)])]
    found = asyncio.run(guarded(rules, "text", None, "acme", fail_open=False))
    assert [(f.rule, f.label, f.start, f.end, f.score) for f in found] == [
        ("one", "a", 0, 2, 1.0),
        ("three", "b", 1, 3, 0.5),
    ]
    assert asyncio.run(guarded([], "text", None, "acme", fail_open=False)) == []


def test_one_that_fails(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "filters", [])
    rules = [rule("one", None), rule("two", [Match(0, 2, "a")])]
    with pytest.raises(FilterFailed) as caught:
        asyncio.run(guarded(rules, "text", None, "acme", fail_open=False))
    assert caught.value.detail == "filter one: out of order"
    with caplog.at_level(logging.WARNING):
        assert len(asyncio.run(guarded(rules, "text", None, "acme", fail_open=True))) == 1
    assert "the filter one came to no verdict" in caplog.text
