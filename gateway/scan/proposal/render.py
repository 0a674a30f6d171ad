"""Pure: write a proposal as a configuration with comments."""

import json
import re
from collections.abc import Iterator
from typing import Final

from gateway.scan.finding import Task
from gateway.scan.proposal.proposed import Proposal, ProposedModel, Sizing
from observability.printable import printable

#: Limits of each proposed tenant: a start that stops a runaway loop, not a judgement of what an application needs.
RPM: Final = 600
TPM: Final = 200_000
CONCURRENCY: Final = 64
#: Mentions that a comment names; the report has them all.
_MOST_MENTIONS: Final = 4
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_YAML_WORDS: Final = ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none")


def render(proposal: Proposal, source: str, budget: float) -> str:
    """The text of the file; `source` is the scanned folder, `budget` US dollars a month for each tenant."""
    return "\n".join(_lines(proposal, source, budget)) + "\n"


def _lines(proposal: Proposal, source: str, budget: float) -> Iterator[str]:
    yield f"# Proposed by `penstock init` from what {printable(source)} says; read it before it serves anybody."
    yield "# Fields are described in docs/configuration.md; `penstock check --config FILE` says what would run."
    if proposal.variables:
        yield f"# The gateway needs these variables in its environment: {', '.join(proposal.variables)}."
    for note in proposal.notes:
        yield f"# Note: {printable(note)}."
    yield "listen: {host: 127.0.0.1, port: 8080, workers: auto}"
    yield "store: {url: embedded} # in production: {url: rediss://HOST:6379/0}"
    yield ""
    yield "models:"
    for model in proposal.models:
        yield from _model(model)
    for name, reason, findings in proposal.left_out:
        yield f"  # Not proposed: {printable(name)}, {printable(reason)} ({printable(findings[0].where)})."
    yield ""
    yield "# A tenant for each application that was found. Its limits are defaults, not measured: set them by its use."
    yield "tenants:"
    for tenant, models in proposal.tenants.items():
        yield f"  - name: {_scalar(tenant)}"
        yield f"    models: [{', '.join(map(_scalar, models))}]"
        money = f"{{usd: {budget:g}, period: month}}"
        yield f"    limits: {{rpm: {RPM}, tpm: {TPM}, concurrency: {CONCURRENCY}, budget: {money}}}"
    yield "# A budget counts what models cost, so it holds once they have a `price`."


def _model(model: ProposedModel) -> Iterator[str]:
    mentions = list(dict.fromkeys(one.where for one in model.findings))
    more = f" and {len(mentions) - _MOST_MENTIONS} more" if len(mentions) > _MOST_MENTIONS else ""
    yield f"  # Found in {printable(', '.join(mentions[:_MOST_MENTIONS]))}{more}."
    if model.sizing is not None:
        yield from (f"  # {line}" for line in _sizing(model.sizing))
        if model.command:
            yield f"  # Start it by: {printable(model.command)}"
    yield f"  - name: {_scalar(model.name)}"
    if model.aliases:
        yield f"    aliases: [{', '.join(map(_scalar, model.aliases))}]"
    yield f"    context: {model.context}{f' # {model.context_note}' if model.context_note else ''}"
    if model.hosted:
        yield "    # price: {input: USD, output: USD} # per million tokens, by the provider's list"
    yield "    pools:"
    yield f"      - name: {_scalar(model.provider if model.hosted else _pool(model.engine))}"
    yield "        engine: openai"
    if model.sizing is not None and (shape := _shape(model.sizing)):
        yield f"        shape: {shape}"
    where = "" if model.address_found else " # where you start it; none was found"
    yield f"        replicas: [{', '.join(map(_scalar, model.addresses))}]{where}"
    settings = list(_upstream(model))
    if settings:
        yield "        upstream:"
        yield from (f"          {setting}" for setting in settings)
    if not model.hosted and model.key_variable:
        yield "        # If it asks for a key, under upstream:"
        yield f"        #   api_key: {{env: {model.key_variable}}}"


def _sizing(sizing: Sizing) -> Iterator[str]:
    for note in sizing.notes:
        yield f"{note[:1].upper()}{note[1:]}."
    if sizing.placed is not None:
        room = "" if sizing.kv_tokens is None else f"; its KV cache has room for {sizing.kv_tokens} tokens"
        shapes = ", ".join(one.shown for one in sizing.fitting)
        yield f"Fits on {shapes}. Taken: {sizing.placed.shown}{_price(sizing)}{room}."
    elif sizing.need.weights is not None:
        shapes = ", ".join(one.shown for one in sizing.elsewhere)
        yield f"Does not fit on the GPUs that were given. It would on: {shapes or 'no shape that was tried'}."


def _price(sizing: Sizing) -> str:
    price = sizing.placed.usd_per_hour if sizing.placed is not None else None
    return "" if price is None else f" at {price:g} USD an hour"


def _shape(sizing: Sizing) -> str:
    placed = sizing.placed or next(iter(sizing.elsewhere), None)
    if placed is None:
        return ""
    return f"{{tp: {placed.tp}{f', pp: {placed.pp}' if placed.pp > 1 else ''}}}"


def _upstream(model: ProposedModel) -> Iterator[str]:
    if model.asked_as:
        yield f"model: {_scalar(model.asked_as)}"
    if model.hosted:
        if model.key_variable:
            yield f"api_key: {{env: {model.key_variable}}}"
        if model.provider == "openai" and re.match(r"o\d|gpt-5", model.name):
            yield "limit_as: max_completion_tokens"
        if model.provider == "anthropic":
            yield "endpoints: []"
        yield "metrics_of: none"
        return
    if model.task is Task.RERANK:
        yield "endpoints: [rerank, score]"
    elif model.task is not Task.EMBED:
        yield "endpoints: []"
    if model.engine in ("vllm", "sglang", "trtllm"):
        yield "health: /health"
    if model.engine == "trtllm":
        yield "metrics: /prometheus/metrics"
    if model.engine == "vllm":
        yield "salt_as: cache_salt"


def _pool(engine: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", engine)


def _scalar(text: str) -> str:
    """A text as YAML, plain where it can be read as nothing else."""
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _YAML_WORDS and len(text) < 100
    return text if plain else json.dumps(text)
