"""The requests of the price list, and the gateways that serve them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from loadtest.load.processes import BenchError

#: The models by their names, and the replica's option for each: streams have a token a step, others have all at once.
MODELS: Final = {"instant": ["--instant"], "paced": ["--pace-ms", "20"]}
#: Streams at a time: a step of the engine has a token of each.
STREAMS: Final = 8
#: Tokens of the answers.
LENGTHS: Final = (20, 40)

_BASE: Final = """\
listen: {{host: 127.0.0.1, port: {port}, workers: 1, drain_seconds: 2}}
state: state
admin: {{enabled: false}}
models:
{models}tenants:
  - name: limited
    limits: {{rpm: 1000000000, tpm: 1000000000000, concurrency: 1000000, budget: {{usd: 1000000, period: month}}}}
"""
_MODEL: Final = """\
  - name: {name}
    tokenizer: mistral-tekken
    context: 32768
    routing: {{policy: {policy}}}
    price: {{input: 0.5, cached_input: 0.05, output: 1.5}}
    pools:
      - {{name: bench, shape: {{tp: 2}}, engine: simulated, replicas: ["grpc://127.0.0.1:{replica}"]}}
"""
_FILTERS: Final = """\
safety:
  input: [pii, injection]
  output: [pii]
"""
_QUIET: Final = """\
observability:
  metrics: {enabled: false}
  journal: {enabled: false}
  logs: {requests: none}
"""
_TELEMETRY: Final = """\
observability:
  traces: {{enabled: true, sample: 0.0, endpoint: "http://127.0.0.1:{collector}"}}
"""


@dataclass(frozen=True, slots=True)
class Setup:
    """A gateway: what of it is configured, and whose key its requests have."""

    name: str
    policy: str = "least_load"
    tenant: str = "default"
    filters: bool = False
    telemetry: bool = False

    @property
    def settle_seconds(self) -> float:
        """Seconds after which all is done that was put off when a request ended."""
        return 1.5 if self.telemetry else 0.3

    def config(self, port: int, replicas: Mapping[str, int], collector: int) -> str:
        """Return the gateway's configuration file. `replicas` are ports, by model."""
        models = "".join(
            _MODEL.format(name=name, policy=self.policy, replica=replica) for name, replica in replicas.items()
        )
        text = _BASE.format(port=port, models=models)
        if self.filters:
            text += _FILTERS
        return text + (_TELEMETRY.format(collector=collector) if self.telemetry else _QUIET)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Requests of one kind to one gateway. A stream is measured with two lengths, whose difference is its tokens."""

    name: str
    setup: Setup
    stream: bool = False


_PLAIN: Final = Setup("plain")
_EVERYTHING: Final = Setup("everything", policy="auto", tenant="limited", filters=True, telemetry=True)
SCENARIOS: Final = (
    Scenario("plain", _PLAIN),
    Scenario("plain stream", _PLAIN, stream=True),
    Scenario("everything", _EVERYTHING),
    Scenario("everything stream", _EVERYTHING, stream=True),
)


def body(scenario: Scenario, length: int) -> bytes:
    """Return a request for an answer of so many tokens, always the same ones."""
    chat: dict[str, object] = {
        "model": "paced" if scenario.stream else "instant",
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "What can be seen from a lighthouse?"},
        ],
        "max_tokens": length,
        "seed": 1,
    }
    if scenario.stream:
        chat |= {"stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(chat)


def named(names: str | None) -> list[Scenario]:
    """Return the scenarios with these names, separated by commas; None: all. Raises BenchError."""
    if names is None:
        return list(SCENARIOS)
    known = {scenario.name: scenario for scenario in SCENARIOS}
    wanted = names.split(",")
    for name in wanted:
        if name not in known:
            raise BenchError(f"there is no scenario {name!r}; there are {', '.join(known)}")
    return [scenario for scenario in SCENARIOS if scenario.name in wanted]
