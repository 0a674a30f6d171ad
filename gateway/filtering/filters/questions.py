"""Ask guards about texts; several short texts go into one question."""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Final, NamedTuple

from gateway.filtering.filters.filter_policy import GuardRule
from observability.logs import RateLimit
from protos.errors import FilterFailed
from safety.action import Action
from safety.guard import GuardFailed
from safety.screen import Finding

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=5))

#: Bounds on the questions of one request to one guard: in all, and concurrently.
MOST_QUESTIONS: Final = 32
_AT_ONCE: Final = 4
_BETWEEN: Final = "\n\n"


class _Member(NamedTuple):
    """The span of a text within a question, and its place among all texts."""

    start: int
    end: int
    place: int


class _Question(NamedTuple):
    text: str
    members: Sequence[_Member]

    def traced(self, finding: Finding) -> Iterator[tuple[int, Finding]]:
        """Map a finding to the texts that it covers; one that lies only between texts is dropped.

        A redaction applies to each of the texts; any other finding counts once, in the first.
        """
        at = bisect_right(self.members, finding.start, key=lambda member: member.end)
        for start, end, place in self.members[at:]:
            if finding.end <= start:
                return
            yield place, finding._replace(start=max(finding.start, start) - start, end=min(finding.end, end) - start)
            if finding.action is not Action.REDACT:
                return


async def guarded_texts(
    rule: GuardRule,
    texts: Sequence[tuple[int, str]],
    tenant: str,
    *,
    fail_open: bool,
    left_out: Callable[[str], None] | None = None,
) -> list[tuple[int, Finding]]:
    """Ask a guard about many texts, given with their places; return the findings by place. Raises as `guarded`."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(question: _Question) -> list[tuple[int, Finding]]:
        # One long conversation must not take all of a guard's slots.
        async with turns:
            found = await _ask(rule, question.text, None, tenant, fail_open, left_out)
        return [traced for finding in found for traced in question.traced(finding)]

    answers = await asyncio.gather(*map(ask, _questions(texts)), return_exceptions=True)
    found: list[tuple[int, Finding]] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found += answer
    return found


def _questions(texts: Sequence[tuple[int, str]]) -> Iterator[_Question]:
    """Make the questions: one for each text, or for several short ones together."""
    size = max(1, ceil(len(texts) / MOST_QUESTIONS))
    for first in range(0, len(texts), size):
        group = texts[first : first + size]
        members, at = [], 0
        for place, text in group:
            members.append(_Member(at, at + len(text), place))
            at += len(text) + len(_BETWEEN)
        yield _Question(_BETWEEN.join(text for _, text in group), members)


async def guarded(
    rules: Sequence[GuardRule],
    text: str,
    prompt: str | None,
    tenant: str,
    *,
    fail_open: bool,
    left_out: Callable[[str], None] | None = None,
) -> list[Finding]:
    """Ask guards about a text, concurrently; `prompt`: the text is an answer to it.

    `left_out` is called for each guard without a verdict where `fail_open` lets that pass. Raises FilterFailed.
    """
    if not rules:
        return []
    pending = (_ask(rule, text, prompt, tenant, fail_open, left_out) for rule in rules)
    # All are awaited, each within its time limit, so that nothing is left running when one fails.
    answers = await asyncio.gather(*pending, return_exceptions=True)
    found: list[Finding] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found += answer
    return found


async def _ask(
    rule: GuardRule,
    text: str,
    prompt: str | None,
    tenant: str,
    fail_open: bool,
    left_out: Callable[[str], None] | None,
) -> list[Finding]:
    try:
        matches = await rule.guard.verdict(text, prompt, tenant)
    except GuardFailed as error:
        if not fail_open:
            raise FilterFailed.of(rule.name, error.problem) from None
        log.warning("the filter %s came to no verdict, and a request goes on without it: %s", rule.name, error.problem)
        if left_out is not None:
            left_out(rule.name)
        return []
    return [Finding.of(rule.name, rule.action, match) for match in matches]
