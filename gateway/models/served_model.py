"""A model as requests see it: names, tokenizer, fleet, admission queue and price."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from gateway.config.media import Media
from gateway.config.models.adapters import SEPARATOR
from gateway.config.models.embeddings import Embeddings
from gateway.config.models.fallbacks import Fallbacks
from gateway.config.models.price import FREE, Price
from gateway.models.first_tokens import FirstTokenTimes
from gateway.models.media_rules import OPENAI, MediaRule
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.tenancy.limits.plans import Plans
from gateway.tenancy.tenants.caller import Caller, Subscription
from gateway.text.parsing.output_format import OutputFormat
from gateway.text.tokens.chat_format import ChatFormat
from gateway.text.tokens.detokenizer import TokenTable
from gateway.text.tokens.tokenizer import Tokenizer
from protos.types import Adapter
from routing.contracts.policy import RoutingPolicy
from routing.dispatch.dispatch_context import DispatchContext
from routing.estimates.decode_length import DecodeLength
from routing.fleet.fleet import Fleet

if TYPE_CHECKING:
    from gateway.models.model_versions import ModelVersions


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A served model, perhaps with an adapter. `context` is in tokens of prompt and answer; `created` in Unix seconds.

    Replicas of a model that `relays` may speak the API themselves. All replicas of an `opaque` model do, and its
    tokenizer is unknown here. One that is `from_zero` may have no replica by intention. With an `adapter`, `name` is
    still the model's; limits, prices and the fleet are too.
    """

    name: str
    created: int
    context: int
    tokenizer: Tokenizer
    table: TokenTable
    chat_format: ChatFormat
    fleet: Fleet
    policy: RoutingPolicy
    policy_name: str
    dispatch_context: DispatchContext
    lengths: DecodeLength
    plans: Plans
    admission_queue: AdmissionQueue
    first_tokens: FirstTokenTimes = field(default_factory=FirstTokenTimes)
    price: Price = FREE
    fallbacks: Fallbacks | None = None
    relays: bool = False
    opaque: bool = False
    adapter: Adapter | None = None
    #: The output format, and the tokens with its marks written out; None: the answers are plain text.
    output: OutputFormat | None = None
    marked_table: TokenTable | None = None
    media: Media = field(default_factory=Media)
    media_rule: MediaRule = OPENAI
    embeddings: Embeddings = field(default_factory=Embeddings)
    from_zero: bool = False
    #: Whether its records have what drift counts.
    drifts: bool = False
    #: Whether a `max_tokens` beyond the context is clamped, not refused.
    clamps: bool = True
    #: The members of a chat's message that have its thoughts.
    thought_names: tuple[str, ...] = ("reasoning_content", "reasoning")
    #: What chooses a request's version; None: the model's requests do not go by version.
    versions: "ModelVersions | None" = None

    @property
    def shown(self) -> str:
        """The name by which clients request the model."""
        return self.name if self.adapter is None else f"{self.name}{SEPARATOR}{self.adapter.name}"

    @property
    def adapter_name(self) -> str:
        """The LoRA adapter's name; empty without one."""
        return "" if self.adapter is None else self.adapter.name

    @property
    def ready(self) -> bool:
        """Whether a request for it would be served, perhaps after a replica was started for it."""
        return self.from_zero or self.fleet.ready

    @property
    def at_zero(self) -> bool:
        """Whether it has no replica, by intention."""
        return self.from_zero and not self.fleet.ready

    def salt(self, owner: str) -> str:
        """The salt that separates `cache_owner`s and adapters in the replicas' prefix caches."""
        return owner if self.adapter is None else f"{owner}{SEPARATOR}{self.adapter.name}"

    def subscription(self, caller: Caller) -> Subscription:
        """The caller's subscription to the model."""
        if self.adapter is None:
            return caller.subscriptions.get(self.plans) or self.plans.subscription(caller)
        # Not kept: an adapter that is known to replicas alone is a model of its own with each request.
        subscription, adapter = self.plans.subscription(caller), self.adapter.name
        return msgspec.structs.replace(subscription, salt=self.salt(subscription.salt), adapter=adapter)

    tokenizer_hash: str = ""
