import pytest

from gateway.fleets.discovery.pod_labels import PodLabels, read_labels
from protos.types import Role, Shape


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"penstock/shape": "tp8"}, PodLabels(Shape(tp=8))),
        ({"penstock/shape": "tp4-ep2-pp2"}, PodLabels(Shape(tp=4, ep=2, pp=2))),
        (
            {"penstock/shape": "tp2-pp2", "penstock/role": "prefill", "penstock/version": "v2"},
            PodLabels(Shape(tp=2, pp=2), Role.PREFILL, "v2"),
        ),
    ],
)
def test_labels_say_what_a_replica_is(labels: dict[str, str], said: PodLabels) -> None:
    assert read_labels(labels) == (said, "")


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({}, "it has no label penstock/shape"),
        ({"penstock/shape": "big"}, "its label penstock/shape is none, as tp8 or tp4-ep2 would be: big"),
        ({"penstock/shape": "tp0"}, "its label penstock/shape is none, as tp8 or tp4-ep2 would be: tp0"),
        ({"penstock/shape": "tp4-ep3"}, "its label penstock/shape is none, as tp8 or tp4-ep2 would be: tp4-ep3"),
        (
            {"penstock/shape": "tp4", "penstock/role": "router"},
            "its label penstock/role is not one of both, prefill, decode: router",
        ),
    ],
)
def test_labels_that_cannot_be_are_said(labels: dict[str, str], problem: str) -> None:
    assert read_labels(labels) == (None, problem)
