"""Features that the configured pools' replicas are expected to have before they report them."""

from typing import Final

from gateway.config.models.engines import EngineName
from gateway.config.models.settings import Model, Pool
from protos.features import Feature
from routing.contracts.versions import VersionBits
from routing.policies.abilities import Abilities
from routing.policies.adapter_affinity import AdapterRule, AdapterRules
from routing.transports.openai.settings import API_FEATURES

#: Features by engine. A replica that cannot report its features gets requests by these.
EXPECTED: Final[dict[EngineName, Feature]] = {
    "simulated": Feature.TOKENS | Feature.LORA | Feature.GUIDED | Feature.PROMPT_LOGPROBS,
    "tensorrt_llm": Feature.TOKENS | Feature.LORA | Feature.GUIDED | Feature.PROMPT_LOGPROBS,
    "trtllm_grpc": (Feature.TOKENS | Feature.GUIDED) & ~Feature.LOGIT_BIAS,
    "triton": (Feature.TOKEN_IDS | Feature.RESUMES | Feature.SAMPLING | Feature.GUIDED) & ~Feature.MIN_P,
    "openai": API_FEATURES,
}


def expected_of(pool: Pool) -> Feature:
    """The expected features of one pool, its settings considered."""
    return EXPECTED[pool.engine] if pool.upstream is None else pool.upstream.features


def abilities(model: Model, versions: VersionBits | None = None) -> Abilities:
    """The features and adapters of a model's replicas, and their `versions` where requests go by version."""
    trusted = frozenset(pool.name for pool in model.pools if pool.upstream is not None and pool.upstream.lora)
    rules = {one.name: AdapterRule(one.path, frozenset(one.pools), trusted) for one in model.adapters}
    return Abilities(AdapterRules(rules), {pool.name: expected_of(pool) for pool in model.pools}, versions)
