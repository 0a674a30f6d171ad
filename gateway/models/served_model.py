"""A model as requests see it: its name, its tokens and the fleet that runs it."""

from dataclasses import dataclass, field

from gateway.config.media import Media
from gateway.config.models.adapters import SEPARATOR
from gateway.config.models.embeddings import Embeddings
from gateway.config.models.fallbacks import Fallbacks
from gateway.config.models.price import FREE, Price
from gateway.models.first_tokens import FirstTokenTimes
from gateway.scheduling.admission_queue import AdmissionQueue
from gateway.tenancy.limits.plans import Plans
from gateway.text.parsing.output_format import OutputFormat
from gateway.text.tokens.chat_format import ChatFormat
from gateway.text.tokens.detokenizer import TokenTable
from gateway.text.tokens.tokenizer import Tokenizer
from protos.types import Adapter
from routing.contracts.policy import RoutingPolicy
from routing.dispatch.dispatch_context import DispatchContext
from routing.estimates.decode_length import DecodeLength
from routing.fleet.fleet import Fleet


@dataclass(frozen=True, slots=True)
class ServedModel:
    """`context` is in tokens, prompt and answer together; `created` in seconds since 1970.

    Some replicas of a model that `relays` speak the API themselves; of an `opaque` one all do, and what a token is only
    they know. With an `adapter`, `name` is still the model's, and limits, prices and the fleet are too.
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
    #: How it writes thoughts and tool calls, and its tokens with the marks of those; None: its answers are text.
    output: OutputFormat | None = None
    marked_table: TokenTable | None = None
    media: Media = field(default_factory=Media)
    embeddings: Embeddings = field(default_factory=Embeddings)

    @property
    def shown(self) -> str:
        """The name that clients ask for it by."""
        return self.name if self.adapter is None else f"{self.name}{SEPARATOR}{self.adapter.name}"

    @property
    def adapter_name(self) -> str:
        """The LoRA adapter's name; empty without one."""
        return "" if self.adapter is None else self.adapter.name

    def salt(self, owner: str) -> str:
        """What keeps apart, in replicas' prefix caches, callers' `cache_owner` and what adapters make of a prompt."""
        return owner if self.adapter is None else f"{owner}{SEPARATOR}{self.adapter.name}"

    tokenizer_hash: str = ""
