"""Check what a configuration refers to on this machine: tokenizers, files, certificates, secrets, filters."""

import shutil
from collections.abc import Collection, Iterator

from gateway.admin.scrape_key import read_scrape_key
from gateway.config.answers import unusable_answers
from gateway.config.errors import ConfigError, echo
from gateway.config.listen import unusable_identity
from gateway.config.models.heatmap import usable_heatmap
from gateway.config.network.hosts import resolved_host
from gateway.config.network.rpc import unusable_rpc_files
from gateway.config.provider_secret import SecretError, unset_problem
from gateway.config.secret_variables import unset_variables
from gateway.config.settings import Config
from gateway.config.tls import certificate_problems
from gateway.filtering.filter_checks import unusable_filters
from gateway.store.configured_store import unusable_store
from gateway.tenancy.providers.secret_checks import unusable_secrets
from routing.contracts.heatmap import HeatmapError


def resolve(config: Config, source: str, bundled: Collection[str], *, variables: bool = True) -> None:
    """Check every tokenizer and file that the configuration names; `bundled` tokenizers need no files.

    `variables`: whether those of the environment must be set, which another process may have.

    Raises:
        ConfigError: A host to listen on cannot be resolved, a tokenizer is neither a bundled name nor a readable file
            or folder, a heatmap is not one of the model and the shapes of its pools, or a certificate, its key, a
            secret, a filter or a launcher's command cannot be used.
    """
    found = (
        *_unknown_hosts(config),
        *unusable_identity(config.listen),
        *unusable_rpc_files(config.epp, "epp"),
        *([] if config.external_scaler is None else unusable_rpc_files(config.external_scaler, "external_scaler")),
        *unusable_store(config.store),
        *unusable_secrets(config),
        *_unusable_scrape_key(config),
        *unusable_filters(config),
        *_unknown_commands(config),
    )
    unset = unset_variables(config)
    for where, problem in found:
        others = [name for name in unset if unset_problem(name) not in problem]
        if variables:
            more = f"; nor {'is' if len(others) == 1 else 'are'} {', '.join(others)}"
            raise ConfigError(source, where, f"{problem}{more if 0 < len(others) < len(unset) else ''}")
        if len(others) == len(unset):
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


def _unusable_scrape_key(config: Config) -> Iterator[tuple[str, str]]:
    if config.admin.enabled and config.admin.scrape_key is not None:
        try:
            read_scrape_key(config.admin.scrape_key)
        except SecretError as error:
            yield "admin.scrape_key", str(error)


def _unknown_commands(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the launchers' commands that cannot be run."""
    programs = {}
    if (launcher := config.launchers.command) is not None:
        programs = {f"command.{name}": getattr(launcher, name)[0] for name in ("start", "observe", "stop")}
    if (prices := config.launchers.spot_prices) is not None and prices.command is not None:
        programs["spot_prices.command"] = prices.command[0]
    for name, program in programs.items():
        if shutil.which(program) is None:
            yield f"launchers.{name}[0]", f"{echo(program)} is no program that can be run here"


def _unknown_hosts(config: Config) -> Iterator[tuple[str, str]]:
    hosts = {"listen.host": config.listen.host}
    if config.admin.enabled:
        hosts["admin.host"] = config.admin.host
    for where, host in hosts.items():
        try:
            resolved_host(host)
        except OSError as error:
            yield where, f"{host} cannot be resolved: {error.strerror}"
