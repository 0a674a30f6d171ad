"""`penstock route`: ask a running gateway where a request would go, and why."""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.cli.live_gateway import KEY_VARIABLE, LiveGateway, LiveGatewayError, api_key
from gateway.cli.route.route_table import explanation_lines
from gateway.config.errors import ConfigError
from gateway.config.network.hosts import local_url
from gateway.reload.serving_config import serving_config
from observability.terminal import fail, print_json
from routing.contracts.explanation import RouteExplanation

_URL: Final = "http://127.0.0.1:8080"
#: A word that is one token in any vocabulary with English, however often it is repeated.
_WORD: Final = " the"


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `route` and its subcommand."""
    parser = subparsers.add_parser("route", help="ask a running gateway where a request would go, and why")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    explain = actions.add_parser(
        "explain",
        help="show what the routing policy makes of every replica; nothing is run or charged",
        # A key given as `--key` would be taken for a file's name and shown in the error.
        allow_abbrev=False,
        description=f"Needs a key that may ask (penstock keys create --explain), in {KEY_VARIABLE} or --key-file.",
    )
    prompt = explain.add_mutually_exclusive_group(required=True)
    prompt.add_argument("text", metavar="TEXT", nargs="?", help="what a user says")
    prompt.add_argument("--prompt-file", metavar="FILE", help="a file with what a user says; -: standard input")
    prompt.add_argument("--prompt-tokens", type=_count, metavar="N", help="say something of about N tokens")
    where = explain.add_mutually_exclusive_group()
    where.add_argument("--url", help=f"where the gateway is (default: {_URL})")
    where.add_argument(
        "--config", type=Path, metavar="FILE", help="the gateway on this machine with that configuration"
    )
    explain.add_argument("--model", metavar="NAME", help="which model (default: the only one)")
    explain.add_argument("--max-tokens", type=_count, metavar="N", help="how long the answer may be")
    explain.add_argument("--key-file", type=Path, metavar="FILE", help=f"has the API key, instead of {KEY_VARIABLE}")
    explain.add_argument("--json", action="store_true", help="print JSON")
    explain.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    try:
        gateway = LiveGateway(_url(arguments), api_key(arguments.key_file))
        text = _prompt(arguments)
        model = arguments.model or _only_model(gateway)
        explanation = _explanation(gateway, model, text, arguments.max_tokens)
    except LiveGatewayError as error:
        return fail("route", _advised(error))
    except ConfigError as error:
        return fail("route", str(error))
    if arguments.json:
        print_json(explanation)
    else:
        print("\n".join(explanation_lines(explanation, shutil.get_terminal_size().columns)))
    return 0


def _url(arguments: argparse.Namespace) -> str:
    if arguments.config is None:
        return arguments.url or _URL
    listen = serving_config("route", arguments.config).listen
    return local_url("http" if listen.tls is None else "https", listen.host, listen.port)


def _prompt(arguments: argparse.Namespace) -> str:
    if arguments.prompt_tokens is not None:
        return _WORD * int(arguments.prompt_tokens)
    if arguments.prompt_file is None:
        return str(arguments.text)
    try:
        if arguments.prompt_file == "-":
            return sys.stdin.read()
        return Path(arguments.prompt_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LiveGatewayError(f"cannot read the prompt: {error}") from error


def _only_model(gateway: LiveGateway) -> str:
    try:
        answer = gateway.call("GET", "/v1/models")
    except LiveGatewayError as error:
        if error.code == "endpoint_not_allowed":
            raise LiveGatewayError("this API key may not list the models: say which with --model") from error
        raise
    try:
        names = [str(model["id"]) for model in json.loads(answer)["data"]]
    except (ValueError, KeyError, TypeError):
        raise LiveGatewayError(f"what answers at {gateway.shown_url} is no Penstock gateway") from None
    if not names:
        raise LiveGatewayError("this API key may use no model")
    if len(names) > 1:
        raise LiveGatewayError(f"say which model with --model: {', '.join(names)}")
    return names[0]


def _explanation(gateway: LiveGateway, model: str, text: str, max_tokens: int | None) -> RouteExplanation:
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": text}]}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    answer = gateway.call("POST", "/v1/chat/completions", body, {"x-penstock-explain": "dry-run"})
    try:
        return msgspec.json.decode(answer, type=RouteExplanation)
    except msgspec.DecodeError:
        raise LiveGatewayError(f"what answers at {gateway.shown_url} does not explain its routes") from None


def _advised(error: LiveGatewayError) -> str:
    """Return the problem, or the remedy where a command helps."""
    if error.code == "explain_not_allowed":
        return "this API key may not ask; let it with: penstock keys update ID_OR_NAME --explain"
    return str(error)


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return count
