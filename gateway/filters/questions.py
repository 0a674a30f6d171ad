"""Asking judges about a text."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from gateway.filters.policy import JudgeRule
from observability.logs import RateLimit
from protos.errors import FilterFailed
from safety.judge import JudgeFailed
from safety.screen import Finding

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=5))


async def judged(
    rules: Sequence[JudgeRule],
    text: str,
    prompt: str | None,
    tenant: str,
    *,
    fail_open: bool,
    left_out: Callable[[str], None] | None = None,
) -> list[Finding]:
    """What judges find in a text, all asked at once; `prompt`: it is an answer to that.

    `left_out` is told of each that came to no verdict where `fail_open` lets that pass. Raises FilterFailed.
    """
    if not rules:
        return []
    asked = (_ask(rule, text, prompt, tenant, fail_open, left_out) for rule in rules)
    # All are waited for, which none makes longer than its time: nothing is left behind when one fails.
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found: list[Finding] = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found += answer
    return found


async def _ask(
    rule: JudgeRule,
    text: str,
    prompt: str | None,
    tenant: str,
    fail_open: bool,
    left_out: Callable[[str], None] | None,
) -> list[Finding]:
    try:
        matches = await rule.judge.judge(text, prompt, tenant)
    except JudgeFailed as error:
        if not fail_open:
            raise FilterFailed.of(rule.name, error.problem) from None
        log.warning("the filter %s came to no verdict, and a request goes on without it: %s", rule.name, error.problem)
        if left_out is not None:
            left_out(rule.name)
        return []
    return [Finding.of(rule.name, rule.action, match) for match in matches]
