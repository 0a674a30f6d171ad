"""What the replicas of the configuration's pools can be expected to do, before they say so themselves."""

from typing import Final

from gateway.config.models.engines import EngineName
from gateway.config.models.settings import Model, Pool
from protos.features import Feature
from routing.policies.abilities import Abilities
from routing.policies.adapter_affinity import AdapterRule, AdapterRules
from routing.transports.openai.settings import API_FEATURES

#: What a replica of an engine may be able to do. Where it cannot say so itself, this is what it gets requests for.
EXPECTED: Final[dict[EngineName, Feature]] = {
    "simulated": Feature.TOKENS | Feature.LORA | Feature.GUIDED,
    "tensorrt_llm": Feature.TOKENS | Feature.LORA | Feature.GUIDED,
    "trtllm_grpc": (Feature.TOKENS | Feature.GUIDED) & ~Feature.LOGIT_BIAS,
    "triton": (Feature.TOKEN_IDS | Feature.RESUMES | Feature.SAMPLING | Feature.GUIDED) & ~Feature.MIN_P,
    "openai": API_FEATURES,
}


def expected_of(pool: Pool) -> Feature:
    """The same of one pool, with what its settings say of that."""
    return EXPECTED[pool.engine] if pool.upstream is None else pool.upstream.features


def abilities(model: Model) -> Abilities:
    """Which replicas of a model can do what, and run which of its adapters."""
    trusted = frozenset(pool.name for pool in model.pools if pool.upstream is not None and pool.upstream.lora)
    rules = {one.name: AdapterRule(one.path, frozenset(one.pools), trusted) for one in model.adapters}
    return Abilities(AdapterRules(rules), {pool.name: expected_of(pool) for pool in model.pools})
