"""Write a comparison of two runs as JUnit's XML, a test case for each entry, as CI systems read it."""

import re
from typing import Final
from xml.etree import ElementTree

from gateway.rollouts.replay.run_difference import EntryDifference, RunDifference

#: Characters that XML 1.0 cannot have (section 2.2).
_FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(found: RunDifference) -> bytes:
    """Write it: entries that differ are failures, requests that failed are errors, thresholds a case of their own."""
    failed = [each for each in found.differences if each.difference.failed]
    differ = [each for each in found.differences if not each.difference.failed and not each.alike]
    suite = ElementTree.Element(
        "testsuite",
        name=_plain(f"{found.baseline} against {found.candidate}"),
        tests=str(len(found.differences) + 1),
        failures=str(len(differ) + (not found.passed)),
        errors=str(len(failed)),
    )
    case = ElementTree.SubElement(suite, "testcase", classname="replay", name="thresholds")
    if not found.passed:
        ElementTree.SubElement(case, "failure", message=_plain("; ".join(found.violations)))
    for each in found.differences:
        case = ElementTree.SubElement(suite, "testcase", classname="replay.entry", name=_plain(each.id))
        if each.difference.failed:
            ElementTree.SubElement(case, "error", message=_plain(_failure(each)))
        elif not each.alike:
            ElementTree.SubElement(case, "failure", message=_plain(described(each)))
    tree = ElementTree.Element("testsuites")
    tree.append(suite)
    written: bytes = ElementTree.tostring(tree, encoding="utf-8", xml_declaration=True)
    return written


def described(each: EntryDifference) -> str:
    """Say in one line how two answers differ."""
    found = each.difference
    if found.failed:
        return _failure(each)
    parts = [f"similarity {found.similarity:.2f} by {found.by}"]
    if found.calls not in ("none", "same"):
        parts.append(f"calls: {found.calls}")
    if found.baseline_finish != found.candidate_finish:
        parts.append(f"finish {found.baseline_finish or 'none'} > {found.candidate_finish or 'none'}")
    if found.broken:
        parts.append("invalid JSON or call")
    parts.append(f"length x{found.length_ratio:.2f}")
    if each.judged is not None:
        parts.append(f"judged {each.judged}")
    return ", ".join(parts)


def _failure(each: EntryDifference) -> str:
    side = each.difference.failed
    return f"{'both sides' if side == 'both' else 'the ' + side} failed{': ' + each.failure if each.failure else ''}"


def _plain(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
