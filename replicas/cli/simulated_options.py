"""Options of `penstock replica --engine simulated`."""

import argparse

from replicas.fast_start.preparations import PREPARATIONS, preparation


def add_simulated_options(parser: argparse.ArgumentParser) -> None:
    """Add these options as a group."""
    group = parser.add_argument_group("simulated engine")
    group.add_argument(
        "--profile", help="published model to imitate (default: the one of the model's name, or mixtral-8x7b)"
    )
    group.add_argument("--speed", type=float, default=1.0, help="times faster than the modelled hardware")
    group.add_argument("--instant", action="store_true", help="steps take no time")
    group.add_argument("--pace-ms", type=float, help="every step takes this long")
    group.add_argument("--output-tokens", type=positive, help="natural length of every answer")
    group.add_argument("--slots", type=positive, default=2048, help="sequences that run at once (default: 2048)")
    group.add_argument(
        "--answers",
        metavar="FILE",
        help='what to say to prompts that contain a text: lines of JSON, {"contains": TEXT, "answer": TEXT}',
    )
    group.add_argument(
        "--simulate-start",
        type=preparations,
        metavar="PREPARED[,...]",
        help="take the time of a start, as modelled; none, all, or what has been prepared: " + ", ".join(PREPARATIONS),
    )
    group.add_argument(
        "--max-adapters", type=positive, default=0, help="LoRA adapters loaded at a time (default: none)"
    )


def preparations(text: str) -> tuple[str, ...]:
    """Parse what has been prepared before a start."""
    names = () if text == "none" else tuple(text.split(","))
    try:
        preparation(names)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return names


def positive(text: str) -> int:
    """Parse an option's integer of at least 1."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return int(text)
