"""`penstock replica`: serves one engine, or several of one kind, to gateways."""

import argparse
import asyncio
import contextlib
import io
import logging
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import uvloop

from observability.logs import configure_logging
from protos.launch_step import LaunchStep
from protos.pem import PemError
from protos.types import ReplicaInfo, Role
from replicas.cli.group_options import add_group_options, check_group, group_of
from replicas.cli.model_tokenizer import LoadTokenizer
from replicas.cli.preloading import check_preload, preload_meanwhile
from replicas.cli.replica_engines import engines_of, prepare
from replicas.cli.simulated_options import add_simulated_options, positive
from replicas.cli.trtllm_options import add_trtllm_options
from replicas.fast_start.standby import NoOrder, wait_for_order

if TYPE_CHECKING:
    from protos.server_tls import ServerTls
    from replicas.engine import Engine

log = logging.getLogger(__name__)

_LAST_PORT = 65535


class Announcement(Protocol):
    """Says of this process's replicas how far they are, while other threads are busy."""

    def tell(self, step: LaunchStep) -> None:
        """Say that a step begins."""
        ...

    def describe(
        self, infos: Sequence[ReplicaInfo], addresses: Sequence[str], start_seconds: Mapping[LaunchStep, float]
    ) -> None:
        """Note what the loaded replicas are, before it is told that they are ready.

        They listen on `addresses`, and the steps of their start took `start_seconds`.
        """
        ...

    def attend(self, sessions: int) -> None:
        """Note that replicas that are ready are being attended to, and how many sessions are open; call it often."""
        ...


class Registration(Protocol):
    """Announces replicas where gateways find them."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of registration to the command."""
        ...

    def check(self, arguments: argparse.Namespace) -> None:
        """Check the options. Raises ValueError where they contradict each other."""
        ...

    def announced(self, arguments: argparse.Namespace) -> AbstractContextManager[Announcement]:
        """Announce the replicas of the options from now on to the end of the block."""
        ...


def register(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    load_tokenizer: LoadTokenizer,
    registration: Registration,
) -> None:
    """Add the `replica` command."""
    parser = subparsers.add_parser(
        "replica",
        help="start a replica server",
        # A usage of all options fills more than a screen and would hide the error printed with it.
        usage="penstock replica --engine {simulated,tensorrt_llm} --model MODEL --listen ADDRESS [OPTION ...]",
    )
    parser.add_argument(
        "--engine", choices=["simulated", "tensorrt_llm"], required=True, help="what produces the tokens"
    )
    parser.add_argument("--model", help="the model's name, as the gateway's configuration has it")
    parser.add_argument(
        "--tokenizer",
        help="bundled name, folder or tekken file (default: mistral-tekken, or the checkpoint's of a real engine)",
    )
    parser.add_argument(
        "--listen",
        type=_address,
        action="append",
        metavar="ADDRESS",
        help="HOST:PORT or unix:/PATH; given several times, this process hosts that many replicas",
    )
    parser.add_argument(
        "--port",
        dest="listen",
        type=_any_host,
        action="append",
        metavar="PORT",
        help="short for --listen 0.0.0.0:PORT",
    )
    parser.add_argument(
        "--metrics",
        type=_host_and_port,
        metavar="HOST:PORT",
        help="serve the engines' load there, over HTTP at /metrics, under the names of trtllm-serve; unset: nowhere",
    )
    parser.add_argument("--tp", type=positive, default=1, help="tensor parallel degree")
    parser.add_argument("--ep", type=positive, default=1, help="expert parallel degree")
    parser.add_argument("--pp", type=positive, default=1, help="pipeline parallel degree")
    parser.add_argument("--role", choices=[role.value for role in Role], default=Role.BOTH.value)
    parser.add_argument(
        "--model-version", default="", metavar="VERSION", help="of the model; gateways compare it with theirs"
    )
    parser.add_argument("--max-sequence-tokens", type=positive, help="prompt and answer together")
    parser.add_argument("--drain-seconds", type=float, default=30.0, help="grace for open requests after SIGTERM")
    parser.add_argument(
        "--scheduler",
        choices=["guaranteed_no_evict", "max_utilization", "static_batch"],
        default="guaranteed_no_evict",
        help="which requests the engine admits; static_batch is tensorrt_llm's",
    )
    parser.add_argument(
        "--standby",
        type=Path,
        metavar="SOCKET",
        help="wait, with libraries loaded and no model, until an order on this socket gives the other options",
    )
    parser.add_argument(
        "--preload",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="read a checkpoint's weights into main memory meanwhile, as far as it has room; the first ones first",
    )
    parser.add_argument(
        "--standby-seconds", type=float, metavar="N", help="end where nobody has connected to that socket for so long"
    )
    registration.add_options(parser)
    tls = parser.add_argument_group("TLS on HOST:PORT addresses; the files are read anew when they change")
    tls.add_argument("--tls-certificate", type=Path, metavar="FILE", help="PEM certificate to show; needs --tls-key")
    tls.add_argument("--tls-key", type=Path, metavar="FILE", help="PEM private key of the certificate")
    tls.add_argument(
        "--tls-client-ca", type=Path, metavar="FILE", help="PEM authorities; gateways must show a certificate of theirs"
    )
    parser.add_argument(
        "--adapter",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a LoRA adapter that is known by its name; a simulated engine needs no path, but --max-adapters",
    )
    add_group_options(parser)
    add_simulated_options(parser)
    add_trtllm_options(parser)
    parser.set_defaults(run=partial(_run, load_tokenizer, registration, parser), stood_by=False, workers=None)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    # gRPC would take a port that is too large for another port.
    if not text.startswith("unix:") and not (host and port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
        raise argparse.ArgumentTypeError("expected HOST:PORT or unix:/PATH, with a port from 0 (any) to 65535")
    return text


def _host_and_port(text: str) -> tuple[str, int]:
    if text.startswith("unix:"):
        raise argparse.ArgumentTypeError("expected HOST:PORT")
    host, _, port = _address(text).rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _any_host(text: str) -> str:
    return _address(f"0.0.0.0:{text}")


def _run(
    load_tokenizer: LoadTokenizer,
    registration: Registration,
    parser: argparse.ArgumentParser,
    arguments: argparse.Namespace,
) -> int:
    configure_logging()
    began = None
    try:
        check_preload(arguments.preload)
        preload_meanwhile(arguments.preload)
        if arguments.standby is not None:
            load_tokenizer = cache(load_tokenizer)
            arguments = _ordered(arguments, load_tokenizer, registration, parser)
            began = time.monotonic()
            preload_meanwhile(arguments.preload)
        _check(arguments, registration)
        tls = _tls(arguments)
    except NoOrder as error:
        log.info("%s", error)
        return 0
    except (ValueError, OSError) as error:
        return _refused(error)
    with registration.announced(arguments) as announcement:
        try:
            engines = engines_of(arguments, load_tokenizer)
        except ValueError as error:
            if arguments.workers is not None:
                arguments.workers.end()
            return _refused(error)
        return _serve(arguments, engines, tls, announcement, began)


def _check(arguments: argparse.Namespace, registration: Registration) -> None:
    """Check that the options fit together. Raises ValueError."""
    if not arguments.model:
        raise ValueError("give the model's name: --model")
    if arguments.standby_seconds is not None:
        raise ValueError("--standby-seconds goes with --standby")
    if not arguments.listen:
        raise ValueError("give an address to serve on: --listen or --port")
    check_preload(arguments.preload)
    registration.check(arguments)
    _tls(arguments)
    check_group(arguments)


def _ordered(
    arguments: argparse.Namespace,
    load_tokenizer: LoadTokenizer,
    registration: Registration,
    parser: argparse.ArgumentParser,
) -> argparse.Namespace:
    """Load what any replica needs, and wait for an order; return its options.

    Raises:
        ValueError: There are other options than may be given before the order.
        OSError: The socket cannot be used.
        NoOrder: None came for too long.
    """
    engine, path = arguments.engine, arguments.standby
    alone = parser.parse_args(["--engine", engine, "--standby", str(path)])
    alone.standby_seconds, alone.preload = arguments.standby_seconds, arguments.preload
    for name, value in vars(arguments).items():
        if name in vars(alone) and value != getattr(alone, name):
            raise ValueError(f"with --standby the order gives --{name.replace('_', '-')}")

    def take(options: Sequence[str]) -> argparse.Namespace:
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                ordered = parser.parse_args(list(options))
        except SystemExit:
            raise ValueError(said.getvalue().strip().rpartition("\n")[2]) from None
        if ordered.standby is not None or ordered.engine != engine:
            raise ValueError(f"this process waits to become a replica with --engine {engine}")
        _check(ordered, registration)
        ordered.stood_by, ordered.workers = True, workers
        return ordered

    # Without an order nobody else ends the processes that wait, too.
    before = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGINT)}
    workers = prepare(engine, load_tokenizer)
    try:
        return wait_for_order(path, take, arguments.standby_seconds)
    except BaseException:
        if workers is not None:
            workers.end()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)


def _refused(error: ValueError | OSError) -> int:
    print(f"penstock replica: {error}", file=sys.stderr)
    return 2


def _serve(
    arguments: argparse.Namespace,
    engines: "list[tuple[str, Engine]]",
    tls: "ServerTls | None",
    announcement: Announcement,
    began: float | None,
) -> int:
    """Serve until the process shall end. `began`: when it was told what to become, by the monotonic clock."""
    from replicas.replica_server import AddressInUse
    from replicas.serve_pool import serve_pool
    from replicas.startup import StartWatch, process_began

    watch = StartWatch(process_began() if began is None else began, announcement.tell)

    def ready(addresses: list[str]) -> None:
        log.info("serving on %s", ", ".join(addresses))
        announcement.describe([engine.info for _, engine in engines], addresses, watch.seconds)

    async def serve() -> int:
        stop = asyncio.Event()

        def end() -> None:
            announcement.tell(LaunchStep.STOPPING)
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, end)
        return await serve_pool(
            engines,
            drain_seconds=arguments.drain_seconds,
            stop=stop,
            ready=ready,
            tls=tls,
            watch=watch,
            attend=announcement.attend,
            metrics=arguments.metrics,
            group=group_of(arguments, engines[0][1]),
        )

    try:
        return uvloop.run(serve())
    except (AddressInUse, PemError) as error:
        print(f"penstock replica: {error}", file=sys.stderr)
        return 1


def _tls(arguments: argparse.Namespace) -> "ServerTls | None":
    """Return the TLS files from the options. Raises ValueError."""
    from protos.server_tls import ServerTls

    certificate, key, client_ca = arguments.tls_certificate, arguments.tls_key, arguments.tls_client_ca
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise ValueError("TLS needs both --tls-certificate and --tls-key")
    if all(address.startswith("unix:") for address in arguments.listen):
        raise ValueError("TLS is for HOST:PORT addresses; a unix socket has none")
    return ServerTls(certificate, key, client_ca)
