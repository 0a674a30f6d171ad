"""The requests of the price list, and the gateways that serve them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from loadtest.load.processes import BenchError
from replicas.engines.answer_lengths import corpus_sentences

#: The models by their names, and the words of their answers. Whole answers come as fast as can be; streams have a token
#: a step, and two lengths, whose difference is the price of tokens.
WHOLE: Final = "whole"
SHORT: Final = "short"
LONG: Final = "long"
WORDS: Final[Mapping[str, int]] = {WHOLE: 12, SHORT: 16, LONG: 36}
#: Streams at a time: a step of the engine has a token of each.
STREAMS: Final = 8
#: One request in so many is traced, by its own header: drawn lots would not give the same count each time.
TRACED_EVERY: Final = 100

_BASE: Final = """\
listen: {{host: 127.0.0.1, port: {port}, workers: 1, grace_seconds: 0, drain_seconds: 2}}
state: state
store: {{timeout_seconds: 5}}  # a machine may stand still for longer than the half second that ships
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
#: The version that answers where there is a rollout.
CANDIDATE: Final = "v2"
#: Two versions, of which a rollout gives the candidate everything: its path is the dearer one, and the same requests
#: would go to one version alone in any case. An A/B test lasts until somebody decides it.
_VERSIONED: Final = """\
  - name: {name}
    tokenizer: mistral-tekken
    context: 32768
    routing: {{policy: {policy}}}
    price: {{input: 0.5, cached_input: 0.05, output: 1.5}}
    stable: v1
    pools:
      - {{name: old, version: v1, shape: {{tp: 2}}, engine: simulated, replicas: ["grpc://127.0.0.1:{stable}"]}}
      - {{name: new, version: {candidate}, shape: {{tp: 2}}, engine: simulated, replicas: ["grpc://127.0.0.1:{replica}"]}}
"""
_ROLLOUT: Final = """\
  - {{model: {name}, to: {candidate}, plan: ab, stages: [1.0], goal: {{measure: ttft}}, warmup: {{requests: 0}}}}
"""
_RELAYED: Final = """\
  - name: {name}
    context: 32768
    price: {{input: 0.5, cached_input: 0.05, output: 1.5}}
    pools:
      - {{name: bench, engine: openai, replicas: ["http://127.0.0.1:{replica}/v1"]}}
"""
_TOOLS: Final = "    output: {{tools: hermes}}\n"
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
#: None is drawn, see `TRACED_EVERY`.
_TELEMETRY: Final = """\
observability:
  traces: {{enabled: true, sample: 0, endpoint: "http://127.0.0.1:{collector}"}}
"""
_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "note",
        "description": "Writes a text down.",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
}


@dataclass(frozen=True, slots=True)
class Setup:
    """A gateway: what of it is configured, and whose key its requests have."""

    name: str
    policy: str = "least_load"
    limited: bool = False
    tools: bool = False
    filters: bool = False
    telemetry: bool = False
    relayed: bool = False
    rollout: bool = False

    @property
    def tenant(self) -> str:
        """The tenant whose key requests have."""
        return "limited" if self.limited else "default"

    @property
    def settle_seconds(self) -> float:
        """Seconds after which all is done that was put off when a request ended."""
        return 1.5 if self.telemetry or self.rollout else 0.3

    def config(self, port: int, replicas: Mapping[str, int], collector: int, stable: Mapping[str, int]) -> str:
        """Return the gateway's configuration file. `replicas` are ports, by model, and `stable` those of the stable
        version, where requests go by version.
        """
        model = _RELAYED if self.relayed else _VERSIONED if self.rollout else _MODEL + (_TOOLS if self.tools else "")
        models = (
            model.format(name=name, policy=self.policy, replica=at, stable=stable.get(name), candidate=CANDIDATE)
            for name, at in replicas.items()
        )
        text = _BASE.format(port=port, models="".join(models))
        if self.rollout:
            text += "rollouts:\n" + "".join(_ROLLOUT.format(name=name, candidate=CANDIDATE) for name in replicas)
        if self.filters:
            text += _FILTERS
        return text + (_TELEMETRY.format(collector=collector) if self.telemetry else _QUIET)

    def answer(self, model: str) -> str:
        """Return what a model of this gateway says."""
        said = " ".join(" ".join(corpus_sentences()).split()[: WORDS[model]])
        if not self.tools:
            return said
        arguments = msgspec.json.encode({"text": said}).decode()
        return f'<tool_call>\n{{"name": "note", "arguments": {arguments}}}\n</tool_call>'


@dataclass(frozen=True, slots=True)
class Scenario:
    """Requests of one kind to one gateway, one after the other; streams `STREAMS` at a time."""

    name: str
    setup: Setup
    stream: bool = False

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are asked in turn."""
        return (SHORT, LONG) if self.stream else (WHOLE,)

    @property
    def clients(self) -> int:
        """How many requests there are at a time."""
        return STREAMS if self.stream else 1

    def body(self, model: str) -> bytes:
        """Return a chat, always the same one."""
        chat: dict[str, object] = {
            "model": model,
            "messages": [
                {"role": "system", "content": "You are a helpful assistant."},
                {"role": "user", "content": "What can be seen from a lighthouse?"},
            ],
            "max_tokens": 256,
            "seed": 1,
        }
        if self.setup.tools:
            chat["tools"] = [_TOOL]
        if self.stream:
            chat |= {"stream": True, "stream_options": {"include_usage": True}}
        return msgspec.json.encode(chat)


_SETUPS: Final = (
    Setup("plain"),
    Setup("tools", tools=True),
    Setup("limits", limited=True),
    Setup("filters", filters=True),
    Setup("telemetry", telemetry=True),
    Setup("everything", policy="auto", limited=True, filters=True, telemetry=True),
    Setup("relayed", relayed=True),
    Setup("rollout", rollout=True),
)
SCENARIOS: Final = tuple(
    Scenario(f"{setup.name} stream" if stream else setup.name, setup, stream)
    for setup in _SETUPS
    for stream in (False, True)
)


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
