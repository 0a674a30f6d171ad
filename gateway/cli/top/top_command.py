"""`penstock top`: show the gateway's live figures in a terminal; the same figures as the console's."""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from gateway.admin.admin_key import VARIABLE, AdminKeyError, admin_key, admin_key_file
from gateway.admin.live.view import Live
from gateway.cli.live_gateway import LiveGateway, LiveGatewayError, api_key
from gateway.config.errors import ConfigError
from gateway.reload.serving_config import serving_config
from observability.terminal import fail

_PATH: Final = "/admin/live?once=1"
_SECONDS: Final = 1.0
#: Width of output that is not a terminal: nothing is cut that somebody may search for.
_PLAIN_WIDTH: Final = 200


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `top`."""
    parser = subparsers.add_parser(
        "top",
        help="show how a running gateway does, live",
        # A key given as `--key` would be taken for a file's name and shown in the error.
        allow_abbrev=False,
        description="Asks the admin API that the configuration describes, with its key. Ctrl-C ends it.",
    )
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.add_argument("--url", help=f"an admin API elsewhere; its key is in {VARIABLE} or --key-file")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="has the admin key")
    parser.add_argument("--once", action="store_true", help="print what there is now as plain text, and end")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if not arguments.once and not sys.stdout.isatty():
        return fail("top", "the output is no terminal; print once with: penstock top --once")
    try:
        gateway = _gateway(arguments)
        live = _read_live(gateway)
    except (LiveGatewayError, ConfigError, AdminKeyError) as error:
        return fail("top", str(error))
    if arguments.once:
        # Imported here and below: other commands' help does not need it.
        from gateway.cli.top.top_screen import plain

        print(plain(live, gateway.shown_url, shutil.get_terminal_size((_PLAIN_WIDTH, 0)).columns), end="")
        return 0
    _watch(gateway, live)
    return 0


def _gateway(arguments: argparse.Namespace) -> LiveGateway:
    """Connect to the admin API. Raises LiveGatewayError, ConfigError or AdminKeyError."""
    if arguments.url is not None:
        if arguments.key_file is None and not os.environ.get(VARIABLE):
            raise LiveGatewayError(f"no admin key: set {VARIABLE} or name a file that has it with --key-file")
        return LiveGateway(arguments.url, _key(arguments.key_file))
    config = serving_config("top", arguments.config)
    if arguments.key_file is not None:
        return LiveGateway(config.admin.url, _key(arguments.key_file))
    if not os.environ.get(VARIABLE) and not admin_key_file(config).exists():
        raise LiveGatewayError(
            f"there is no admin key at {admin_key_file(config)}; "
            f"the first start makes one: penstock serve --config {arguments.config}"
        )
    return LiveGateway(config.admin.url, admin_key(config))


def _key(file: Path | None) -> str:
    return os.environ[VARIABLE].strip() if file is None else api_key(file)


def _read_live(gateway: LiveGateway) -> Live:
    """Read one snapshot. Raises LiveGatewayError."""
    answer = gateway.call("GET", _PATH)
    try:
        return msgspec.json.decode(answer, type=Live)
    except msgspec.DecodeError:
        raise LiveGatewayError(
            f"what answers at {gateway.shown_url} is no admin API of this version of Penstock"
        ) from None


def _watch(gateway: LiveGateway, live: Live) -> None:
    """Redraw until Ctrl-C; figures that are out of date stay on the screen with their age and the reason."""
    from gateway.cli.top.top_screen import Screen, full_screen

    screen = Screen(live, gateway.shown_url)
    with full_screen(screen) as refresh:
        while True:
            began = time.monotonic()
            try:
                screen.live, screen.problem = _read_live(gateway), ""
            except LiveGatewayError as error:
                screen.problem = str(error)
            refresh()
            time.sleep(max(0.0, began + _SECONDS - time.monotonic()))
