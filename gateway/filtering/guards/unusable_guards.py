"""Check guards' settings beyond their types, and the files that they refer to."""

from collections.abc import Iterator
from pathlib import Path

from gateway.config.safety.guards import Asking, HttpGuard, OnnxGuardSettings, PluginFilter, PresidioFilter
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.onnx import onnx_problems
from gateway.filtering.guards.plugin_guard import load_scan
from gateway.filtering.guards.presidio_guard import presidio_problem
from protos import pem


def unusable_guard(settings: Asking, where: str) -> Iterator[tuple[str, str]]:
    """List what a guard refers to and cannot be used on this machine, as (path, problem); plugins are made once."""
    if isinstance(settings, HttpGuard):
        yield from _unusable_files(settings, where)
    elif isinstance(settings, PresidioFilter):
        if problem := presidio_problem():
            yield where, problem
    elif isinstance(settings, OnnxGuardSettings):
        yield from onnx_problems(settings, where)
    elif isinstance(settings, PluginFilter):
        try:
            load_scan(settings, where)
        except GuardUnusable as error:
            yield error.where, error.problem


def _unusable_files(settings: HttpGuard, where: str) -> Iterator[tuple[str, str]]:
    # Imported here: a configuration without secrets does not need it.
    from gateway.config.provider_secret import SecretError, read_provider_key

    if settings.ca is not None:
        try:
            pem.authorities(Path(settings.ca))
        except pem.PemError as error:
            yield f"{where}.ca", str(error)
    if settings.api_key is not None:
        try:
            read_provider_key(settings.api_key)
        except SecretError as error:
            yield f"{where}.api_key", str(error)
