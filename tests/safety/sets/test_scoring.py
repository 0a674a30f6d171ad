import pytest
from hypothesis import given
from hypothesis import strategies as st

from safety.match import Match
from safety.sets.labelled import Span
from safety.sets.scoring import Score, best_recall, difference, score_any_kind, score_kinds, score_threshold

TEXTS = [
    ([Span(0, 5, "email"), Span(10, 15, "phone")], [Match(4, 8, "email"), Match(10, 15, "iban")]),
    ([], [Match(0, 1, "phone")]),
    ([Span(2, 3, "phone")], [Match(0, 2, "phone"), Match(2, 9, "phone")]),
]


def test_a_match_is_right_where_it_overlaps_a_span_of_its_kind() -> None:
    assert score_kinds(TEXTS) == {
        "email": Score(labelled=1, found=1, reported=1, right=1),
        "iban": Score(labelled=0, found=0, reported=1, right=0),
        "phone": Score(labelled=2, found=1, reported=3, right=1),
    }
    assert score_any_kind(TEXTS) == Score(labelled=3, found=3, reported=5, right=3)


def test_what_labels_and_matches_do_not_agree_about() -> None:
    spans, matches = TEXTS[0]
    assert difference(spans, matches) == ((Span(10, 15, "phone"),), (Match(10, 15, "iban"),))


def test_figures_of_a_score() -> None:
    score = Score(labelled=4, found=3, reported=6, right=3)
    assert (score.missed, score.false_alarms) == (1, 3)
    assert (score.recall, score.precision) == (0.75, 0.5)
    assert score.f1 == pytest.approx(0.6)
    assert (Score().recall, Score().precision, Score().f1) == (None, None, None)
    assert Score(labelled=1, reported=1).f1 == 0.0


def test_a_text_at_the_threshold_is_reported() -> None:
    texts = [(True, 0.9), (True, 0.5), (True, 0.2), (False, 0.5), (False, 0.0)]
    assert score_threshold(texts, 0.5) == Score(labelled=3, found=2, reported=3, right=2)


def test_no_threshold_has_the_precision() -> None:
    assert best_recall([(False, 0.9), (True, 0.5)], 0.9) is None
    assert best_recall([(True, 0.0)], 0.9) is None
    assert best_recall([], 0.9) is None


SCORED = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.7, 1.0])), max_size=30)


@given(SCORED, st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_the_best_recall_is_that_of_the_best_threshold(texts: list[tuple[bool, float]], precision: float) -> None:
    allowed = [
        score
        for threshold in {number for _, number in texts if number > 0}
        if ((score := score_threshold(texts, threshold)).precision or 0) >= precision
    ]
    best = best_recall(texts, precision)
    assert (best is None) == (not allowed)
    if best is not None:
        assert best[1] == score_threshold(texts, best[0])
        assert best[1].found == max(score.found for score in allowed)


STRETCH = st.tuples(st.integers(0, 20), st.integers(1, 6), st.sampled_from("ab"))


@given(st.lists(STRETCH, max_size=6), st.lists(STRETCH, max_size=6))
def test_agreement_is_overlap(spans: list[tuple[int, int, str]], matches: list[tuple[int, int, str]]) -> None:
    labelled = [Span(start, start + length, kind) for start, length, kind in spans]
    reported = [Match(start, start + length, kind) for start, length, kind in matches]

    def agree(span: Span, match: Match) -> bool:
        return span.kind == match.label and span.start < match.end and match.start < span.end

    assert difference(labelled, reported) == (
        tuple(span for span in labelled if not any(agree(span, match) for match in reported)),
        tuple(match for match in reported if not any(agree(span, match) for span in labelled)),
    )
