"""`penstock serve`: run the gateway that a configuration file describes."""

import argparse
import asyncio
import logging
import multiprocessing
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from gateway.admin.admin_key import where_admin_key_is
from gateway.cli.configuration_warnings import warnings_of
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.network.hosts import local_url
from gateway.config.secret_variables import LateSecrets
from gateway.config.settings import Config
from gateway.reload.watched_file import WatchedFile
from gateway.server.machine_checks import resolve
from gateway.server.ports import StartError
from gateway.store.configured_store import open_store, store_trouble
from gateway.store.embedded import EmbeddedStoreError
from gateway.store.socket_path import SocketPathError
from gateway.tenancy.auth.key_store import KeyStore, quickstart_key
from gateway.text.tokens.loader import BUNDLED
from observability.logs import configure_logging
from protos.errors import StoreUnavailable

log = logging.getLogger(__name__)

READY_SECONDS = 60.0


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `serve`."""
    parser = subparsers.add_parser("serve", help="run the gateway")
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.add_argument(
        "--quickstart", action="store_true", help="make a fresh API key and print requests that can be pasted"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    configure_logging()
    # Imported here, so that `penstock keys` and the like do not load the server.
    from gateway.server.local_pools import LocalPools
    from gateway.server.supervisor import (
        admin_api,
        check_ports,
        configuration,
        controller,
        embedded_store,
        local_replicas,
        make_state_folder,
        serve_workers,
        take_signals,
    )
    from gateway.telemetry.journal_keys import TelemetryKeyError, make_keys
    from gateway.telemetry.metrics_publisher import begin_metrics

    # Workers are fresh processes: a fork would copy this one's threads and locks.
    multiprocessing.set_start_method("spawn")
    take_signals()
    try:
        # Before it is read: what changes from then on is noticed.
        watched = WatchedFile(arguments.config)
        config = _checked(arguments.config)
        configure_logging(config.observability.logs.format)
        for warning in warnings_of(config):
            log.warning("%s: %s", arguments.config, warning)
        check_ports(config)
        make_state_folder(config)
        if not arguments.quickstart:
            # Its key needs the store: without one that start ends, and says why.
            asyncio.run(_say_if_unusable(config))
        late = LateSecrets()
        with embedded_store(config, late):
            begin_metrics(config)
            # Created here, so that an unusable key ends the start, and not each worker's.
            make_keys(config)
            key = asyncio.run(_fresh_key(config)) if arguments.quickstart else None
            pools = LocalPools(config, late)
            with (
                configuration(config, watched, _checked, pools) as held,
                admin_api(config, arguments.config, late),
                local_replicas(pools),
                controller(config, arguments.config, late),
            ):
                serve_workers(config, held, lambda: _announce(config, key))
    except (ConfigError, EmbeddedStoreError, SocketPathError, StartError, TelemetryKeyError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 1
    except StoreUnavailable as error:
        reason = error.__cause__ or error
        print(f"penstock: the store at {config.store.shown_url} does not answer: {reason}", file=sys.stderr)
        return 1
    return 0


def _checked(file: Path) -> Config:
    """Read a configuration and check whatever it refers to on this machine. Raises ConfigError."""
    config = load_config(file)
    resolve(config, str(file), BUNDLED)
    return config


async def _say_if_unusable(config: Config) -> None:
    """Say why an external store cannot be used. The gateway starts all the same, for the store may come later."""
    if trouble := await store_trouble(config):
        log.error("the store at %s cannot be used: %s", config.store.shown_url, trouble)


async def _fresh_key(config: Config) -> str:
    store = open_store(config)
    try:
        return await quickstart_key(KeyStore(store))
    finally:
        await store.aclose()


def _announce(config: Config, key: str | None) -> None:
    """Wait until the gateway is ready, then print its address and how to use it."""
    base = local_url("http" if config.listen.tls is None else "https", config.listen.host, config.listen.port)
    if not _wait_until_ready(f"{base}/readyz"):
        print(f"penstock: not ready after {READY_SECONDS:.0f} s; {base}/readyz says why", file=sys.stderr)
        return
    print(f"\nPenstock is ready.\n\n  Base URL  {base}/v1", flush=True)
    if config.admin.enabled:
        print(f"  Admin     {config.admin.url}/admin (its key: {where_admin_key_is(config)})", flush=True)
    if key is not None:
        print(
            _SNIPPETS.format(base=base, key=key, model=config.models[0].name, drain=config.listen.drain_seconds),
            flush=True,
        )


def _wait_until_ready(url: str) -> bool:
    # The gateway is on this machine, so proxies of the environment are ignored, as is the name in its certificate.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        try:
            with direct.open(url, timeout=2):
                return True
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    return False


_SNIPPETS = """\
  API key   {key}
            (shown once; it replaces the one of the last start)

Try it with curl:

curl -N {base}/v1/chat/completions \\
  -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "stream": true, "max_tokens": 64, "messages": [{{"role": "user", "content": "Hello!"}}]}}'

or with the openai package:

from openai import OpenAI

client = OpenAI(base_url="{base}/v1", api_key="{key}")
answer = client.chat.completions.create(
    model="{model}", max_tokens=64, messages=[{{"role": "user", "content": "Hello!"}}]
)
print(answer.choices[0].message.content)

Ctrl-C stops it; running requests get {drain:g} s to finish.
"""
