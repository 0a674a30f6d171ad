import pytest

from gateway.fleets.configured import configured_replicas, model_of
from protos.errors import InvalidRequest, ReplicaNotFound
from tests.gateway.fleets.world import config_of

REPLICAS = list(configured_replicas(config_of()))


def test_every_replica_is_there_in_the_files_order() -> None:
    assert [(replica.model, replica.id) for replica in REPLICAS] == [
        ("m", "wide/0"),
        ("m", "narrow/0"),
        ("m", "narrow/1"),
        ("org/m2", "narrow/0"),
        ("org/m2", "narrow/1"),
        ("org/m2", "only/0"),
    ]
    assert REPLICAS[0].address == "grpc://10.0.0.1:50051"
    assert REPLICAS[1].address.startswith("unix:")


@pytest.mark.parametrize(
    ("model", "target", "owner"),
    [
        (None, "wide", "m"),
        (None, "wide/0", "m"),
        (None, "only/0", "org/m2"),
        ("org/m2", "narrow", "org/m2"),
        ("m", "narrow/1", "m"),
    ],
)
def test_a_name_finds_its_model(model: str | None, target: str, owner: str) -> None:
    assert model_of(REPLICAS, model, target) == owner


@pytest.mark.parametrize(
    ("model", "target", "param", "said"),
    [
        ("x", "wide", "model", "There is no model 'x'; there are m, org/m2."),
        (None, "x", "target", "there are wide, wide/0, narrow, narrow/0, narrow/1, only, only/0."),
        ("org/m2", "wide", "target", "there are narrow, narrow/0, narrow/1, only, only/0."),
        ("m", "narrow/2", "target", "There is no replica or pool 'narrow/2'"),
        ("m", "", "target", "There is no replica or pool ''"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(model: str | None, target: str, param: str, said: str) -> None:
    with pytest.raises(ReplicaNotFound) as caught:
        model_of(REPLICAS, model, target)
    assert caught.value.param == param
    assert said in caught.value.message


def test_a_name_that_several_models_have_must_name_its_model() -> None:
    with pytest.raises(InvalidRequest) as caught:
        model_of(REPLICAS, None, "narrow/0")
    assert caught.value.param == "model"
    assert "m, org/m2" in caught.value.message


def test_a_long_list_is_cut() -> None:
    pool = {"name": "p", "engine": "simulated", "replicas": 200}
    config = config_of(models=[{"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}])
    with pytest.raises(ReplicaNotFound, match="and 181 more"):
        model_of(list(configured_replicas(config)), None, "q")
