"""Filter a request's prompt: refuse it, rewrite it, or pass it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from gateway.filtering.filters.filter_policy import INSTRUCTION_ROLES, FloodRule, GuardRule, Policy
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.questions import guarded_texts
from gateway.filtering.prompt_text import PromptText
from protos.errors import ContentFiltered, StoreUnavailable
from safety.action import Action
from safety.match import Match
from safety.screen import Finding, Screen, Screened, applied, first_to_find
from safety.screening import Screening
from safety.sizes import Part, oversized

_Path = tuple[str | int, ...]
#: Members of a body that are the conversation itself.
_TALK: Final = ("messages", "prompt")
#: Members whose items count as messages for `sizes`; a `suffix` is part of its prompt.
_MESSAGES: Final = (*_TALK, "input", "suffix")
#: Roles of tool results.
_TOOLS: Final = ("tool", "function")
_members: Final[Callable[[dict[str, Any]], Iterable[Any]]] = dict.values
#: Prompts of one request that are counted concurrently.
_AT_ONCE: Final = 4
_Found = list[tuple[int, Screened]]


class ScanRunner(Protocol):
    """Runs a scan off the event loop."""

    def __call__(
        self,
        function: Callable[[Policy, str, Sequence[PromptText]], _Found],
        policy: Policy,
        tenant: str,
        texts: Sequence[PromptText],
    ) -> Awaitable[_Found]:
        """Run the function and return its result."""
        ...


class PassedPrompt(NamedTuple):
    """A prompt that passed.

    `replaced` are the changed strings of its body, `screening` screens its answers, and `open` are the guards that must
    still be asked, about `texts`.
    """

    replaced: Mapping[_Path, str]
    screening: Screening | None
    texts: Sequence[PromptText]
    open: Sequence[GuardRule]


def messages_pass_prefilter(policy: Policy, tenant: str, messages: Iterable[dict[str, Any]]) -> bool:
    """Whether the prefilter finds nothing in messages that each have a role and a content, in that order.

    False: `pass_prompt` must filter them, with the rest of the request.
    """
    rules_by_role, clean = policy.rules_by_role, policy.clean
    known = clean.young
    try:
        for role, text in map(_members, messages):
            look = rules_by_role[role]
            if look is None:
                continue
            _, prefilter_pass, key = look
            name = hash((tenant, key, text))
            if name not in known:
                if prefilter_pass(text):
                    return False
                clean.add(name)
    except (ValueError, KeyError):
        # A message has further members.
        return False
    return True


async def pass_prompt(
    policy: Policy,
    texts: Sequence[PromptText],
    recorder: Recorder,
    run_scan: ScanRunner | None = None,
    *,
    again: bool = False,
) -> PassedPrompt:
    """Filter a prompt, off the event loop with `run_scan`; `again`: for another model, so it is not counted as new.

    Raises ContentFiltered, and FilterFailed or StoreUnavailable where a filter must not be skipped.
    """
    replaced: dict[_Path, str] = {}
    tenant = recorder.tenant
    found = _scanned(policy, tenant, texts) if run_scan is None else await run_scan(_scanned, policy, tenant, texts)
    left = list(texts)
    for index, result in found:
        at = texts[index]
        for rule in result.failures:
            recorder.prompt_unguarded(rule)
        if not result.findings:
            continue
        recorder.prompt(at.param, at.text, result.findings, all_known=True)
        _refuse(result.blocked, at.param)
        if result.text != at.text:
            left[index] = at._replace(text=result.text)
            replaced[at.path] = result.text
    texts = left
    asked_beside: Sequence[GuardRule] = ()
    if policy.has_prompt_rules:
        texts, asked_beside = await _apply_prompt_rules(policy, texts, replaced, recorder, again)
    screening = policy.screening(at.text for at in texts if at.role in INSTRUCTION_ROLES)
    return PassedPrompt(replaced, screening, texts, asked_beside)


async def _apply_prompt_rules(
    policy: Policy, texts: Sequence[PromptText], replaced: dict[_Path, str], recorder: Recorder, again: bool
) -> tuple[Sequence[PromptText], Sequence[GuardRule]]:
    """Apply sizes, floods and guards; return the remaining texts, and the guards that may be asked later."""
    if policy.sizes:
        _check_sizes(policy, texts, recorder)
    if policy.floods and not again:
        await _check_floods(policy, texts, recorder)
    first = [rule for rule in policy.prompt_guards if not rule.parallel]
    # Guards that come second do not see what the first ones redact.
    for redacts in (True, False):
        rules = [rule for rule in first if (rule.action is Action.REDACT) is redacts]
        if rules:
            texts = await _guard_first(policy, rules, texts, replaced, recorder)
    return texts, [rule for rule in policy.prompt_guards if rule.parallel]


def _scanned(policy: Policy, tenant: str, texts: Sequence[PromptText]) -> _Found:
    """Scan the texts; return those with findings or failures."""
    clean, rules_by_role = policy.clean, policy.rules_by_role
    found = []
    for index, (role, _, _, text) in enumerate(texts):
        look = rules_by_role.get(role)
        if look is None:
            continue
        rules, prefilter_pass, key = look
        name = clean.new(tenant, key, text)
        if name is None:
            continue
        first = first_to_find(text, rules, prefilter_pass)
        if first is None:
            clean.add(name)
        else:
            found.append((index, Screen(rules, fail_open=policy.fail_open).whole(text, first)))
    return found


async def ask_guards(policy: Policy, passed: PassedPrompt, recorder: Recorder) -> None:
    """Ask the guards that may run while the prompt is computed. Raises ContentFiltered and FilterFailed."""
    for index, findings in await _guard_all(policy, passed.open, recorder, passed.texts):
        at = passed.texts[index]
        recorder.prompt(at.param, at.text, findings)
        _refuse(_blocking(findings), at.param)


async def _guard_all(
    policy: Policy, rules: Sequence[GuardRule], recorder: Recorder, texts: Sequence[PromptText]
) -> list[tuple[int, list[Finding]]]:
    """Ask guards about the texts of their roles; return the findings by the text's place in the list."""
    pending = (
        guarded_texts(
            rule,
            [(index, at.text) for index, at in enumerate(texts) if at.role in rule.roles and at.text],
            recorder.tenant,
            fail_open=policy.fail_open,
            left_out=recorder.prompt_unguarded,
        )
        for rule in rules
    )
    answers = await asyncio.gather(*pending, return_exceptions=True)
    found: dict[int, list[Finding]] = {}
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        for index, finding in answer:
            found.setdefault(index, []).append(finding)
    return sorted(found.items())


async def _guard_first(
    policy: Policy,
    rules: Sequence[GuardRule],
    texts: Sequence[PromptText],
    replaced: dict[_Path, str],
    recorder: Recorder,
) -> Sequence[PromptText]:
    left = list(texts)
    for index, findings in await _guard_all(policy, rules, recorder, texts):
        at = texts[index]
        recorder.prompt(at.param, at.text, findings)
        _refuse(_blocking(findings), at.param)
        text = applied(at.text, findings).text
        if text != at.text:
            left[index] = at._replace(text=text)
            replaced[at.path] = text
    return left


def _check_sizes(policy: Policy, texts: Sequence[PromptText], recorder: Recorder) -> None:
    parts = [Part(_message_of(at.path), at.text) for at in texts]
    for rule in policy.sizes:
        for index, match in oversized(parts, rule.sizes):
            at = texts[index]
            # The bound is on the message, which may have many texts.
            step = "".join(f"[{step}]" for step in at.path[1:2])
            param = at.param if parts[index].message is None else f"{at.path[0]}{step}"
            finding = Finding.of(rule.name, rule.action, match)
            recorder.prompt(param, at.text, [finding])
            if rule.action is Action.BLOCK:
                _refuse(finding, param)


def _message_of(path: _Path) -> int | None:
    if path[0] not in _MESSAGES:
        return None
    number = path[1] if len(path) > 1 else 0
    return number if isinstance(number, int) else None


async def _check_floods(policy: Policy, texts: Sequence[PromptText], recorder: Recorder) -> None:
    prompts = _prompts(texts)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def check(rule: FloodRule, prompt: Sequence[PromptText]) -> list[Match]:
        async with turns:
            return await rule.gate.check(recorder.tenant, rule.name, [at.text for at in prompt])

    for rule in policy.floods:
        answers = await asyncio.gather(*(check(rule, prompt) for prompt in prompts), return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in failed:
            if not (policy.fail_open and isinstance(error, StoreUnavailable)):
                raise error
        if failed:
            recorder.prompt_unguarded(rule.name)
        for prompt, answer in zip(prompts, answers, strict=True):
            for match in () if isinstance(answer, BaseException) else answer:
                finding = Finding.of(rule.name, rule.action, match)
                recorder.prompt(prompt[0].param, "".join(at.text for at in prompt), [finding])
                if rule.action is Action.BLOCK:
                    _refuse(finding, None)


def _prompts(texts: Sequence[PromptText]) -> list[list[PromptText]]:
    """Split the texts into prompts to count: the user's messages, or, where there are none, the instructions."""
    talk = [at for at in texts if at.path[0] in _TALK]
    # A tool result repeats all that the user has said. It may have no text: then a tool call comes last.
    if not talk or talk[-1].role in _TOOLS or "tool_calls" in talk[-1].path:
        return []
    if talk[0].path[0] == "prompt":
        return [[at] for at in talk]
    for roles in (("user",), INSTRUCTION_ROLES):
        of_roles = [at for at in talk if at.role in roles]
        if any(at.text.strip() for at in of_roles):
            return [of_roles]
    return [talk]


def _refuse(finding: Finding | None, param: str | None) -> None:
    if finding is not None:
        raise ContentFiltered(
            f"The prompt was refused by the content filter '{finding.rule}' ({finding.label}).", param=param
        )


def _blocking(findings: Sequence[Finding]) -> Finding | None:
    return next((finding for finding in findings if finding.action is Action.BLOCK), None)
