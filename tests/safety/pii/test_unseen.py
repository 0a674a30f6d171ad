"""Texts that others wrote without knowing the filter, after which nothing of it was made."""

from pathlib import Path

from safety.pii.pii_filter import PiiFilter
from safety.sets.labelled import load
from safety.sets.scoring import score_any_kind

FILTER = PiiFilter()


def test_what_others_wrote_without_knowing_the_filter() -> None:
    """To tune the filter to this set would take its worth. Its kinds are coarse, so a match of any kind counts."""
    texts = load([Path(__file__).with_name("unseen.jsonl")]).spans
    score = score_any_kind((text.spans, FILTER.scan(text.text)) for text in texts)
    assert score.labelled > 250
    assert (score.recall or 0) >= 0.97
    assert (score.precision or 0) >= 0.97
