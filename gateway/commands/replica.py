"""`penstock replica`: serve one engine, or several alike, to gateways."""

import argparse
import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from gateway.tokens.loader import load_tokenizer
from observability.logs import configure_logging
from protos.types import Role, Shape

if TYPE_CHECKING:
    from replicas.engine import Engine

log = logging.getLogger(__name__)


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `replica`."""
    parser = subparsers.add_parser("replica", help="start a replica server")
    parser.add_argument("--engine", choices=["simulated"], required=True, help="what produces the tokens")
    parser.add_argument("--model", required=True, help="the model's name, as the gateway's configuration has it")
    parser.add_argument(
        "--tokenizer", default="mistral-tekken", help="bundled name, folder or tekken file (default: mistral-tekken)"
    )
    parser.add_argument(
        "--listen",
        action="append",
        required=True,
        metavar="ADDRESS",
        help="HOST:PORT or unix:/PATH; given several times, this process hosts that many replicas",
    )
    parser.add_argument("--tp", type=_positive, default=1, help="tensor parallel degree")
    parser.add_argument("--ep", type=_positive, default=1, help="expert parallel degree")
    parser.add_argument("--pp", type=_positive, default=1, help="pipeline parallel degree")
    parser.add_argument("--role", choices=[role.value for role in Role], default=Role.BOTH.value)
    parser.add_argument("--max-sequence-tokens", type=_positive, help="prompt and answer together")
    parser.add_argument("--drain-seconds", type=float, default=30.0, help="grace for open requests after SIGTERM")
    simulated = parser.add_argument_group("simulated engine")
    simulated.add_argument(
        "--profile", help="published model to imitate (default: the one of the model's name, or mixtral-8x7b)"
    )
    simulated.add_argument("--speed", type=float, default=1.0, help="times faster than the modelled hardware")
    simulated.add_argument("--instant", action="store_true", help="steps take no time")
    simulated.add_argument("--pace-ms", type=float, help="every step takes this long")
    simulated.add_argument("--output-tokens", type=_positive, help="natural length of every answer")
    simulated.add_argument(
        "--scheduler", choices=["guaranteed_no_evict", "max_utilization"], default="guaranteed_no_evict"
    )
    parser.set_defaults(run=_run)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _run(arguments: argparse.Namespace) -> int:
    configure_logging()
    # The one place where the gateway's package imports the replicas'.
    from replicas.server import AddressInUse, serve_pool

    try:
        engines = _simulated_engines(arguments)
    except ValueError as error:
        print(f"penstock replica: {error}", file=sys.stderr)
        return 2

    async def serve() -> int:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        return await serve_pool(engines, drain_seconds=arguments.drain_seconds, stop=stop, ready=_announce)

    try:
        return uvloop.run(serve())
    except AddressInUse as error:
        print(f"penstock replica: {error}", file=sys.stderr)
        return 1


def _simulated_engines(arguments: argparse.Namespace) -> "list[tuple[str, Engine]]":
    """One engine an address, all saying the same sentences. Raises ValueError (TokenizerError is one)."""
    from replicas.engines.answers import Corpus, corpus_sentences
    from replicas.engines.simulated import SimulatedEngine
    from replicas.limits import CapacityPolicy

    tokenizer = load_tokenizer(arguments.tokenizer).tokenizer
    corpus = Corpus(
        sentences=tuple(tuple(tokenizer.encode(line + " ", special=False)) for line in corpus_sentences()),
        eos=min(tokenizer.eos_ids, default=0),
    )
    return [
        (
            address,
            SimulatedEngine(
                model=arguments.model,
                profile=arguments.profile,
                corpus=corpus,
                shape=Shape(tp=arguments.tp, ep=arguments.ep, pp=arguments.pp),
                role=Role(arguments.role),
                policy=CapacityPolicy[arguments.scheduler.upper()],
                speed=arguments.speed,
                instant=arguments.instant,
                pace_seconds=None if arguments.pace_ms is None else arguments.pace_ms / 1000,
                output_tokens=arguments.output_tokens,
                max_sequence_tokens=arguments.max_sequence_tokens,
            ),
        )
        for address in arguments.listen
    ]


def _announce(addresses: list[str]) -> None:
    log.info("serving on %s", ", ".join(addresses))
