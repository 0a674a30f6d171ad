"""`penstock replay`: record a corpus, ask it of a version of a model, compare two runs of it."""

import argparse
import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gateway.cli.live_gateway import KEY_VARIABLE, LiveGateway, LiveGatewayError, api_key
from gateway.cli.replay.replay_client import ReplayClient
from gateway.cli.replay.replay_record import add_record
from gateway.cli.replay.replay_terminal import between, progress
from gateway.rollouts.replay.corpus import BadLines, read_corpus
from gateway.rollouts.replay.replay_run import ask_all, unanswered
from gateway.rollouts.replay.run_difference import Thresholds
from gateway.rollouts.replay.run_file import RunFile
from observability.terminal import print_fields, print_json

_URL: Final = "http://127.0.0.1:8080"
_URL_VARIABLES: Final = ("PENSTOCK_URL", "OPENAI_BASE_URL")
_OTHER_KEY: Final = "OPENAI_API_KEY"
#: Exit status: no comparison, or no run, could be made; 1 says that two runs differ by more than is allowed.
_CANNOT: Final = 2
#: Seconds beyond a request's own time limit until the command gives its connection up.
_GRACE: Final = 15.0
_SHOWN: Final = 10
_FAILURES_SHOWN: Final = 3


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `replay` and its subcommands."""
    parser = subparsers.add_parser("replay", help="record requests, ask them of a version, compare answers")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    add_record(actions)
    run = _action(actions, "run", "ask a corpus of a version; a run that was ended goes on where it was", _run)
    run.add_argument("corpus", type=Path, metavar="CORPUS")
    run.add_argument("--output", type=Path, required=True, metavar="FILE", help="where the answers are written")
    run.add_argument("--version", default="", metavar="VERSION", help="which version (default: what the gateway picks)")
    run.add_argument("--model", default="", metavar="NAME", help="ask this model instead of the corpus' own")
    run.add_argument(
        "--concurrency",
        type=partial(between, least=1, most=1024, whole=True),
        default=8,
        metavar="N",
        help="requests at a time (default: 8)",
    )
    run.add_argument(
        "--timeout",
        type=partial(between, least=0.001, most=86_400.0),
        default=300.0,
        metavar="SECONDS",
        help="most for a request (default: 300)",
    )
    diff = _action(actions, "diff", "compare a run with another one, or with the answers that were recorded", _diff)
    diff.add_argument("corpus", type=Path, metavar="CORPUS")
    diff.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="the candidate's; of two, the baseline's first")
    usual = Thresholds()
    for name, meaning in (
        ("similar", "similarity from which on two texts count as alike"),
        ("alike", "least share of answers that are alike"),
        ("failed", "most requests that fail at the candidate alone, as a share"),
        ("broken", "most answers that are invalid JSON or calls at the candidate alone, as a share"),
        ("worse", "most answers that the judge finds worse, as a share"),
    ):
        default = getattr(usual, name)
        diff.add_argument(
            f"--{name}",
            type=partial(between, least=0.0, most=1.0),
            default=default,
            metavar="SHARE",
            help=f"{meaning} (default: {default:g})",
        )
    diff.add_argument("--judge", metavar="MODEL", help="have this model of the gateway say which answers are worse")
    diff.add_argument("--embeddings", metavar="MODEL", help="compare texts by this model's embeddings, not their words")
    diff.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit's XML, too")
    for each in (run, diff):
        each.add_argument("--json", action="store_true", help="print JSON")


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    act: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    # A key given as `--key` would be taken for a file's name and shown in the error.
    parser = actions.add_parser(
        name,
        help=text,
        allow_abbrev=False,
        description=f"The API key is in {KEY_VARIABLE}, {_OTHER_KEY} or --key-file.",
    )
    parser.add_argument(
        "--url", metavar="URL", help=f"where the gateway is (default: {', '.join(_URL_VARIABLES)} or {_URL})"
    )
    parser.add_argument("--key-file", type=Path, metavar="FILE", help=f"has the API key, instead of {KEY_VARIABLE}")
    parser.set_defaults(run=lambda arguments: _guarded(act, arguments))
    return parser


def _guarded(act: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    try:
        return act(arguments)
    except (LiveGatewayError, BadLines) as error:
        print(f"penstock replay: {error}", file=sys.stderr)
    except OSError as error:
        print(f"penstock replay: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
    return _CANNOT


def client_of(arguments: argparse.Namespace, *, model: str, version: str, seconds: float) -> ReplayClient:
    """Make the client that a command's arguments say. Raises LiveGatewayError."""
    url = arguments.url or next((os.environ[name] for name in _URL_VARIABLES if os.environ.get(name)), _URL)
    gateway = LiveGateway(url, api_key(arguments.key_file, _OTHER_KEY), timeout=seconds + _GRACE)
    return ReplayClient(gateway, model=model, version=version, seconds=seconds)


def _run(arguments: argparse.Namespace) -> int:
    corpus = read_corpus(arguments.corpus)
    model = arguments.model or corpus.head.model
    client = client_of(arguments, model=model, version=arguments.version, seconds=arguments.timeout)
    with RunFile(arguments.output, corpus, model, arguments.version) as file:
        left = unanswered(corpus.entries, file.results)
        total, done = len(corpus.entries), len(file.results)
        said = Counter(result.failure.message for result in file.results.values() if result.failure is not None)
        with progress(f"asking {model}", done, total) as show:
            for result in ask_all(left, client, int(arguments.concurrency)):
                file.add(result)
                done += 1
                if result.failure is not None:
                    said[result.failure.message] += 1
                show(done, f"{said.total()} failed" if said else "")
    failed = said.total()
    if arguments.json:
        print_json({"run": str(arguments.output), "entries": total, "before": total - len(left), "failed": failed})
    else:
        print_fields(
            [
                ("run", str(arguments.output)),
                ("answered", f"{total - failed} of {total}{f', {failed} failed' if failed else ''}"),
                ("why", "; ".join(f"{message} ({count})" for message, count in said.most_common(_FAILURES_SHOWN))),
                ("before", f"{total - len(left)}, by an earlier start" if len(left) < total else ""),
            ]
        )
    # Nothing can be compared with a run that has no answer.
    return 1 if failed == total else 0


def _diff(arguments: argparse.Namespace) -> int:
    # They are slow to import.
    from gateway.cli.replay.replay_difference import difference_of, print_difference
    from gateway.rollouts.replay.junit import junit

    if len(arguments.runs) > 2:
        raise LiveGatewayError("there are more than two runs")
    thresholds = Thresholds(
        similar=arguments.similar,
        alike=arguments.alike,
        failed=arguments.failed,
        broken=arguments.broken,
        worse=arguments.worse,
    )
    asks = arguments.judge is not None or arguments.embeddings is not None
    client = client_of(arguments, model="", version="", seconds=120.0) if asks else None
    with progress("asking", 0, 0) if asks else contextlib.nullcontext() as show:
        found = difference_of(
            read_corpus(arguments.corpus),
            arguments.runs,
            thresholds,
            client,
            judge=arguments.judge,
            embeddings=arguments.embeddings,
            show=show,
        )
    if arguments.junit is not None:
        arguments.junit.write_bytes(junit(found))
    if arguments.json:
        print_json(found)
    else:
        print_difference(found, most=_SHOWN)
    return 0 if found.passed else 1
