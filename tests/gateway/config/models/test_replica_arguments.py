from typing import Any

import msgspec
import pytest

from gateway.config.models.scaling_checks import scaling_problems
from gateway.config.settings import Config


def problems(*arguments: str, **pool: Any) -> list[tuple[str, str]]:
    pool = {"name": "p", "engine": "tensorrt_llm", "replica_arguments": arguments} | pool
    models = [{"name": "m", "tokenizer": "t", "context": 9, "pools": [pool]}]
    return list(scaling_problems(msgspec.convert({"models": models}, Config)))


LAUNCHED = {"replicas": "registered", "launcher": "local", "scaling": {"min": 0, "max": 1}}


def test_arguments_of_the_engine_are_passed_on() -> None:
    assert problems("--checkpoint", "/models/m", "--moe-tp=2", "--no-kv-reuse", **LAUNCHED) == []


@pytest.mark.parametrize("given", ["--model", "--tp=2", "--regis", "--launch-id=x", "--", "--p"])
def test_what_follows_from_the_configuration_is_not_given_again(given: str) -> None:
    ((where, problem),) = problems("--checkpoint", "/m", given, **LAUNCHED)
    assert where == "models[0].pools[0].replica_arguments[2]"
    assert problem == f"the gateway itself gives {given.partition('=')[0]} to the replicas that it starts"


def test_arguments_need_replicas_that_are_started_here() -> None:
    ((where, problem),) = problems("--checkpoint", "/m", replicas=["grpc://h:1"])
    assert (where, problem) == (
        "models[0].pools[0].replica_arguments",
        "only for replicas that launcher: local starts",
    )
