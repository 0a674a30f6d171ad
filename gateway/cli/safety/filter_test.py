"""`penstock safety test`: show what each filter does to texts."""

import argparse
import re
import shutil
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from gateway.cli.safety.safe_text import excerpt, one_line, printable
from gateway.cli.safety.safety_output import Unusable, put, unusable
from gateway.cli.safety.safety_rules import ChosenRules, chosen_rules
from gateway.cli.safety.text_filtering import Found, Guards, filter_text
from observability.terminal import table
from protos.errors import FilterFailed
from safety.injection.injection_filter import InjectionFilter
from safety.match import Match
from safety.screen import Rule, Screened

_MOST_BYTES: Final = 64 * 2**20
_MOST_ROWS: Final = 100
_MOST_CHARACTERS: Final = 4_000
_LEAST_WIDTH: Final = 12


class _Located(NamedTuple):
    found: Found
    line: int
    column: int


class _Scored(NamedTuple):
    """A text's score by a filter that adds up features."""

    rule: Rule
    score: float
    threshold: float
    features: Sequence[Match]


class _Report(NamedTuple):
    name: str
    text: str
    found: list[_Located]
    scores: list[_Scored]
    screened: Screened


def test(arguments: argparse.Namespace) -> int:
    """Run the filters on each file, and print what they found."""
    try:
        chosen = chosen_rules(arguments)
    except Unusable as error:
        return unusable(error)
    with Guards(chosen.guards) as guards:
        return _test(arguments, chosen, guards)


def _test(arguments: argparse.Namespace, chosen: ChosenRules, guards: Guards) -> int:
    status = 0
    for index, file in enumerate(arguments.files):
        try:
            report = _report_on(file, _read(file), chosen, guards, arguments.direction)
            if arguments.json:
                shown = _json(report, chosen, arguments.direction)
            else:
                separator = [""] if index else []
                shown = "\n".join([*separator, *_lines(report, chosen, arguments.direction)])
        except Unusable as error:
            status = unusable(error)
            continue
        try:
            put(shown)
        except Unusable as error:
            return unusable(error)
        status = max(status, int(bool(report.found)))
    return status


def _read(name: str) -> str:
    shown = _shown(name)
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise Unusable(f"{shown}: is larger than {_MOST_BYTES >> 20} MiB")
        return data.decode()
    except OSError as error:
        raise Unusable(f"{shown}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unusable(f"{shown}: is not UTF-8: byte {error.start} is {data[error.start]:#04x}") from error


def _report_on(name: str, text: str, chosen: ChosenRules, guards: Guards, direction: str) -> _Report:
    try:
        found, rest = filter_text(text, chosen, guards, prompt=direction == "input")
    except FilterFailed as error:
        raise Unusable(f"{_shown(name)}: {error.detail or error.message}") from error
    breaks = [line_break.start() for line_break in re.finditer("\n", text)]
    located, scores = [], []
    for one in found:
        line = bisect_left(breaks, one.match.start)
        begin = breaks[line - 1] + 1 if line else 0
        located.append(_Located(one, line + 1, one.match.start - begin + 1))
    for rule in chosen.rules:
        if isinstance(rule.filter, InjectionFilter):
            verdict = rule.filter.score(text)
            scores.append(_Scored(rule, verdict.score, chosen.thresholds[rule.name], verdict.matches))
    return _Report(name, text, located, scores, rest)


def _shown(name: str) -> str:
    return "standard input" if name == "-" else one_line(name)


def _lines(report: _Report, chosen: ChosenRules, direction: str) -> Iterator[str]:
    yield f"{_shown(report.name)}: {len(report.found) or 'nothing'} found in {_counted(len(report.text), 'character')}"
    if report.found:
        yield ""
        yield from _found_table(report)
    for scored in report.scores:
        if scored.features:
            yield ""
            yield from _score_table(scored, report.text)
    if chosen.elsewhere:
        yield ""
        yield f"not asked here, a running gateway does that: {', '.join(chosen.elsewhere)}"
    if not report.text:
        return
    yield ""
    yield from _rest_lines(report, direction)


def _rest_lines(report: _Report, direction: str) -> Iterator[str]:
    """Format the text after all filters."""
    rest, blocked = report.screened.text, report.screened.blocked
    by = "" if blocked is None else f"{blocked.rule} blocks it ({blocked.label})"
    if blocked is not None and direction == "input":
        yield f"Refused: {by}."
        return
    if blocked is None and rest == report.text:
        yield "Goes on unchanged."
        return
    if blocked is not None and not rest:
        yield f"Nothing of it goes on: {by}."
        return
    yield "Goes on as:" if blocked is None else f"Goes on as this, and ends there: {by}."
    shown = printable(rest[:_MOST_CHARACTERS]).removesuffix("\n")
    yield from (f"  {line}" for line in shown.split("\n"))
    if len(rest) > _MOST_CHARACTERS:
        yield f"  ... {_counted(len(rest) - _MOST_CHARACTERS, 'character')} more (--json has all)"


def _found_table(report: _Report) -> Iterator[str]:
    rows = [
        (
            rule.name,
            rule.action.name.lower(),
            match.label,
            f"{match.start}-{match.end}",
            f"{line}:{column}",
            f"{match.score:.2f}",
        )
        for (rule, match), line, column in report.found[:_MOST_ROWS]
    ]
    header = ("FILTER", "ACTION", "LABEL", "SPAN", "LINE:COL", "SCORE")
    yield from _with_excerpts([header, *rows], report.text, [one.found.match for one in report.found])


def _score_table(scored: _Scored, text: str) -> Iterator[str]:
    side = "below" if scored.score < scored.threshold else "at or above"
    yield f"{scored.rule.name}: score {scored.score:.2f}, {side} the threshold {scored.threshold:.2f}, by"
    rows = [
        (f"  {match.label}", f"{match.score:+.2f}", f"{match.start}-{match.end}")
        for match in scored.features[:_MOST_ROWS]
    ]
    yield from _with_excerpts([("  FEATURE", "WEIGHT", "SPAN"), *rows], text, scored.features)


def _with_excerpts(rows: Sequence[Sequence[str]], text: str, matches: Sequence[Match]) -> Iterator[str]:
    """Add a last column with the matched text, as wide as the terminal allows."""
    lines = list(table(rows))
    left = max(map(len, lines)) + 2
    width = max(shutil.get_terminal_size().columns - left, _LEAST_WIDTH)
    yield f"{lines[0]:<{left}}MATCH"
    for line, match in zip(lines[1:], matches, strict=False):
        yield f"{line:<{left}}{excerpt(text, match.start, match.end, width)}"
    if len(matches) > _MOST_ROWS:
        yield f"... {len(matches) - _MOST_ROWS:,} more (--json has all)"


def _json(report: _Report, chosen: ChosenRules, direction: str) -> str:
    try:
        encoded = msgspec.json.encode(_plain(report, chosen, direction))
    except UnicodeEncodeError as error:
        raise Unusable(f"{_shown(report.name)}: the name is not UTF-8, which --json cannot show") from error
    # Control characters that the encoder leaves unchanged can stand as escapes in JSON, too.
    return printable(encoded.decode())


def _plain(report: _Report, chosen: ChosenRules, direction: str) -> dict[str, Any]:
    blocked = report.screened.blocked
    return {
        "file": report.name,
        "direction": direction,
        "characters": len(report.text),
        "findings": [
            {
                "filter": rule.name,
                "action": rule.action.name.lower(),
                "label": match.label,
                "start": match.start,
                "end": match.end,
                "line": line,
                "column": column,
                "score": match.score,
                "match": report.text[match.start : match.end],
            }
            for (rule, match), line, column in report.found
        ],
        "scores": [
            {
                "filter": rule.name,
                "score": score,
                "threshold": threshold,
                "features": [
                    {"feature": match.label, "weight": match.score, "start": match.start, "end": match.end}
                    for match in features
                ],
            }
            for rule, score, threshold, features in report.scores
        ],
        "not_asked": chosen.elsewhere,
        "blocked_by": None if blocked is None else {"filter": blocked.rule, "label": blocked.label},
        "text": None if blocked is not None and direction == "input" else report.screened.text,
    }


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
