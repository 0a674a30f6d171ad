"""Pure: make a proposal of what a scan found."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from gateway.config.models.settings import MODEL_NAME
from gateway.scan.finding import Finding, Kind, Task
from gateway.scan.proposal.applications import applications
from gateway.scan.proposal.proposed import Proposal, ProposedModel, Sizing
from gateway.scan.proposal.size import SizingOptions, context_of, size
from gateway.scan.providers import PROVIDERS, hosted_context, provider_at
from gateway.scan.scan import Scan
from gateway.scan.sizing.local_weights import LocalModel
from routing.transports.http.origin import origin_of

_NAME: Final = re.compile(MODEL_NAME)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._:/@+-]+")
_MODELS: Final = (Kind.WEIGHTS, Kind.HOSTED, Kind.ASKED)
_SERVED: Final = (Task.GENERATE, Task.EMBED, Task.RERANK, Task.UNKNOWN)
_ENGINES: Final = ("vllm", "trtllm", "sglang", "tgi", "tei", "llama.cpp", "lmdeploy", "ollama", "mlx")
#: Ports of this machine that addresses not found are proposed at, from this one on.
_FIRST_PORT: Final = 8001


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user says. `context` in tokens of a request, None: as the application says, else the default."""

    sizing: SizingOptions
    context: int | None = None
    engine: str = "vllm"


#: Digits of a context that an application states; the configuration takes no more.
_LONGEST_CONTEXT: Final = 8
#: Tokens of a request, prompt and answer together, where nobody says how many.
DEFAULT_CONTEXT: Final = 8192


@dataclass(slots=True)
class _Group:
    """The findings of one model, whatever names it goes by."""

    name: str
    names: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    @property
    def hosted(self) -> list[Finding]:
        """Findings of a provider's API."""
        return [one for one in self.findings if one.kind is Kind.HOSTED and one.provider in PROVIDERS]

    @property
    def task(self) -> Task:
        """What most specific findings say that the model is for."""
        tasks = [one.task for one in self.findings if one.task is not Task.UNKNOWN]
        return max(dict.fromkeys(tasks), key=tasks.count, default=Task.UNKNOWN)


def propose(scan: Scan, options: Options) -> Proposal:
    """Propose models and tenants; what only tests mention is left out."""
    groups = _grouped([one for one in scan.findings if one.kind in _MODELS and not one.of_tests])
    models: list[ProposedModel] = []
    left_out: list[tuple[str, str, tuple[Finding, ...]]] = []
    taken: set[str] = set()
    names: dict[str, str] = {}
    for group in groups:
        if reason := _reason_to_leave_out(group):
            left_out.append((group.name, reason, tuple(group.findings)))
            continue
        model = _model(
            group, scan, options, _FIRST_PORT + sum(not one.address_found for one in models if not one.hosted)
        )
        model = replace(model, name=_unused(model.name, taken))
        taken.add(model.name)
        models.append(model)
        names |= dict.fromkeys((group.name, *group.names), model.name)
    models = [replace(one, aliases=tuple(_aliases(one, taken))) for one in models]
    tenants = {
        tenant: tuple(sorted({names[one.value] for one in uses if one.value in names}))
        for tenant, uses in applications(scan.findings, scan.manifests, scan.root.resolve().name).items()
    }
    # What is served and what no code that was read asks for may be used by all.
    orphans = {model.name for model in models}.difference(*tenants.values())
    tenants = {tenant: tuple(sorted({*used, *orphans})) for tenant, used in tenants.items() if used or orphans}
    variables = tuple(sorted({one.key_variable for one in models if one.hosted and one.key_variable}))
    return Proposal(
        models=tuple(models),
        tenants=tenants,
        left_out=tuple(left_out),
        variables=variables,
        notes=tuple(_notes(scan, models, options)),
    )


def _grouped(findings: Sequence[Finding]) -> list[_Group]:
    """Put findings of one model together: the same id, or a name under which a server has it."""
    groups: dict[str, _Group] = {}
    served = {alias: one.value for one in findings for alias in one.served_as}
    for finding in findings:
        name = served.get(finding.value, finding.value)
        group = groups.setdefault(_key(name), _Group(name))
        group.findings.append(finding)
        group.names.update((finding.value, *finding.served_as))
    return [groups[key] for key in sorted(groups)]


def _key(name: str) -> str:
    return name.lower().removeprefix("./")


def _reason_to_leave_out(group: _Group) -> str:
    """Why a model is not proposed; empty if it is."""
    task = group.task
    if task not in _SERVED:
        what = {Task.CLASSIFY: "classes of texts", Task.IMAGE: "images", Task.SPEECH: "speech"}[task]
        return f"a model for {what}, which the gateway does not serve"
    hosted = group.hosted
    if hosted and not PROVIDERS[hosted[0].provider].base_url and not any(_usable(one.base_url) for one in hosted):
        return f"{hosted[0].provider} has an address for each customer, and none was found"
    return ""


def _model(group: _Group, scan: Scan, options: Options, port: int) -> ProposedModel:
    if group.hosted:
        return _hosted(group, options)
    local = _local(group, scan.local_models)
    usual = "llama.cpp" if "gguf" in group.name.lower() else options.engine
    engine = next((one.engine for one in group.findings if one.engine in _ENGINES), usual)
    limit = context_of(group.name, local)
    values = [one.options.get("context", "") for one in group.findings]
    stated = next((int(value) for value in values if value.isdecimal() and len(value) <= _LONGEST_CONTEXT), 0)
    context, note = options.context or stated or DEFAULT_CONTEXT, ""
    if limit is None:
        note = "the model's own limit is not known"
    elif context > limit:
        context, note = limit, "all that the model has"
    else:
        note = f"the model has {limit}"
    context = max(2, context)
    sizing = size(group.name, group.task, group.findings, local, context, options.sizing)
    addresses = tuple(dict.fromkeys(_addresses(group.findings, engine)))
    served = next((alias for one in group.findings for alias in one.served_as if one.kind is Kind.WEIGHTS), "")
    asked_as = served or ("" if _proper(group.name) == group.name else group.name)
    where = addresses[0] if addresses else f"http://127.0.0.1:{port}/v1"
    return ProposedModel(
        name=_proper(group.name),
        aliases=tuple(sorted(group.names - {group.name})),
        task=group.task,
        provider="",
        engine=engine,
        asked_as=asked_as,
        addresses=addresses or (where,),
        address_found=bool(addresses),
        key_variable=next((one.key_variable for one in group.findings if one.key_variable), ""),
        context=context,
        context_note=note,
        sizing=sizing,
        command=_command(engine, group.name, sizing, context, where, served),
        findings=tuple(group.findings),
    )


def _hosted(group: _Group, options: Options) -> ProposedModel:
    hosted = group.hosted
    provider = PROVIDERS[hosted[0].provider]
    address = provider.base_url or next(one.base_url for one in hosted if _usable(one.base_url))
    if provider.name == "azure":
        # learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle: the API without versions.
        parts = urlsplit(address)
        address = f"{parts.scheme}://{parts.netloc}/openai/v1"
    known = hosted_context(group.name)
    context = known or max(2, options.context or DEFAULT_CONTEXT)
    return ProposedModel(
        name=_proper(group.name),
        aliases=tuple(sorted(group.names - {group.name})),
        task=group.task,
        provider=provider.name,
        engine="openai",
        asked_as="" if _proper(group.name) == group.name else group.name,
        addresses=(address,),
        address_found=True,
        key_variable=next((one.key_variable for one in hosted if one.key_variable), provider.key),
        context=context,
        context_note="" if known else "its limit is not known here",
        sizing=None,
        command="",
        findings=tuple(group.findings),
    )


def _addresses(findings: Iterable[Finding], engine: str) -> Iterator[str]:
    """Yield base URLs of the model's servers: where an engine serves it first, then where clients ask."""
    for finding in sorted(findings, key=lambda one: one.kind is not Kind.WEIGHTS):
        url = finding.base_url
        if not url or provider_at(url) or not _usable(url):
            continue
        parts = urlsplit(url)
        if not parts.path or (engine == "ollama" and parts.path == "/api"):
            url = f"{parts.scheme}://{parts.netloc}/v1"
        yield url


def _usable(url: str) -> bool:
    """Whether the configuration takes a URL as an upstream's."""
    try:
        origin_of(url).host.encode("idna")
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _local(group: _Group, models: dict[str, LocalModel]) -> LocalModel | None:
    """The model's files in the folder: at the path that it is loaded from, or in a folder of its name."""
    short = PurePosixPath(group.name).name
    for finding in group.findings:
        value = PurePosixPath(finding.value.removeprefix("./"))
        beside = PurePosixPath(finding.file).parent / value
        for path in (value.as_posix(), beside.as_posix()):
            if path in models:
                return models[path]
    return next((model for path, model in sorted(models.items()) if PurePosixPath(path).name == short), None)


def _proper(name: str) -> str:
    """A name that the configuration takes: that of the file or folder where the model is a path."""
    if name.startswith((".", "/", "~")) or name.endswith((".gguf", ".safetensors")):
        name = PurePosixPath(name).name.removesuffix(".gguf").removesuffix(".safetensors")
    name = _NOT_IN_NAMES.sub("-", name).lstrip("._:/@+-")[:128]
    return name if _NAME.fullmatch(name) else "model"


def _unused(name: str, taken: set[str]) -> str:
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name[:120]}-{number}", number + 1
    return unique


def _aliases(model: ProposedModel, taken: set[str]) -> Iterator[str]:
    for alias in model.aliases[:64]:
        if _NAME.fullmatch(alias) and alias not in taken:
            taken.add(alias)
            yield alias


def _command(engine: str, name: str, sizing: Sizing, context: int, where: str, served: str) -> str:
    """The command that serves the model as it is proposed; empty for servers that are set up otherwise."""
    tp = sizing.placed.tp if sizing.placed else 1
    pp = sizing.placed.pp if sizing.placed else 1
    port = urlsplit(where).port or 80
    if engine == "vllm":
        stages = f" --pipeline-parallel-size {pp}" if pp > 1 else ""
        alias = f" --served-model-name {served}" if served else ""
        return f"vllm serve {name} --tensor-parallel-size {tp}{stages} --max-model-len {context} --port {port}{alias}"
    if engine == "sglang":
        stages = f" --pp-size {pp}" if pp > 1 else ""
        alias = f" --served-model-name {served}" if served else ""
        return (
            f"python -m sglang.launch_server --model-path {name} --tp-size {tp}{stages} --context-length {context} "
            f"--port {port}{alias}"
        )
    if engine == "trtllm":
        stages = f" --pp_size {pp}" if pp > 1 else ""
        return f"trtllm-serve {name} --tp_size {tp}{stages} --max_seq_len {context} --port {port}"
    return ""


def _notes(scan: Scan, models: Sequence[ProposedModel], options: Options) -> Iterator[str]:
    for kind in options.sizing.gpus:
        placed = [one.sizing.placed for one in models if one.sizing is not None and one.sizing.placed is not None]
        wanted = sum(one.gpus for one in placed if one.gpu.name == kind.name)
        if wanted > kind.count:
            yield f"one replica of each model takes {wanted} {kind.name}, of {kind.count}: each is fitted alone"
    for model in models:
        host = urlsplit(model.addresses[0]).hostname or ""
        if not model.hosted and host != "localhost" and "." not in host and ":" not in host:
            yield (
                f"{model.name}: {host} is a name of one network, such as Docker Compose's: the gateway must run in it, "
                "or needs an address that it reaches"
            )
    used = {one for model in models for finding in model.findings for one in (PurePosixPath(finding.value).name,)}
    for path in sorted(scan.local_models):
        if PurePosixPath(path).name not in used:
            yield f"{path} has a model's files, and nothing that was found loads them"
