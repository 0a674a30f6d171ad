"""Record findings: filter, kind, the text's length, and for prompts a salted hash.

An answer comes in pieces and is never whole, so it has no hash.
"""

import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from gateway.filtering.prompt_text import WORDS
from observability.logs import RateLimit
from observability.printable import printable
from observability.record import FAILED, RequestRecord, Verdict
from safety.action import Action
from safety.screen import MOST_FINDINGS, Finding, applied

log = logging.getLogger(__name__)
log.addFilter(RateLimit(per_second=50))

#: Hashes can be compared only within the life of a worker.
_SALT: Final = secrets.token_bytes(32)
_DID: Final = {Action.FLAG: "flagged", Action.REDACT: "redacted", Action.BLOCK: "blocked"}
_NAMES: Final = WORDS | {"messages", "prompt", "suffix", "prediction", "tools", "response_format"}
#: Characters of a text that are shown on either side of the first finding.
_AROUND: Final = 80


class Recorder(msgspec.Struct, frozen=True):
    """Records findings of one request in its record and in the log.

    `shows_text`: its tenant wants texts in the log, with all findings redacted.
    """

    record: RequestRecord
    tenant: str
    shows_text: bool

    def prompt(self, param: str, text: str, findings: Sequence[Finding], *, all_known: bool = False) -> None:
        """Record findings in that parameter; `all_known`: they are all findings of every text filter."""
        self._note("prompt", findings)
        digest = blake2b(text.encode("utf-8", "surrogatepass"), key=_SALT, digest_size=8).hexdigest()
        shows = self.shows_text and all_known and len(findings) < MOST_FINDINGS
        shown = f": {_excerpt(text, findings)}" if shows else ""
        log.info(
            "request %s of tenant %s: %s in %s, %d characters, hash %s%s",
            self.record.id,
            self.tenant,
            summary(findings),
            _place(param),
            len(text),
            digest,
            shown,
        )

    def answer(self, index: int, characters: int, findings: Sequence[Finding], failures: Sequence[str]) -> None:
        """Record findings in an answer of so many characters; `failures` are filters that were left out."""
        self._note("answer", findings, failures)
        if findings:
            log.info(
                "request %s of tenant %s: %s in answer %d, %d characters",
                self.record.id,
                self.tenant,
                summary(findings),
                index,
                characters,
            )
        if failures:
            log.warning(
                "request %s of tenant %s: answer %d went on without the filters that failed: %s",
                self.record.id,
                self.tenant,
                index,
                ", ".join(failures),
            )

    def prompt_unguarded(self, rule: str) -> None:
        """Record that a rule came to no verdict about the prompt, which went on without it."""
        self.record.verdicts.append(Verdict(rule, FAILED, "prompt", "", 1))

    def answer_unguarded(self, rule: str) -> None:
        """Record that a rule came to no verdict about an answer, which went on without it."""
        self.record.verdicts.append(Verdict(rule, FAILED, "answer", "", 1))

    def _note(self, where: str, findings: Sequence[Finding], failures: Sequence[str] = ()) -> None:
        counts = Counter((finding.rule, finding.action.name.lower(), finding.label) for finding in findings)
        verdicts = self.record.verdicts
        verdicts += [Verdict(rule, action, where, label, times) for (rule, action, label), times in counts.items()]
        verdicts += [Verdict(rule, FAILED, where, "", 1) for rule in failures]


def summary(findings: Sequence[Finding]) -> str:
    """Summarise findings as in `pii redacted 2 email, 1 phone; injection flagged 1 persona_jailbreak`."""
    counts: dict[tuple[str, Action], Counter[str]] = {}
    for finding in findings:
        counts.setdefault((finding.rule, finding.action), Counter())[finding.label] += 1
    return "; ".join(
        f"{rule} {_DID[action]} {', '.join(f'{count} {label}' for label, count in labels.items())}"
        for (rule, action), labels in counts.items()
    )


def _place(param: str) -> str:
    """Shorten a parameter's place: member names chosen by the sender are text of the request."""
    return ".".join(part if part.partition("[")[0] in _NAMES else "*" for part in param.split("."))


def _excerpt(text: str, findings: Sequence[Finding]) -> str:
    """Show the text around the first finding, with every finding redacted, whatever its action.

    The text after a blocking match was not scanned.
    """
    blocking = min((finding.end for finding in findings if finding.action is Action.BLOCK), default=len(text))
    redacted = applied(text, [finding._replace(action=Action.REDACT) for finding in findings])
    if blocking < len(text):
        redacted = applied(text[:blocking], [f._replace(action=Action.REDACT) for f in findings if f.end <= blocking])
    first = min(finding.start for finding in findings)
    return printable(redacted.text[max(0, first - _AROUND) : first + _AROUND])
