import pytest

from observability.metrics.declarations import REPLICA_STATES, TOKEN_KINDS
from observability.outcome import Outcome
from routing.health.replica_status import State
from tools.dashboards.dashboard_kinds import (
    ACTION_COLORS,
    COUNTED,
    FAILURES,
    OUTCOME_COLORS,
    STATE_COLORS,
    TOKEN_COLORS,
)


def test_every_value_of_a_closed_set_has_a_colour_of_its_own() -> None:
    assert list(STATE_COLORS) == [state.value for state in State] == list(REPLICA_STATES)
    assert set(OUTCOME_COLORS) == {outcome.value for outcome in Outcome}
    assert list(TOKEN_COLORS) == list(TOKEN_KINDS)
    assert set(ACTION_COLORS) == {"flag", "redact", "block", "failed"}
    for colors in (STATE_COLORS, OUTCOME_COLORS, TOKEN_COLORS, ACTION_COLORS):
        assert len(set(colors.values())) == len(colors)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_counts(failure: str) -> None:
    assert failure in COUNTED
    assert not {"invalid", "denied", "limited", "client_gone"} & set(COUNTED)
