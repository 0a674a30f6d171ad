"""`penstock batch`: submit files of requests to a running gateway, watch the batches and fetch their results."""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gateway.cli.batch.batch_client import BatchClient
from gateway.cli.command_output import shown_time
from gateway.cli.live_gateway import KEY_VARIABLE, LiveGateway, LiveGatewayError, api_key
from observability.terminal import fail, print_fields, print_json, print_table

_URL: Final = "http://127.0.0.1:8080"
_URL_VARIABLES: Final = ("PENSTOCK_URL", "OPENAI_BASE_URL")
_OTHER_KEY: Final = "OPENAI_API_KEY"
_CHAT: Final = "/v1/chat/completions"
_POLL_SECONDS: Final = 1.0
_OVER: Final = ("completed", "failed", "expired", "cancelled")
_TIMES: Final = ("created_at", "in_progress_at", "completed_at", "failed_at", "expired_at", "cancelled_at")

_Show = Callable[[dict[str, Any]], object]


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `batch` and its subcommands."""
    parser = subparsers.add_parser("batch", help="run files of requests on a running gateway")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    submit = _action(actions, "submit", "hand in a file with a request on each line, and print the batch's id", _submit)
    submit.add_argument("file", type=Path, metavar="FILE", help="JSONL: custom_id, method, url and body on each line")
    submit.add_argument(
        "--endpoint", default=_CHAT, metavar="PATH", help=f"what the requests are for (default: {_CHAT})"
    )
    submit.add_argument(
        "--metadata", type=_pair, action="append", default=[], metavar="NAME=VALUE", help="kept with it"
    )
    submit.add_argument("--wait", action="store_true", help="wait until it has ended, and show how far it is")
    status = _action(actions, "status", "show how far a batch is", _status)
    status.add_argument("batch", metavar="ID")
    status.add_argument("--wait", action="store_true", help="wait until it has ended")
    results = _action(actions, "results", "fetch what has come of a batch", _results)
    results.add_argument("batch", metavar="ID")
    results.add_argument("--output", type=Path, metavar="FILE", help="where to write it (default: standard output)")
    results.add_argument("--errors", action="store_true", help="the requests that failed, instead of the others")
    cancel = _action(actions, "cancel", "end a batch; what has been answered stays", _cancel)
    cancel.add_argument("batch", metavar="ID")
    listed = _action(actions, "list", "show the batches that were made last", _list)
    listed.add_argument(
        "--limit", type=int, choices=range(1, 101), default=20, metavar="N", help="how many (default: 20)"
    )
    for each in (submit, status, cancel, listed):
        each.add_argument("--json", action="store_true", help="print JSON")


def _action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    run: Callable[[BatchClient, argparse.Namespace], int],
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
    parser.set_defaults(run=lambda arguments: _guarded(run, arguments))
    return parser


def _guarded(run: Callable[[BatchClient, argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    url = arguments.url or next((os.environ[name] for name in _URL_VARIABLES if os.environ.get(name)), _URL)
    try:
        return run(BatchClient(LiveGateway(url, api_key(arguments.key_file, _OTHER_KEY))), arguments)
    except LiveGatewayError as error:
        return fail("batch", str(error))


def _submit(client: BatchClient, arguments: argparse.Namespace) -> int:
    path: Path = arguments.file
    try:
        size = path.stat().st_size
    except OSError as error:
        raise LiveGatewayError(f"cannot read {path}: {error.strerror or error}") from error
    with _uploading(path.name, size) as sent:
        file_id = client.upload(path, sent)
    batch = client.create(file_id, arguments.endpoint, dict(arguments.metadata))
    if arguments.wait:
        if not arguments.json:
            print(batch["id"], flush=True)
        return _print_batch(_wait_until_ended(client, batch), arguments)
    if arguments.json:
        print_json(batch)
    else:
        print(batch["id"])
    return 0


def _status(client: BatchClient, arguments: argparse.Namespace) -> int:
    batch = client.get(arguments.batch)
    return _print_batch(_wait_until_ended(client, batch) if arguments.wait else batch, arguments)


def _results(client: BatchClient, arguments: argparse.Namespace) -> int:
    batch = client.get(arguments.batch)
    if batch["status"] not in _OVER:
        raise LiveGatewayError(f"{batch['id']} has not ended: it is {batch['status'].replace('_', ' ')}")
    file_id = batch["error_file_id" if arguments.errors else "output_file_id"]
    if file_id is None:
        raise LiveGatewayError(f"{batch['id']} has no {'errors' if arguments.errors else 'results'}")
    if arguments.output is None:
        client.download(file_id, sys.stdout.buffer.write)
        return 0
    # Written to a temporary file beside it first: half a file is never taken for a whole one.
    unfinished: Path = arguments.output.with_name(arguments.output.name + ".part")
    try:
        with unfinished.open("wb") as file:

            def write(piece: bytes) -> None:
                try:
                    file.write(piece)
                except OSError as error:
                    # The failure is the local disk's, not the connection's.
                    raise LiveGatewayError(f"cannot write {arguments.output}: {error.strerror or error}") from error

            client.download(file_id, write)
        unfinished.replace(arguments.output)
    except OSError as error:
        raise LiveGatewayError(f"cannot write {arguments.output}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return 0


def _cancel(client: BatchClient, arguments: argparse.Namespace) -> int:
    _print_batch(client.cancel(arguments.batch), arguments)
    return 0


def _list(client: BatchClient, arguments: argparse.Namespace) -> int:
    batches = client.newest(arguments.limit)
    if arguments.json:
        print_json(batches)
        return 0
    rows = [
        (batch["id"], shown_time(batch["created_at"]), batch["status"], _counts(batch), batch["model"] or "")
        for batch in batches
    ]
    print_table(("ID", "CREATED", "STATUS", "REQUESTS", "MODEL"), rows)
    return 0


def _wait_until_ended(client: BatchClient, batch: dict[str, Any]) -> dict[str, Any]:
    """Wait until the batch has ended, and return it."""
    with _progress() as show:
        while True:
            show(batch)
            if batch["status"] in _OVER:
                return batch
            time.sleep(_POLL_SECONDS)
            batch = client.get(batch["id"])


@contextlib.contextmanager
def _uploading(name: str, size: int) -> Iterator[Callable[[int], object]]:
    if not sys.stdout.isatty():
        yield lambda count: None
        return
    from gateway.cli.batch.batch_progress import upload_bar  # slow to import

    with upload_bar(name, size) as sent:
        yield sent


@contextlib.contextmanager
def _progress() -> Iterator[_Show]:
    """Show a bar on a terminal; show nothing elsewhere, since a log has no use for it."""
    if not sys.stdout.isatty():
        yield lambda batch: None
        return
    from gateway.cli.batch.batch_progress import batch_bar  # slow to import

    with batch_bar() as show:
        yield show


def _print_batch(batch: dict[str, Any], arguments: argparse.Namespace) -> int:
    """Print the batch; return 1 where it has failed."""
    if arguments.json:
        print_json(batch)
    else:
        fields = [("id", batch["id"]), ("status", batch["status"].replace("_", " ")), ("requests", _counts(batch))]
        fields += [(name.removesuffix("_at"), shown_time(batch[name])) for name in _TIMES if batch[name]]
        fields += [("results", batch["output_file_id"] or ""), ("errors", batch["error_file_id"] or "")]
        print_fields(fields)
        print("".join(f"{line}\n" for line in _problems((batch["errors"] or {}).get("data", []))), end="")
    return 1 if batch["status"] in ("failed", "expired") else 0


def _problems(errors: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{'' if each['line'] is None else 'line ' + str(each['line']) + ': '}{each['code']}: {each['message']}"
        for each in errors
    ]


def _counts(batch: dict[str, Any]) -> str:
    counts = batch["request_counts"]
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    return f"{counts['completed']} of {counts['total']}{failed}"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
