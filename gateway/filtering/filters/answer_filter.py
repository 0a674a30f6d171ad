"""The answer filter of one request: screens, and guards."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gateway.filtering.filters.answer_text import FindingSource
from gateway.filtering.filters.filter_policy import GuardRule
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.questions import guarded
from safety.action import Action
from safety.screen import Finding, applied
from safety.screening import Screening

#: Characters of already shown text that go with a question.
CONTEXT: Final = 4096
#: Characters at the end of gathered text that are checked again with what follows, by guards that find spans.
OVERLAP: Final = 64


class AnswerFilter(msgspec.Struct):
    """Makes screens for the texts of answers and asks guards about them; `prompt` is the prompt they answer."""

    screening: Screening | None
    guards: Sequence[GuardRule]
    prompt: str | None
    fail_open: bool
    recorder: Recorder
    guarded: "list[GuardedAnswer]" = []

    def record(self, answers: Mapping[int, Sequence[FindingSource]]) -> None:
        """Record the findings in the texts of each answer, once they have ended."""
        for index, texts in sorted(answers.items()):
            findings = [finding for text in texts for finding in text.findings]
            failures = sorted({name for text in texts for name in text.failures})
            if findings or failures:
                self.recorder.answer(index, sum(text.received for text in texts), findings, failures)

    def record_guarded(self) -> None:
        """Record the findings of guards."""
        for answer in self.guarded:
            if answer.findings:
                self.recorder.answer(answer.index, answer.received, answer.findings, ())

    def answer(self, index: int) -> "GuardedAnswer":
        """Begin another guarded text of the answer of that index."""
        answer = GuardedAnswer(self, index)
        self.guarded.append(answer)
        return answer


class GuardedAnswer:
    """One text of an answer before guards: gathered, and shown after their verdict about it and the text before it.

    `blocked`: nothing more of it is shown.
    """

    def __init__(self, filter_: AnswerFilter, index: int) -> None:
        self._filter = filter_
        self.index = index
        self._window = min(rule.window for rule in filter_.guards)
        self._spans = frozenset(rule.name for rule in filter_.guards if rule.spans)
        self._shown = ""
        self._gathered = ""
        self._due = self._window + (OVERLAP if self._spans else 0)
        self.received = 0
        self.blocked: Finding | None = None
        self.findings: list[Finding] = []

    def add(self, text: str) -> bool:
        """Add the next piece; return whether it is time for a question."""
        self._gathered += text
        self.received += len(text)
        return len(self._gathered) >= self._due

    async def settle(self, *, last: bool) -> str:
        """Ask the guards; return what may be shown now, with `last` all that may be. Raises FilterFailed."""
        if self.blocked is not None or not self._gathered:
            return ""
        of, before, text = self._filter, len(self._shown), self._gathered
        found = await guarded(
            of.guards,
            self._shown + text,
            of.prompt,
            of.recorder.tenant,
            fail_open=of.fail_open,
            left_out=of.recorder.answer_unguarded,
        )
        of_spans = [
            finding._replace(start=max(0, finding.start - before), end=finding.end - before)
            for finding in found
            if finding.rule in self._spans and finding.end > before
        ]
        of_whole = [finding for finding in found if finding.rule not in self._spans]
        end = len(text) if last or not self._spans else max(0, len(text) - OVERLAP)
        # A span is not split: it may become longer once more has come.
        end = min([end, *(finding.start for finding in of_spans if finding.end > end)])
        decided = [finding for finding in of_spans if finding.start < end]
        self._note(of_whole + decided)
        self.blocked = next((finding for finding in of_whole if finding.action is Action.BLOCK), None)
        if self.blocked is not None:
            return ""
        result = applied(text[:end], decided, self._shown)
        self.blocked = result.blocked
        self._shown = (self._shown + text[:end])[-CONTEXT:]
        self._gathered = text[end:]
        # Undecided text is asked about again with one more window.
        self._due = self._window + max(len(self._gathered), OVERLAP if self._spans else 0)
        return result.text

    def _note(self, findings: Sequence[Finding]) -> None:
        """Note findings; a finding about the text as a whole recurs with every question."""
        known = {(finding.rule, finding.label) for finding in self.findings if finding.rule not in self._spans}
        self.findings += [finding for finding in findings if (finding.rule, finding.label) not in known]
