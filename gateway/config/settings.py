"""The configuration file as one frozen struct with its defaults."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from gateway.config.admin import Admin
from gateway.config.admission import AdmissionSettings
from gateway.config.alerts import Alerts
from gateway.config.base import Record
from gateway.config.batches import Batches
from gateway.config.discovery import Discovery
from gateway.config.files import Files
from gateway.config.listen import Listen
from gateway.config.models.kubernetes import Kubernetes
from gateway.config.models.launchers import Launchers
from gateway.config.models.scaling import ControllerSettings
from gateway.config.models.settings import Model
from gateway.config.network.rpc import EndpointPicker, ExternalScaler
from gateway.config.observability.settings import Observability
from gateway.config.responses import Responses
from gateway.config.safety.settings import Safety
from gateway.config.store.settings import Store
from gateway.config.tenants import DEFAULT_TIERS, Tenant, Tier
from routing.rollouts.settings import Rollout

DEFAULT_STATE: Final = ".penstock"


class Auth(Record, frozen=True, kw_only=True):
    """How API keys are checked."""

    key_cache_size: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Keys that one worker remembers, to answer without asking the store."),
    ] = 10_000


class Config(Record, frozen=True, kw_only=True):
    """The whole file."""

    listen: Annotated[Listen, Meta(description="Where the gateway listens, and what it accepts.")] = Listen()
    state: Annotated[
        str,
        Meta(
            min_length=1,
            description="Directory of the embedded store's data and of local sockets, relative to this file's folder.",
        ),
    ] = DEFAULT_STATE
    store: Annotated[Store, Meta(description="The store that all workers share.")] = Store()
    auth: Annotated[Auth, Meta(description="How API keys are checked.")] = Auth()
    discovery: Annotated[Discovery, Meta(description="How replicas are found that the file does not list.")] = (
        Discovery()
    )
    kubernetes: Annotated[
        Kubernetes, Meta(description="The API server that pools with pods of Kubernetes are looked up at.")
    ] = Kubernetes()
    launchers: Annotated[Launchers, Meta(description="What starts and stops replicas of pools that scale.")] = (
        Launchers()
    )
    models: Annotated[tuple[Model, ...], Meta(min_length=1, description="Models that the gateway serves.")]
    rollouts: Annotated[
        tuple[Rollout, ...],
        Meta(max_length=1024, description="Changes of models' versions, one for each model at most."),
    ] = ()
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
    admission: Annotated[
        AdmissionSettings, Meta(description="When work may go to the fleet, and how much may wait.")
    ] = AdmissionSettings()
    files: Annotated[Files, Meta(description="Files that clients upload.")] = Files()
    batches: Annotated[Batches, Meta(description="Files of requests that run when there is room.")] = Batches()
    alerts: Annotated[Alerts, Meta(description="Where spent budgets are announced.")] = Alerts()
    observability: Annotated[Observability, Meta(description="What operators are shown.")] = Observability()
    admin: Annotated[Admin, Meta(description="The admin API.")] = Admin()
    controller: Annotated[
        ControllerSettings, Meta(description="What sizes pools that scale, rolls out versions, and changes shapes.")
    ] = ControllerSettings()
    epp: Annotated[EndpointPicker, Meta(description="What `penstock epp` listens on.")] = EndpointPicker()
    external_scaler: Annotated[
        ExternalScaler | None, Meta(description="KEDA's external scaler in the controller's process; unset: none.")
    ] = None

    @property
    def scales(self) -> bool:
        """Whether any pool's replicas are started and stopped by a launcher."""
        return any(model.scales for model in self.models)

    @property
    def keeps_text(self) -> bool:
        """Whether any tenant of the file allows its prompts and answers to be kept."""
        return any(tenant.data.text for tenant in self.tenants)

    @property
    def goes_by_version(self) -> bool:
        """Whether any model's requests go by version."""
        return any(model.names_versions for model in self.models)

    @property
    def needs_controller(self) -> bool:
        """Whether there is anything for a controller to do."""
        return self.scales or self.goes_by_version or self.reshapes

    @property
    def reshapes(self) -> bool:
        """Whether any model's replicas may change their shapes."""
        return any(model.reshape is not None for model in self.models)

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names of all configured models."""
        return tuple(model.name for model in self.models)

    @property
    def aliases(self) -> dict[str, str]:
        """Map each alias to its model's name."""
        return {alias: model.name for model in self.models for alias in model.aliases}

    def tier(self, name: str | None) -> tuple[int, Tier]:
        """The tier of a name with its rank (0 is the highest); the last tier for None and for an unknown name."""
        last = len(self.tiers) - 1
        rank = next((rank for rank, tier in enumerate(self.tiers) if tier.name == name), last)
        return rank, self.tiers[rank]

    @property
    def state_dir(self) -> Path:
        """The directory for data and sockets; absolute in a loaded configuration."""
        return Path(self.state)


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
