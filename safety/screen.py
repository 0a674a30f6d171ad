"""Screen a text with rules: block it, redact spans or record findings."""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import msgspec

from protos.errors import FilterFailed
from safety.action import Action
from safety.calm import NO_PIECES, NOT_CALM, CalmEnd, CalmStream, calm_ends, calm_pieces
from safety.calm_run import CalmRun
from safety.filter import Stream, StreamFilter
from safety.match import Match
from safety.plain_text import plain_bytes
from safety.prefilter import PrefilterPass
from safety.replacement import LEFT, replaced, replacement

#: The most findings that are recorded for one text; the others still take effect.
MOST_FINDINGS: Final = 256
#: The most characters that wait for the next piece although the filters have decided them, with those undecided.
_MOST_HELD: Final = 64
#: Streams of filters that tell what is calm.
_CalmStreams = list[tuple[int, CalmStream]]


class Rule(NamedTuple):
    """A filter with its configured name and the action for its matches."""

    name: str
    filter: StreamFilter
    action: Action


class Finding(NamedTuple):
    """A match of a rule, in characters of the screened text."""

    rule: str
    action: Action
    label: str
    start: int
    end: int
    score: float

    @classmethod
    def of(cls, rule: str, action: Action, match: Match) -> "Finding":
        """Build a finding from a rule's match."""
        return cls(rule, action, match.label, match.start, match.end, match.score)


class Screened(NamedTuple):
    """A screened text. `blocked` is the finding that cut it off, if any; `failures` names the rules that failed."""

    text: str
    blocked: Finding | None
    findings: list[Finding]
    failures: Sequence[str] = ()


class First(NamedTuple):
    """The index of the first rule with matches in a text, and the matches; none if the rule failed."""

    rule: int
    matches: Sequence[Match]


class _Span(NamedTuple):
    """A span to redact; sorted by start, then by the order of the rules."""

    start: int
    rule: int
    end: int
    label: str


class Screen(msgspec.Struct, eq=False):
    """Screen one streamed text; release the characters that may be shown.

    However the text is cut, the released text equals that of `screened` for the whole. A match of a blocking rule ends
    the text before it; of two the one that begins first. Redacted spans that touch or overlap become one, under the
    first one's label.

    A filter that raises or reports an impossible match fails the text with FilterFailed; with `fail_open` it is skipped
    from there on and named in `failures`.

    It is a struct for speed: there is one per text of each answer, and setting this many fields one by one is slow.
    """

    rules: Sequence[Rule]
    #: Selects the rules that have to scan a whole text; None selects all.
    prefilter_pass: PrefilterPass | None = None
    fail_open: bool = False
    #: The finding that ended the text; no text is released after it.
    blocked: Finding | None = None
    #: The redacted spans, as (start, end), in order.
    replaced: list[tuple[int, int]] = []
    #: Each span's replacement.
    written: list[str] = []
    failures: list[str] = []
    #: What the filters say of calm pieces, if all do, and the run of such pieces that is under way.
    _ends: frozenset[CalmEnd] | None = None
    _run: CalmRun | None = None
    #: The number of characters received, ...
    _received: int = 0
    #: ... and how many of them are released, redacted or cut off; both up to where the streams were fed.
    _decided: int = 0
    _streams: list[tuple[int, Stream]] | None = None
    _gather: int = 1
    _gathered: list[str] = []
    #: The number of received characters from which on the gathered text is scanned.
    _due: int = 0
    _held: str = ""
    #: Up to where the filters have decided, and whether the last piece did not change that.
    _reached: int = 0
    _paused: bool = False
    #: The end of the decided text, before redaction; None if no rule redacts.
    _left: str | None = None
    _spans: list[_Span] = []
    _findings: list[Finding] = []
    _block: Finding | None = None

    @property
    def received(self) -> int:
        """The number of characters received."""
        return self._received + (0 if self._run is None else self._run.received)

    @property
    def decided(self) -> int:
        """How many of them are released, redacted or cut off."""
        run = self._run
        return self._decided if run is None else self.received - len(run.text) + run.place

    @property
    def noted(self) -> bool:
        """Whether there are findings or failed rules."""
        return bool(self._findings or self.failures)

    @property
    def findings(self) -> list[Finding]:
        """The findings up to where the text was cut off."""
        block = self._block
        if block is None:
            return self._findings
        return [finding for finding in self._findings if finding.start < block.start or finding is block]

    @property
    def growing(self) -> int | None:
        """The end of the last redacted span if it may still grow, as the decided text ends there; else None."""
        if not (self._streams and self.replaced):
            return None
        end = self.replaced[-1][1]
        return end if end == self.decided else None

    def shown_of(self, text: str) -> str:
        """Return what was shown of the text that was fed."""
        return replaced(text[: self.decided], self.replaced, self.written)

    def wait_for(self, characters: int) -> None:
        """Gather this many characters per scan, for a text that no client waits for."""
        self._gather = self._due = characters

    def feed(self, text: str) -> str:
        """Screen the next piece; return the text that may be shown now. Raises FilterFailed."""
        run = self._run
        if run is not None:
            shown = run.feed(text)
            if shown is not None:
                return shown
            self._end_run(run)
        elif self.blocked is not None:
            return ""
        self._received = received = self._received + len(text)
        if self._gather == 1:
            return self._scan(text)
        self._gathered.append(text)
        if received < self._due:
            return ""
        text = self._scan(self._take_gathered())
        # Gathered and held-back characters together are no more than these.
        self._due = self._decided + self._gather
        return text

    def _begin_run(self, ends: frozenset[CalmEnd], last: str) -> None:
        """Ask the streams no more while the text is calm, if it is, as also its `last` piece was."""
        word, longest = self._received - self._reached, _MOST_HELD
        for _, stream in cast(_CalmStreams, self._streams):
            longest = min(longest, stream.calm_word)
        if word > longest or (pieces := calm_pieces(ends, longest))[last] == NOT_CALM:
            return
        left = self._left or ""
        text = left + self._held
        lags = self._decided < self._reached
        simple = NO_PIECES if self._paused else pieces
        self._run = CalmRun(pieces, simple, text, len(text), len(left), len(text) - word, lags, self._paused)

    def _end_run(self, run: CalmRun) -> None:
        """Tell the streams what they were not fed."""
        self._run = None
        text, place, word = run.text, run.place, len(run.text) - run.first_open
        passed = text[run.begin :]
        if passed:
            for _, stream in cast(_CalmStreams, self._streams):
                stream.pass_by(passed, word)
        self._received += len(passed)
        self._held = text[place:]
        self._decided = self._received - len(self._held)
        self._reached, self._paused = self._received - word, run.halts
        if self._left is not None:
            self._left = text[max(0, place - LEFT) : place]

    def _take_gathered(self) -> str:
        text = "".join(self._gathered)
        self._gathered.clear()
        return text

    def _scan(self, text: str) -> str:
        received = decided = self._received
        before = received - len(text)
        streams = self._streams
        if streams is None:
            streams = self._begin()
        index = 0
        try:
            for index, stream in streams:
                found = stream.feed(text)
                if found:
                    self._note(index, found)
                if stream.open < decided:
                    decided = stream.open
        except Exception as error:
            self._drop(index, error)
            return self._resume(text, index)
        piece = text
        if self._held:
            text = self._held + text
        if self._spans or self._block is not None:
            self._reached = decided
            return self._release(text, decided)
        if self._gather == 1:
            # A word of several tokens is decided with the token after it: half of it goes out with the next piece, so
            # that the next such word makes no gap.
            reached, self._reached = self._reached, decided
            paused, self._paused = self._paused, decided == reached and received > before
            even = decided
            if decided == reached or self._decided < reached:
                even = reached
            elif paused:
                even -= (decided - reached) // 2
            if received - even <= _MOST_HELD:
                decided = even
        self._decided = decided
        if decided == received:
            self._held = ""
        else:
            keep = decided - received
            self._held = text[keep:]
            text = text[:keep]
        if self._left is not None:
            self._left = (self._left + text)[-LEFT:]
        if self._ends is not None and self._gather == 1:
            self._begin_run(self._ends, piece)
        return text

    def finish(self) -> str:
        """End the text; return the rest of it that may be shown. Raises FilterFailed."""
        if self.blocked is not None:
            return ""
        if self._run is not None:
            self._end_run(self._run)
        shown = self._scan(self._take_gathered()) if self._gathered else ""
        for index, stream in list(self._streams or ()):
            try:
                self._note(index, stream.finish())
            except Exception as error:
                self._drop(index, error)
        # An answer may have thousands of texts, and streams are not small.
        self._streams = []
        return shown + self._release(self._held, self._received)

    def last(self, text: str) -> str:
        """Screen the last or only piece: `feed` and `finish` in one call, faster for an only piece."""
        if self._streams is not None:
            return self.feed(text) + self.finish()
        if self._gathered:
            text = self._take_gathered() + text
        first = first_to_find(text, self.rules, self.prefilter_pass)
        if first is not None:
            return self.whole(text, first).text
        self._received = self._decided = len(text)
        return text

    def whole(self, text: str, first: First | None = None) -> Screened:
        """Screen a whole text, in place of `feed` and `finish`. Raises FilterFailed.

        `first` is the result of `first_to_find`, if the caller has it.
        """
        first = first or first_to_find(text, self.rules, self.prefilter_pass) or First(len(self.rules), ())
        self._received = len(text)
        begin, matches = first
        for index, rule in enumerate(self.rules[begin:], begin):
            try:
                found = matches or rule.filter.scan(text)
                matches = ()
                if found:
                    self._note(index, found)
            except Exception as error:
                self._failed(index, error)
        if self._spans or self._block is not None:
            text = self._release(text, len(text))
        else:
            self._decided = len(text)
        return Screened(text, self.blocked, self.findings, self.failures)

    def _resume(self, text: str, failed: int) -> str:
        """Continue a piece after a filter was dropped, with the filters that come after it."""
        decided = self._received
        for index, stream in list(self._streams or ()):
            try:
                if index > failed:
                    self._note(index, stream.feed(text))
                decided = min(decided, stream.open)
            except Exception as error:
                self._drop(index, error)
        return self._release(self._held + text, decided)

    def apply(self, text: str, findings: Sequence[Finding], left: str = "") -> Screened:
        """Apply findings made elsewhere to a whole text that follows `left`; in place of `whole`."""
        self._left = left
        self._received = len(text)
        for index, finding in enumerate(findings):
            self._add(index, finding)
        return Screened(self._release(text, len(text)), self.blocked, self.findings)

    def _note(self, index: int, matches: Sequence[Match]) -> None:
        rule = self.rules[index]
        for match in matches:
            start, end, label, score = match
            if not self._decided <= start < end <= self._received:
                raise ValueError(f"a match from {start} to {end} in characters {self._decided} to {self._received}")
            self._add(index, Finding(rule.name, rule.action, label, start, end, score))

    def _add(self, index: int, finding: Finding) -> None:
        self._record(finding)
        if finding.action is Action.REDACT:
            self._spans.append(_Span(finding.start, index, finding.end, finding.label))
        elif finding.action is Action.BLOCK and (self._block is None or finding.start < self._block.start):
            self._block = finding

    def _record(self, finding: Finding) -> None:
        """Record a finding, or extend the earlier finding that it continues."""
        findings = self._findings
        for at in range(len(findings) - 1, max(-1, len(findings) - 5), -1):
            before = findings[at]
            if before.end == finding.start and before.rule == finding.rule and before.label == finding.label:
                findings[at] = whole = before._replace(end=finding.end)
                if before is self._block:
                    self._block = whole
                return
        if len(findings) < MOST_FINDINGS or finding.action is Action.BLOCK:
            findings.append(finding)

    def _release(self, text: str, decided: int) -> str:
        """Release the held `text` up to `decided`, with spans redacted and cut off at a block."""
        block, base = self._block, self._decided
        ends = block is not None and block.start <= decided
        limit = block.start if ends and block is not None else decided
        at = base
        left = self._left or ""
        parts: list[str] = []
        later: list[_Span] = []
        for span in sorted(self._spans):
            if span.start >= limit:
                later.append(span)
                continue
            if span.end > limit:
                later.append(span._replace(start=limit))
            end = min(span.end, limit)
            start = max(span.start, at)
            if end <= at:
                continue
            touches = bool(self.replaced) and self.replaced[-1][1] >= span.start
            parts.append(text[at - base : start - base])
            if touches:
                self.replaced[-1] = (self.replaced[-1][0], end)
            else:
                parts.append(replacement((left + text[: start - base])[-LEFT:], span.label))
                self.written.append(parts[-1])
                self.replaced.append((start, end))
            at = end
        parts.append(text[at - base : limit - base])
        self._spans = later
        self._decided = limit
        if ends:
            self.blocked = block
            self._held, self._spans, self._streams = "", [], []
        else:
            self._held = text[limit - base :]
            self._left = (left + text[: limit - base])[-LEFT:]
        return "".join(parts)

    def _begin(self) -> list[tuple[int, Stream]]:
        self._streams = streams = []
        for index, rule in enumerate(self.rules):
            if rule.action is Action.REDACT:
                self._left = ""
            try:
                streams.append((index, rule.filter.stream()))
            except Exception as error:
                self._failed(index, error)
        self._ends = calm_ends([self.rules[index].filter for index, _ in streams])
        return streams

    def _drop(self, index: int, error: Exception) -> None:
        self._streams = [entry for entry in self._streams or () if entry[0] != index]
        self._ends = None
        self._failed(index, error)

    def _failed(self, index: int, error: Exception) -> None:
        name = self.rules[index].name
        if not self.fail_open:
            raise FilterFailed.of(name, error) from error
        self.failures.append(name)


def screened(text: str, rules: Sequence[Rule], *, fail_open: bool = False) -> Screened:
    """Screen a whole text. Raises FilterFailed."""
    first = first_to_find(text, rules)
    return Screened(text, None, []) if first is None else Screen(rules, fail_open=fail_open).whole(text, first)


def first_to_find(text: str, rules: Sequence[Rule], prefilter_pass: PrefilterPass | None = None) -> First | None:
    """Return the first rule that matches in a whole text or fails; None, quickly with a prefilter pass, for most."""
    to_ask = range(len(rules)) if prefilter_pass is None else prefilter_pass(text)
    if not to_ask:
        return None
    plain = plain_bytes(text)
    for index in to_ask:
        try:
            matches = rules[index].filter.scan(text, plain)
        except Exception:
            return First(index, ())
        if matches:
            return First(index, matches)
    return None


def applied(text: str, findings: Sequence[Finding], left: str = "") -> Screened:
    """Redact or cut off a whole text, which follows `left`, by findings made elsewhere."""
    return Screen(()).apply(text, findings, left)
