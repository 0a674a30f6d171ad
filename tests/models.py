"""A served model without replicas, and requests to it, for tests of what happens before any replica is asked."""

from typing import Any

from gateway.config.admission import AdmissionSettings
from gateway.config.models.price import FREE
from gateway.config.tenants import DEFAULT_TIERS, Tenant
from gateway.inference.generate_request import GenerateRequest
from gateway.models.served_model import ServedModel
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.tenancy.auth.key_records import ApiKey
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.tenants.caller import Caller
from gateway.text.tokens.detokenizer import TokenTable
from protos.types import Sampling
from routing.dispatch.dispatch_context import DispatchContext
from routing.estimates.decode_length import QuantileDecodeLength
from routing.fleet.fleet import Fleet
from routing.policies.least_load import LeastLoad
from tests.harness import tekken
from tests.loops import bounded

CALLER = Caller(ApiKey(key_id="key_0", name="k", created_at=0.0), Tenant(name="default"), DEFAULT_TIERS[-1], 2)


def model_of(context: int = 1000) -> ServedModel:
    loaded, fleet, policy = tekken(), _no_fleet(), LeastLoad()
    return ServedModel(
        name="m",
        created=0,
        context=context,
        tokenizer=loaded.tokenizer,
        table=TokenTable(loaded.tokenizer),
        chat_format=loaded.chat_format,
        fleet=fleet,
        policy=policy,
        policy_name="least_load",
        dispatch_context=DispatchContext(fleet, policy),
        lengths=QuantileDecodeLength(),
        plans=Plans("m", FREE),
        admission_queue=AdmissionQueue(fleet, policy, AdmissionSettings()),
    )


def _no_fleet() -> Fleet:
    made: list[Fleet] = []

    async def make() -> None:
        made.append(Fleet([], "test"))

    bounded(make)
    return made[0]


def request_of(model: ServedModel, prompt: Any, max_tokens: int | None, **options: Any) -> GenerateRequest:
    fixed: dict[str, Any] = {"id": "r", "size": 1, "sampling": Sampling(), "stops": (), "stream": False, "arrived": 0.0}
    fixed |= {"caller": CALLER}
    return GenerateRequest(model=model, prompt=prompt, max_tokens=max_tokens, **(fixed | options))
