from loadtest.load.decision_cost import busy_fleet, decision_cost
from routing.contracts.policy_settings import PolicySettings
from routing.policies.auto import Auto


def test_a_decision_is_measured() -> None:
    cost = decision_cost("auto", lambda: Auto(PolicySettings()), 16)
    assert (cost.policy, cost.replicas) == ("auto", 16)
    assert cost.us > 0


def test_the_fleet_has_three_shapes_and_no_two_loads_alike() -> None:
    fleet = busy_fleet(30)
    assert len({view.shape for view in fleet}) == 3
    assert len({view.load for view in fleet}) == len({view.id for view in fleet}) == 30
