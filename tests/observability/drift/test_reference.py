"""How seldom drift is told of traffic that does not change, and how soon of traffic that does (more: `tools/drift`)."""

import pytest

from observability.drift.features import FEATURES
from observability.drift.reference import OTHER, Layout, Reference, chi_squared_quantile, student_ratio
from tools.drift.traffic import Change, Kind, Traffic
from tools.drift.trial import LAYOUT, Trial

#: Ten times the one that is the default, so that there are some to be counted.
FALSE_ALARMS = 0.001
KINDS = (
    Kind("independent"),
    Kind("autocorrelated", wander=0.1),
    Kind("daily", rhythm=0.4),
    Kind("both", wander=0.1, memory=4.0, rhythm=0.4),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_stationary_traffic_seldom_drifts(kind: Kind) -> None:
    tally = Trial(Traffic(kind, 400, seed=5)).tally(480, FALSE_ALARMS)
    assert tally.windows == {4: 480, 24: 80}
    # Of 560 windows 0.6 are expected, and where one is beyond chance so is the next one: the memory is some hours.
    assert tally.drifted.total() <= 4, tally.by_feature


@pytest.mark.parametrize(
    ("change", "feature"),
    [
        (Change("prompts", prompts=1.2), "prompt_tokens"),
        (Change("answers", answers=1.2), "answer_tokens"),
        (Change("language", german=0.15), "language"),
        (Change("refusals", refusals=0.02), "refusals"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_changes_are_found_within_a_day(change: Change, feature: str) -> None:
    trial = Trial(Traffic(Kind("both", wander=0.02, rhythm=0.4), 1000, seed=3))
    hours = trial.hours_until(change, feature, 24, FALSE_ALARMS)
    assert hours is not None


def over(numbers: range, counts: dict[str, int]) -> dict[int, dict[str, int]]:
    return dict.fromkeys(numbers, counts)


def slices_of(counts: dict[str, int]) -> dict[int, dict[str, int]]:
    return over(range(LAYOUT.slices), counts)


def test_too_few_requests_are_not_judged() -> None:
    thin = Reference("psi", LAYOUT, 0, slices_of({"a": 5}))
    assert thin.compare({700: {"b": 1000}}, 4, 0.01) is None
    found = thin.compare(over(range(700, 724), {"b": 10}), 24, 0.01)
    assert found is not None
    assert found.drifted
    fine = Reference("psi", LAYOUT, 0, slices_of({"a": 60, "b": 40}))
    assert fine.compare({700: {"b": 50}}, 4, 0.01) is None
    assert fine.compare({}, 4, 0.01) is None
    nothing = Reference("ks", LAYOUT, 0, {})
    assert nothing.compare({700: {"1": 1000}}, 4, 0.01) is None


def test_bins_that_the_reference_does_not_have() -> None:
    languages = Reference("psi", LAYOUT, 0, slices_of({"en": 60, "de": 40}))
    new = over(range(700, 704), {"en": 60, "fr": 40})
    found = languages.compare(new, 4, 0.0001)
    assert found is not None
    assert found.drifted
    assert {bin_: now for bin_, _, now in languages.shares(new)}[OTHER] == pytest.approx(0.4)
    lengths = Reference("ks", LAYOUT, 0, slices_of({"9": 50, "10": 50}))
    longer = lengths.compare(over(range(700, 704), {"10": 50, "40": 50}), 4, 0.0001)
    assert longer is not None
    assert longer.distance == pytest.approx(0.5, abs=0.01)
    below = lengths.shares(over(range(700, 704), {"2": 100}))
    assert below[0][2] == 1


def test_a_rhythm_is_expected_at_its_time_of_the_day() -> None:
    night, day = {"short": 90, "long": 10}, {"short": 10, "long": 90}
    slices = {number: night if number % LAYOUT.slots < 48 else day for number in range(LAYOUT.slices)}
    reference = Reference("psi", LAYOUT, 0, slices)
    first = 7 * LAYOUT.slots
    by_night = reference.compare(over(range(first, first + 4), night), 4, 0.001)
    by_day = reference.compare(over(range(first + 60, first + 64), night), 4, 0.001)
    assert by_night is not None
    assert by_day is not None
    assert (by_night.drifted, by_day.drifted) == (False, True)


def test_other_layouts() -> None:
    layout = Layout(days=4, slots=8, widths=(2, 8))
    reference = Reference("psi", layout, 40, {number: {"a": 600, "b": 400} for number in range(40, 72)})
    found = reference.compare({72: {"a": 600, "b": 400}, 73: {"a": 600, "b": 400}}, 2, 0.001)
    assert found is not None
    assert not found.drifted
    assert reference.compare({72: {"a": 600, "b": 400}}, 8, 0.001) is None, "there were four such windows"


@pytest.mark.parametrize(("freedom", "quantile"), [(5, 6.869), (10, 4.587), (30, 3.646)])
def test_students_quantiles_are_near_the_tables(freedom: int, quantile: float) -> None:
    assert student_ratio(0.9995, freedom) * 3.2905 == pytest.approx(quantile, rel=0.02)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 15.137), (5, 25.745), (10, 35.564), (30, 66.152)])
def test_quantiles_are_near_the_tables(freedom: int, quantile: float) -> None:
    found = chi_squared_quantile(0.9999, freedom)
    assert quantile * 0.99 <= found <= quantile * 1.08


def test_every_feature_is_in_the_traffic() -> None:
    (_, counts) = next(Traffic(Kind("any"), 400, seed=1).slices())
    assert counts.keys() == {feature.name for feature in FEATURES}
