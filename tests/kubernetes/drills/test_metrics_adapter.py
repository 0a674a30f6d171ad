"""What autoscalers get of a scrape."""

from tests.kubernetes.drills.metrics_adapter import values_of

_TEXT = """# TYPE penstock_scaling_wanted_replicas gauge
penstock_scaling_wanted_replicas{model="m",pool="a"} 3.0
penstock_scaling_wanted_replicas{model="m",pool="b"} 1.0
penstock_scaling_ready_replicas{model="m",pool="a"} 2.0
"""


def test_samples_are_found_by_their_labels() -> None:
    found = values_of(_TEXT, "penstock_scaling_wanted_replicas", "model=m,pool=a")
    assert [one["value"] for one in found] == ["3"]
    assert len(values_of(_TEXT, "penstock_scaling_wanted_replicas", "model=m")) == 2
    assert values_of(_TEXT, "penstock_scaling_wanted_replicas", "model=other") == []
