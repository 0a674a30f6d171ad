from xml.etree import ElementTree

import pytest

from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.replay.corpus import Entry
from gateway.rollouts.replay.judge import question, verdict
from gateway.rollouts.replay.junit import junit
from gateway.rollouts.replay.redaction import Redaction
from gateway.rollouts.replay.run_difference import (
    RunDifference,
    Thresholds,
    compare_entry,
    pairs_of,
    recorded,
    summarize,
    texts_to_embed,
)
from gateway.rollouts.replay.run_file import Failure, Result
from safety.action import Action
from safety.screen import Rule
from safety.terms import TermFilter

ENTRIES = [Entry(id=name, body={"messages": [], "temperature": 0}) for name in "abcd"]


def result(name: str, text: str | None, seconds: float = 1.0) -> Result:
    if text is None:
        return Result(id=name, failure=Failure(500, "oh\x00no", ""), seconds=seconds)
    return Result(id=name, answer=Answer(text=text, finish="stop"), seconds=seconds)


def difference(*candidate: Result, thresholds: Thresholds | None = None, judged: bool = False) -> RunDifference:
    thresholds = thresholds or Thresholds()
    baseline = {name: result(name, f"answer {name}") for name in "abcd"}
    pairs = pairs_of(ENTRIES, baseline, {each.id: each for each in candidate})
    found = [compare_entry(*pair, similar=thresholds.similar) for pair in pairs]
    return summarize(pairs, found, thresholds, names=("v1", "v2"), entries=len(ENTRIES))


def test_equal_runs_pass() -> None:
    found = difference(*(result(name, f"answer {name}", 2.0) for name in "abcd"))
    assert found.passed
    assert (found.report.alike, found.seconds) == (1.0, (1.0, 2.0))


def test_each_threshold_is_named() -> None:
    found = difference(result("a", "answer a"), result("b", "no"), result("c", None))
    assert not found.passed
    assert found.violations == [
        "1 entries have no result in one of the runs",
        "50.0% of the answers are alike, less than 90.0%",
        "33.3% of the requests failed, more than 0.0%",
    ]
    assert difference().violations[-1] == "no entry was answered by both sides"


def test_the_recorded_answers_are_a_baseline() -> None:
    entries = [Entry(id="a", body={}, answer=Answer(text="Yes"), version="v1"), Entry(id="b", body={})]
    assert recorded(entries) == {"a": Result(id="a", answer=Answer(text="Yes"), version="v1")}


def test_only_texts_that_differ_are_embedded() -> None:
    pairs = pairs_of(
        ENTRIES,
        {name: result(name, "x") for name in "abc"},
        {"a": result("a", "x"), "b": result("b", "y"), "c": result("c", None)},
    )
    assert texts_to_embed(pairs) == [(1, "x", "y")]


def test_junit_has_a_case_for_each_entry() -> None:
    found = difference(result("a", "answer a"), result("b", "no"), result("c", None), result("d", "answer d"))
    (suite,) = ElementTree.fromstring(junit(found))
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("5", "2", "1")
    cases = {case.attrib["name"]: [(part.tag, part.attrib["message"]) for part in case] for case in suite}
    assert cases["a"] == []
    assert cases["b"][0][0] == "failure"
    assert cases["c"] == [("error", "the candidate failed: oh?no")]
    assert "failed, more than" in cases["thresholds"][0][1]


@pytest.mark.parametrize(
    ("straight", "swapped", "judged"),
    [
        ('{"better": "B"}', '{"better": "A"}', "better"),
        ('{"better": "A"}', '```json\n{"better": "B"}\n```', "worse"),
        # A judge that prefers a place says nothing about the answers.
        ('{"better": "A"}', '{"better": "A"}', "same"),
        ('{"better": "neither"}', '{"better": "A"}', "same"),
        ("B", '{"better": "A"}', "unreadable"),
        ('{"better": "B", "why": "x"}', '{"better": "A"}', "unreadable"),
        ('{"better": "B"} I think', '{"better": "A"}', "unreadable"),
        ('{"better": "C"}', '{"better": "A"}', "unreadable"),
    ],
)
def test_a_judge_must_say_it_twice_and_exactly(straight: str, swapped: str, judged: str) -> None:
    assert verdict(straight, swapped) == judged


def test_a_question_shows_both_answers_in_their_places() -> None:
    entry = Entry(id="a", body={"messages": [{"role": "user", "content": "Why?"}]})
    text = question("judge", entry, Answer(text="one"), Answer(refusal="two"))["messages"][1]["content"]
    assert text.index("Why?") < text.index("Answer A:\none") < text.index("Answer B:\ntwo")


def test_redaction_takes_personal_data_out_of_everything() -> None:
    redaction = Redaction([Rule("terms", TermFilter("terms", ["anna@example.com"], words=True), Action.FLAG)])
    body = {
        "model": "m",
        "user": "anna",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Write to anna@example.com"}]}],
        "max_tokens": 7,
    }
    clean = redaction.body(body)
    assert "anna" not in str(clean)
    assert (clean["model"], clean["max_tokens"], clean["messages"][0]["role"]) == ("m", 7, "user")
    assert "anna" not in redaction.answer(Answer(text="anna@example.com", refusal="anna@example.com")).text
