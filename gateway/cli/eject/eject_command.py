"""`penstock eject`: write a configuration as values of the Helm chart, or as the manifests that it makes of them."""

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.yaml import read_yaml
from gateway.eject.chart import HelmError, as_yaml, copy_chart, manifests
from gateway.eject.files import file_uses
from gateway.eject.instructions import instructions
from gateway.eject.pools import EjectError
from gateway.eject.values import Ejected, EjectOptions, eject
from observability.terminal import fail

#: A name from which those of all objects are made, so shorter than a label's 63 characters.
_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?")
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `eject`."""
    parser = subparsers.add_parser("eject", help="write a configuration as Helm values or as Kubernetes' manifests")
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="folder to write; it must be new or empty"
    )
    parser.add_argument(
        "--form",
        choices=("manifests", "values"),
        default="values",
        help="values: the chart with a file of values; manifests: plain objects, for which helm must be on the path "
        "(default: %(default)s)",
    )
    parser.add_argument("--name", type=_name, default="penstock", help="name of the release (default: %(default)s)")
    parser.add_argument("--namespace", type=_label, default="penstock", help="(default: %(default)s)")
    parser.add_argument(
        "--image",
        type=_image,
        action="append",
        default=[],
        metavar="MODEL/POOL=IMAGE",
        help="image of a pool's replicas: MODEL/POOL=IMAGE, or ENGINE=IMAGE for all pools of an engine but openai, "
        "which any server may have. Such a pool moves into the cluster. Repeatable",
    )
    parser.add_argument(
        "--models-claim", type=_label, default="models", metavar="CLAIM", help="claim of models (default: %(default)s)"
    )
    parser.add_argument("--helm", default="helm", metavar="PROGRAM", help="Helm's program (default: %(default)s)")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    to: Path = arguments.to
    options = EjectOptions(name=arguments.name, images=dict(arguments.image), models_claim=arguments.models_claim)
    try:
        ejected = _ejected(arguments.config, options)
        if to.exists() and any(to.iterdir()):
            return fail("eject", f"{to} is not empty")
        to.mkdir(parents=True, exist_ok=True)
        if arguments.form == "values":
            copy_chart(to / "chart")
            (to / "values.yaml").write_text(as_yaml(ejected.values), encoding="utf-8")
            apply = f"helm install {options.name} chart --namespace {arguments.namespace} --values values.yaml"
        else:
            _write_manifests(arguments, ejected)
            apply = f"kubectl --namespace {arguments.namespace} apply --filename manifests"
        page = instructions(ejected, options, arguments.namespace, apply)
        (to / "README.md").write_text(page, encoding="utf-8")
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except EjectError as error:
        return fail("eject", f"{arguments.config}: {error}")
    except HelmError as error:
        return fail("eject", str(error))
    except OSError as error:
        return fail("eject", f"{error.filename or to}: {error.strerror or error}")
    for note in ejected.notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"{to / 'README.md'} says what to do with it")
    return 0


def _ejected(path: Path, options: EjectOptions) -> Ejected:
    config, raw = load_config(path), read_yaml(path)
    assert isinstance(raw, dict)
    uses = file_uses(raw, msgspec.to_builtins(config), path.resolve().parent)
    return eject(config, raw, uses, options)


def _write_manifests(arguments: argparse.Namespace, ejected: Ejected) -> None:
    with tempfile.TemporaryDirectory() as folder:
        values = Path(folder) / "values.yaml"
        values.write_text(as_yaml(ejected.values), encoding="utf-8")
        made = list(manifests(arguments.helm, values, arguments.name, arguments.namespace))
    target: Path = arguments.to / "manifests"
    target.mkdir()
    for name, text in made:
        (target / name).write_text(text, encoding="utf-8")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a name of 1 to 40 small letters, digits and -, got {text!r}")
    return text


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a name of 1 to 63 small letters, digits and -, got {text!r}")
    return text


def _image(text: str) -> tuple[str, Any]:
    pool, equals, image = text.partition("=")
    if not (pool and equals and image and image.isprintable() and " " not in image):
        raise argparse.ArgumentTypeError(f"expected MODEL/POOL=IMAGE or ENGINE=IMAGE, got {text!r}")
    return pool, image
