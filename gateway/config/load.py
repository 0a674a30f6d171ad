"""Load a configuration file: parse, convert, check, and make paths absolute."""

from pathlib import Path

import msgspec

from gateway.config.answers import with_absolute_answers
from gateway.config.api_keys import with_absolute_secrets
from gateway.config.checks import problems
from gateway.config.errors import ConfigError, convert
from gateway.config.files import with_absolute_location
from gateway.config.listen import with_absolute_identity
from gateway.config.models.kubernetes import with_absolute_kubeconfig
from gateway.config.models.launchers import with_absolute_prices
from gateway.config.models.settings import Model
from gateway.config.network.hosts import plain_host
from gateway.config.network.rpc import with_absolute_picker, with_absolute_scaler
from gateway.config.observability.journal import with_absolute_journal
from gateway.config.safety.safety_checks import with_absolute_lists
from gateway.config.secrets import with_absolute_file
from gateway.config.settings import Config
from gateway.config.store.settings import with_absolute_store
from gateway.config.tls import with_absolute_certificates
from routing.rollouts.settings import Rollout


def load_config(path: Path) -> Config:
    """Load and validate a configuration file; `state` and all paths in it become absolute.

    Raises:
        ConfigError: One line that names the file, the path in it and the problem.
    """
    from gateway.config.yaml import read_yaml  # deferred: workers receive the parsed configuration and need no YAML

    source = str(path)
    value = read_yaml(path)
    if not isinstance(value, dict):
        raise ConfigError(source, "", "the file is empty" if value is None else "expected a mapping with models in it")
    config = convert(value, Config, source)
    config = _with_plain_hosts(config)
    for where, problem in problems(config):
        raise ConfigError(source, where, problem)
    folder = path.resolve().parent
    models = tuple(_with_absolute_paths(model, folder) for model in config.models)
    store = with_absolute_store(config.store, folder)
    state, safety = str((folder / config.state).resolve()), with_absolute_lists(config.safety, folder)
    journal = with_absolute_journal(config.observability.journal, folder)
    observability = msgspec.structs.replace(config.observability, journal=journal)
    admin = msgspec.structs.replace(config.admin, scrape_key=with_absolute_file(config.admin.scrape_key, folder))
    listen, files = with_absolute_identity(config.listen, folder), with_absolute_location(config.files, folder)
    launchers = with_absolute_prices(config.launchers, folder)
    kubernetes = with_absolute_kubeconfig(config.kubernetes, folder)
    epp, scaler = with_absolute_picker(config.epp, folder), with_absolute_scaler(config.external_scaler, folder)
    config = msgspec.structs.replace(
        config, listen=listen, files=files, admin=admin, launchers=launchers, kubernetes=kubernetes
    )
    rollouts = tuple(_with_absolute_golden(rollout, folder) for rollout in config.rollouts)
    config = msgspec.structs.replace(config, epp=epp, external_scaler=scaler, rollouts=rollouts)
    return msgspec.structs.replace(
        config, state=state, store=store, models=models, safety=safety, observability=observability
    )


def _with_plain_hosts(config: Config) -> Config:
    listen = msgspec.structs.replace(config.listen, host=plain_host(config.listen.host))
    admin = msgspec.structs.replace(config.admin, host=plain_host(config.admin.host))
    epp = msgspec.structs.replace(config.epp, host=plain_host(config.epp.host))
    scaler = config.external_scaler
    if scaler is not None:
        scaler = msgspec.structs.replace(scaler, host=plain_host(scaler.host))
    return msgspec.structs.replace(config, listen=listen, admin=admin, epp=epp, external_scaler=scaler)


def _with_absolute_paths(model: Model, folder: Path) -> Model:
    if path := model.tokenizer_path:
        model = msgspec.structs.replace(model, tokenizer=str((folder / path).resolve()))
    if path := model.routing.heatmap_path:
        routing = msgspec.structs.replace(model.routing, heatmap=str((folder / path).resolve()))
        model = msgspec.structs.replace(model, routing=routing)
    model = with_absolute_answers(model, folder)
    return with_absolute_secrets(with_absolute_certificates(model, folder), folder)


def _with_absolute_golden(rollout: Rollout, folder: Path) -> Rollout:
    """Give the rollout with its golden set's path relative to `folder` made absolute."""
    if rollout.gates.golden is None:
        return rollout
    gates = msgspec.structs.replace(rollout.gates, golden=str((folder / rollout.gates.golden).resolve()))
    return msgspec.structs.replace(rollout, gates=gates)
