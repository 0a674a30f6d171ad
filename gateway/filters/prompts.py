"""A request's prompt before the filters: refused, changed, or as it was."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple, Protocol

from gateway.filters.policy import INSTRUCTING, JudgeRule, NewScreen, Policy
from gateway.filters.questions import judged
from gateway.filters.records import Recorder
from gateway.http.prompt_texts import PromptText
from protos.errors import ContentFiltered, FilterFailed, StoreUnavailable
from safety.action import Action
from safety.screen import Finding, Screen, Screened, applied, first_to_find
from safety.sizes import oversized

_Path = tuple[str | int, ...]
#: Members of a body that are the conversation, and not about it.
_TALK: Final = ("messages", "prompt")
_Found = list[tuple[int, Screened]]
#: Questions of one request, and those of them that are asked at one time.
_MOST_QUESTIONS: Final = 32
_AT_ONCE: Final = 4


class Apart(Protocol):
    """Runs a function beside the event loop."""

    def __call__(
        self,
        function: Callable[[Policy, str, Sequence[PromptText]], _Found],
        policy: Policy,
        tenant: str,
        texts: Sequence[PromptText],
    ) -> Awaitable[_Found]:
        """What it gives."""
        ...


class PassedPrompt(NamedTuple):
    """A prompt that may be answered.

    `replaced` are the strings of its body that have changed, `screen` is what its answers are screened by, and `open`
    the judges that have still to be asked, about `texts`.
    """

    replaced: Mapping[_Path, str]
    screen: NewScreen | None
    texts: Sequence[PromptText]
    open: Sequence[JudgeRule]


async def pass_prompt(
    policy: Policy,
    texts: Sequence[PromptText],
    recorder: Recorder,
    apart: Apart | None = None,
    *,
    again: bool = False,
) -> PassedPrompt:
    """Look at a prompt, with `apart` beside the event loop; `again`: for another model, so it is not counted anew.

    Raises ContentFiltered, and FilterFailed or StoreUnavailable where a filter must not be passed over.
    """
    replaced: dict[_Path, str] = {}
    tenant = recorder.tenant
    found = _scanned(policy, tenant, texts) if apart is None else await apart(_scanned, policy, tenant, texts)
    for index, result in found:
        at = texts[index]
        for rule in result.failures:
            recorder.prompt_unjudged(rule)
        if not result.findings:
            continue
        recorder.prompt(at.param, at.text, result.findings, all_known=True)
        _refuse(result.blocked, at.param)
        if result.text != at.text:
            texts = _with(texts, index, result.text)
            replaced[at.path] = result.text
    asked_beside: Sequence[JudgeRule] = ()
    if policy.looks_beyond_texts:
        texts, asked_beside = await _look_beyond(policy, texts, replaced, recorder, again)
    screen = policy.screen(at.text for at in texts if at.role in INSTRUCTING)
    return PassedPrompt(replaced, screen, texts, asked_beside)


async def _look_beyond(
    policy: Policy, texts: Sequence[PromptText], replaced: dict[_Path, str], recorder: Recorder, again: bool
) -> tuple[Sequence[PromptText], Sequence[JudgeRule]]:
    """Sizes, floods and judges; gives what is left of the texts, and the judges that may be asked later."""
    if policy.sizes:
        _check_sizes(policy, texts, recorder)
    if policy.floods and not again:
        await _check_floods(policy, texts, recorder)
    first = [rule for rule in policy.prompt_judges if not rule.parallel]
    # What some redact the others do not see.
    for redacts in (True, False):
        rules = [rule for rule in first if (rule.action is Action.REDACT) is redacts]
        if rules:
            texts = await _judge_first(policy, rules, texts, replaced, recorder)
    return texts, [rule for rule in policy.prompt_judges if rule.parallel]


def _scanned(policy: Policy, tenant: str, texts: Sequence[PromptText]) -> _Found:
    """The texts in which something was found, or could not be looked for."""
    clean, of_role = policy.clean, policy.prompt
    found = []
    for index, (role, _, _, text) in enumerate(texts):
        rules = of_role.get(role)
        if not rules:
            continue
        name = clean.new(tenant, rules, text)
        if name is None:
            continue
        first = first_to_find(text, rules)
        if first is None:
            clean.add(name)
        else:
            found.append((index, Screen(rules, fail_open=policy.fail_open).whole(text, first)))
    return found


async def ask_judges(policy: Policy, passed: PassedPrompt, recorder: Recorder) -> None:
    """Ask the judges that may be asked while the prompt is computed. Raises ContentFiltered and FilterFailed."""
    for at, findings in await _judge_all(policy, passed.open, recorder, passed.texts):
        recorder.prompt(at.param, at.text, findings)
        _refuse(_blocking(findings), at.param)


async def _judge_all(
    policy: Policy, rules: Sequence[JudgeRule], recorder: Recorder, texts: Sequence[PromptText]
) -> list[tuple[PromptText, list[Finding]]]:
    """What judges find in the texts that somebody sent; instructions are the application's own."""
    asked = _questions(rules, [at for at in texts if at.role not in INSTRUCTING and at.text])
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(text: str) -> list[Finding]:
        # One long conversation is not to take all the turns that a guard has.
        async with turns:
            return await judged(
                rules, text, None, recorder.tenant, fail_open=policy.fail_open, left_out=recorder.prompt_unjudged
            )

    answers = await asyncio.gather(*(ask(at.text) for at in asked), return_exceptions=True)
    found: list[tuple[PromptText, list[Finding]]] = []
    for at, answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException):
            raise answer
        if answer:
            found.append((at, answer))
    return found


def _questions(rules: Sequence[JudgeRule], texts: Sequence[PromptText]) -> Sequence[PromptText]:
    """What judges are asked about: each text, or of many several together. Raises FilterFailed if they cannot be."""
    if len(texts) <= _MOST_QUESTIONS:
        return texts
    redacting = next((rule.name for rule in rules if rule.action is Action.REDACT), None)
    if redacting is not None:
        raise FilterFailed.of(redacting, f"more than {_MOST_QUESTIONS} texts in one request")
    size = ceil(len(texts) / _MOST_QUESTIONS)
    groups = (texts[start : start + size] for start in range(0, len(texts), size))
    return [group[0]._replace(text="\n\n".join(at.text for at in group)) for group in groups]


async def _judge_first(
    policy: Policy,
    rules: Sequence[JudgeRule],
    texts: Sequence[PromptText],
    replaced: dict[_Path, str],
    recorder: Recorder,
) -> Sequence[PromptText]:
    for at, findings in await _judge_all(policy, rules, recorder, texts):
        recorder.prompt(at.param, at.text, findings)
        _refuse(_blocking(findings), at.param)
        text = applied(at.text, findings).text
        if text != at.text:
            texts = _with(texts, texts.index(at), text)
            replaced[at.path] = text
    return texts


def _check_sizes(policy: Policy, texts: Sequence[PromptText], recorder: Recorder) -> None:
    for rule in policy.sizes:
        for index, match in oversized([at.text for at in texts], rule.sizes):
            at = texts[index]
            finding = Finding.of(rule.name, rule.action, match)
            recorder.prompt(at.param, at.text, [finding])
            if rule.action is Action.BLOCK:
                _refuse(finding, at.param)


async def _check_floods(policy: Policy, texts: Sequence[PromptText], recorder: Recorder) -> None:
    talk = [at for at in texts if at.path[0] in _TALK]
    # What tools answered comes with all that the user has said again.
    users = [at for at in talk if at.role == "user"] if talk and talk[-1].role == "user" else []
    if not users:
        return
    for rule in policy.floods:
        try:
            matches = await rule.gate.check(recorder.tenant, rule.name, [at.text for at in users])
        except StoreUnavailable:
            if not policy.fail_open:
                raise
            recorder.prompt_unjudged(rule.name)
            continue
        for match in matches:
            finding = Finding.of(rule.name, rule.action, match)
            recorder.prompt(users[0].param, "".join(at.text for at in users), [finding])
            if rule.action is Action.BLOCK:
                _refuse(finding, None)


def _refuse(finding: Finding | None, param: str | None) -> None:
    if finding is not None:
        raise ContentFiltered(
            f"The prompt was refused by the content filter '{finding.rule}' ({finding.label}).", param=param
        )


def _blocking(findings: Sequence[Finding]) -> Finding | None:
    return next((finding for finding in findings if finding.action is Action.BLOCK), None)


def _with(texts: Sequence[PromptText], index: int, text: str) -> Sequence[PromptText]:
    changed = list(texts)
    changed[index] = texts[index]._replace(text=text)
    return changed
