"""Build a worker's guards from the configuration."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.config.safety.guards import Asking, HttpGuard, ModelGuard, OnnxGuardSettings, PluginFilter, PresidioFilter
from gateway.filtering.guards.bounded import BoundedGuard, GuardBackend
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.moderation_guard import ModerationGuard
from gateway.filtering.guards.onnx import OnnxGuard
from gateway.filtering.guards.plugin_guard import PluginGuard
from gateway.filtering.guards.presidio_guard import PresidioGuard
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.providers.provider_keys import KeyOf


@dataclass(frozen=True, slots=True)
class GuardServices:
    """Parts of a worker that guards use. `model_guard` makes a served model's guard; None: there is no such model."""

    model_guard: Callable[[ModelGuard], GuardBackend | None]
    encoding: EncodingQueue
    key_of: KeyOf


def build_guard(settings: Asking, where: str, services: GuardServices) -> BoundedGuard:
    """Build the guard of one configured filter; its owner must close it.

    `where` is the filter's place in the configuration, as `safety.filters[2]`. Raises GuardUnusable, which names the
    field. Needs a running event loop.
    """
    return BoundedGuard(_guard(settings, where, services), settings)


def _guard(settings: Asking, where: str, services: GuardServices) -> GuardBackend:
    if isinstance(settings, ModelGuard):
        guard = services.model_guard(settings)
        if guard is None:
            raise GuardUnusable(f"{where}.model.name", f"there is no model {settings.name}")
        return guard
    if isinstance(settings, HttpGuard):
        return ModerationGuard(settings, services.key_of)
    if isinstance(settings, PresidioFilter):
        return PresidioGuard(settings, f"{where}.presidio")
    if isinstance(settings, OnnxGuardSettings):
        return OnnxGuard(settings, f"{where}.onnx")
    assert isinstance(settings, PluginFilter), "the configuration has no other kind"
    return PluginGuard(settings, f"{where}.plugin")
