"""The configuration file: its form, its defaults and the checks that span fields. Frozen once it is loaded."""

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from gateway.config.admin import Admin
from gateway.config.admission import Admission
from gateway.config.answers import unusable_answers, with_absolute_answers
from gateway.config.api_keys import unusable_secrets, with_absolute_secrets
from gateway.config.batches import Batches
from gateway.config.checks import problems
from gateway.config.discovery import Discovery
from gateway.config.errors import ConfigError, convert, echo
from gateway.config.files import Files, with_absolute_location
from gateway.config.listen import Cors, ListenTls, unusable_identity, with_absolute_identity
from gateway.config.media import Media
from gateway.config.models.engines import PoolShape, PoolTls, SimulatedEngine
from gateway.config.models.heatmap import usable_heatmap
from gateway.config.models.routing import Routing
from gateway.config.models.settings import Model, Pool
from gateway.config.observability.journal import with_absolute_journal
from gateway.config.observability.settings import Observability
from gateway.config.responses import Responses
from gateway.config.safety.safety_checks import unusable_filters, with_absolute_lists
from gateway.config.safety.settings import Safety
from gateway.config.secrets import SecretSource, with_absolute_file
from gateway.config.store import CREDENTIALS
from gateway.config.tenants import DEFAULT_TIERS, Record, Tenant, Tier
from gateway.config.tls import certificate_problems, with_absolute_certificates
from routing.contracts.heatmap import HeatmapError

__all__ = [
    "Admin",
    "Admission",
    "Alerts",
    "Auth",
    "Config",
    "ConfigError",
    "Discovery",
    "Listen",
    "Model",
    "Pool",
    "PoolShape",
    "PoolTls",
    "Routing",
    "Safety",
    "SimulatedEngine",
    "Store",
    "load_config",
    "resolve",
    "schema",
    "usable_cores",
]


class Listen(Record, frozen=True, kw_only=True):
    """Where the gateway listens, and the bounds of what it accepts."""

    host: Annotated[
        str,
        Meta(min_length=1, max_length=255, description="Address to listen on; `0.0.0.0` is every IPv4 interface."),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port.")] = 8080
    workers: Annotated[
        Literal["auto"] | Annotated[int, Meta(ge=1, le=256)],
        Meta(description="Worker processes; `auto` is one for each CPU core that the process may use."),
    ] = "auto"
    max_body_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="Longest request body, in bytes; a longer one is answered with 413."),
    ] = 8 << 20
    max_in_flight: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Requests that one worker holds at once; one more is answered with 503."),
    ] = 4096
    drain_seconds: Annotated[
        float,
        Meta(ge=0, le=3600, description="Time that running requests get to finish after SIGTERM, in seconds."),
    ] = 30.0
    header_timeout_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=60,
            description="Time in which a client must have sent its request's headers, in seconds. An idle keep-alive "
            "connection is closed after it too, so it should be longer than what a load balancer keeps idle.",
        ),
    ] = 60
    request_timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="Longest life of one request, its whole stream included, in seconds."),
    ] = 600.0
    media: Annotated[Media, Meta(description="Images, audio, video and files in chats; models need not take them.")] = (
        Media()
    )
    stream_keep_alive_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="After so long without an event a stream gets a comment, which clients pass over and proxies "
            "take for life, in whole seconds; 0: never.",
        ),
    ] = 15.0
    cors: Annotated[Cors | None, Meta(description="Web pages that may call the API; unset: none.")] = None
    tls: Annotated[ListenTls | None, Meta(description="Serve HTTPS; unset: HTTP.")] = None
    http2: Annotated[
        bool,
        Meta(
            description="Speak HTTP/2 too: with TLS to those who ask for it, without TLS to those who begin with it. "
            "Then a connection on which nothing is sent is not closed after `header_timeout_seconds`, so have "
            "something in front of the gateway that does."
        ),
    ] = False

    def worker_count(self, cores: int) -> int:
        """Workers to start on a machine that grants this process `cores` CPU cores."""
        return max(1, cores) if self.workers == "auto" else self.workers


class Store(Record, frozen=True, kw_only=True):
    """The Redis-protocol store that all workers share."""

    url: Annotated[
        str,
        Meta(
            description="`embedded` starts a Valkey of its own on a unix socket and keeps its data under `state`; "
            "otherwise `redis://`, `rediss://` (TLS), `unix://` and an absolute path, or `redis+cluster://` (with TLS "
            "`rediss+cluster://`) and some nodes of a cluster, as in `redis+cluster://10.0.0.1:6379,10.0.0.2:6379`."
        ),
    ] = "embedded"
    timeout_seconds: Annotated[
        float,
        Meta(
            ge=0.05,
            le=10,
            description="Longest wait for the store while a request is served, in seconds; after it the tenant's "
            "`on_store_failure` says what happens.",
        ),
    ] = 0.5
    encryption_key: Annotated[
        SecretSource | None,
        Meta(
            description="Where the key is that encrypts keys of providers in the store: 32 bytes in base64 or "
            "hexadecimal. Several, with white space between them, replace one another: the first encrypts, all decrypt."
        ),
    ] = None

    @property
    def embedded(self) -> bool:
        """Whether `penstock serve` starts the store itself."""
        return self.url == "embedded"

    @property
    def shown_url(self) -> str:
        """The address without user name and password, for people and logs."""
        return CREDENTIALS.sub("***@", self.url)


class Auth(Record, frozen=True, kw_only=True):
    """How API keys are checked."""

    key_cache_size: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Keys that one worker remembers, to answer without asking the store."),
    ] = 10_000


class Alerts(Record, frozen=True, kw_only=True):
    """Where it is announced that a tenant has spent a part of its budget; the log and the metrics always say it."""

    webhook: Annotated[
        str | None,
        Meta(description="Address, `http://` or `https://`, that gets each announcement as a JSON POST; unset: none."),
    ] = None


class Config(Record, frozen=True, kw_only=True):
    """The whole file."""

    listen: Annotated[Listen, Meta(description="Where the gateway listens, and what it accepts.")] = Listen()
    state: Annotated[
        str,
        Meta(
            min_length=1,
            description="Directory of the embedded store's data and of local sockets, relative to this file's folder.",
        ),
    ] = ".penstock"
    store: Annotated[Store, Meta(description="The store that all workers share.")] = Store()
    auth: Annotated[Auth, Meta(description="How API keys are checked.")] = Auth()
    discovery: Annotated[Discovery, Meta(description="How replicas are found that the file does not list.")] = (
        Discovery()
    )
    models: Annotated[tuple[Model, ...], Meta(min_length=1, description="Models that the gateway serves.")]
    tiers: Annotated[
        tuple[Tier, ...],
        Meta(min_length=1, max_length=64, description="Classes of service, from the highest to the lowest."),
    ] = DEFAULT_TIERS
    tenants: Annotated[
        tuple[Tenant, ...],
        Meta(
            max_length=100_000,
            description="Tenants. Others may come from the admin API; where both name one, this file wins.",
        ),
    ] = ()
    responses: Annotated[Responses, Meta(description="What is kept of responses and conversations.")] = Responses()
    safety: Annotated[
        Safety, Meta(description="Filters of prompts and answers; none look at anything unless rules name them.")
    ] = Safety()
    admission: Annotated[Admission, Meta(description="When work may go to the fleet, and how much may wait.")] = (
        Admission()
    )
    files: Annotated[Files, Meta(description="Files that clients upload.")] = Files()
    batches: Annotated[Batches, Meta(description="Files of requests that run when there is room.")] = Batches()
    alerts: Annotated[Alerts, Meta(description="Where spent budgets are announced.")] = Alerts()
    observability: Annotated[Observability, Meta(description="What operators are shown.")] = Observability()
    admin: Annotated[Admin, Meta(description="The admin API.")] = Admin()

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of all models that are served."""
        return tuple(model.name for model in self.models)

    @property
    def aliases(self) -> dict[str, str]:
        """Other names of models: alias to name."""
        return {alias: model.name for model in self.models for alias in model.aliases}

    def tier(self, name: str | None) -> tuple[int, Tier]:
        """The tier of a name and its rank, 0 for the highest; the last one for None, and where there is none such."""
        last = len(self.tiers) - 1
        rank = next((rank for rank, tier in enumerate(self.tiers) if tier.name == name), last)
        return rank, self.tiers[rank]

    @property
    def state_dir(self) -> Path:
        """The directory for data and sockets; absolute in a loaded configuration."""
        return Path(self.state)


def load_config(path: Path) -> Config:
    """Read and validate a configuration file whole; `state` and all paths in it are absolute then.

    Raises:
        ConfigError: One line that names the file, the path in it and the problem.
    """
    from gateway.config.yaml import read_yaml  # workers get the configuration ready-made and need no YAML

    source = str(path)
    value = read_yaml(path)
    if not isinstance(value, dict):
        raise ConfigError(source, "", "the file is empty" if value is None else "expected a mapping with models in it")
    config = convert(value, Config, source)
    for where, problem in problems(config):
        raise ConfigError(source, where, problem)
    folder = path.resolve().parent
    models = tuple(_with_absolute_paths(model, folder) for model in config.models)
    encryption_key = with_absolute_file(config.store.encryption_key, folder)
    store = msgspec.structs.replace(config.store, encryption_key=encryption_key)
    state, safety = str((folder / config.state).resolve()), with_absolute_lists(config.safety, folder)
    journal = with_absolute_journal(config.observability.journal, folder)
    observability = msgspec.structs.replace(config.observability, journal=journal)
    listen, files = with_absolute_identity(config.listen, folder), with_absolute_location(config.files, folder)
    config = msgspec.structs.replace(config, listen=listen, files=files)
    return msgspec.structs.replace(
        config, state=state, store=store, models=models, safety=safety, observability=observability
    )


def _with_absolute_paths(model: Model, folder: Path) -> Model:
    if path := model.tokenizer_path:
        model = msgspec.structs.replace(model, tokenizer=str((folder / path).resolve()))
    if path := model.routing.heatmap_path:
        routing = msgspec.structs.replace(model.routing, heatmap=str((folder / path).resolve()))
        model = msgspec.structs.replace(model, routing=routing)
    model = with_absolute_answers(model, folder)
    return with_absolute_secrets(with_absolute_certificates(model, folder), folder)


def resolve(config: Config, source: str, bundled: Collection[str]) -> None:
    """Check what the file refers to on this machine: tokenizers, of which `bundled` need no files, and other files.

    Raises:
        ConfigError: A tokenizer is neither a bundled name nor a readable file or folder, a heatmap is not one of the
            model and the shapes of its pools, or a certificate, its key, a secret or a filter cannot be used.
    """
    for where, problem in (*unusable_identity(config.listen), *unusable_secrets(config), *unusable_filters(config)):
        raise ConfigError(source, where, problem)
    for index, model in enumerate(config.models):
        where = f"models[{index}].tokenizer"
        path = model.tokenizer_path
        if path is None and model.tokenizer is not None and model.tokenizer not in bundled:
            known = ", ".join(sorted(bundled))
            raise ConfigError(
                source, where, f"{echo(model.tokenizer)} is not bundled ({known} is); a path must have a / in it"
            )
        if path is not None and not path.exists():
            raise ConfigError(source, where, f"{path} does not exist")
        try:
            usable_heatmap(model)
        except HeatmapError as error:
            raise ConfigError(source, f"models[{index}].routing.heatmap", str(error)) from error
        inside = f"models[{index}]"
        for at, problem in (*certificate_problems(model, inside), *unusable_answers(model, inside)):
            raise ConfigError(source, at, problem)


def usable_cores() -> int:
    """CPU cores that this process may use; on Linux its affinity counts, so `taskset` and cpusets are honoured."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the file; checks that span fields are in `load_config` alone."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Penstock configuration",
        **msgspec.json.schema(Config),
    }
