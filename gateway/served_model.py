"""A model as requests see it: its name, its tokens and the fleet that runs it."""

from dataclasses import dataclass, field

from gateway.config_fallbacks import Fallbacks
from gateway.first_tokens import FirstTokenTimes
from gateway.limits.plans import Plans
from gateway.limits.price import FREE, Price
from gateway.queue.turnstile import Turnstile
from gateway.tokens.chat_format import ChatFormat
from gateway.tokens.detokenizer import TokenTable
from gateway.tokens.tokenizer import Tokenizer
from routing.decode_length import DecodeLength
from routing.desk import Desk
from routing.fleet import Fleet
from routing.policy import RoutingPolicy


@dataclass(frozen=True, slots=True)
class ServedModel:
    """`context` is in tokens, prompt and answer together; `created` in seconds since 1970.

    Some replicas of a model that `relays` speak the API themselves; of an `opaque` one all do, and what a token is only
    they know.
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
    desk: Desk
    lengths: DecodeLength
    plans: Plans
    turnstile: Turnstile
    first_tokens: FirstTokenTimes = field(default_factory=FirstTokenTimes)
    price: Price = FREE
    fallbacks: Fallbacks | None = None
    relays: bool = False
    opaque: bool = False
