"""`penstock replay record`: make a corpus of live requests, or of a file of chats."""

import argparse
import asyncio
import contextlib
import secrets
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from gateway.cli.registry_access import with_store
from gateway.cli.replay.replay_terminal import between, progress
from gateway.config.settings import Config
from gateway.rollouts.replay.chats import chats_in
from gateway.rollouts.replay.corpus import BadLines, CorpusHead, Entry, corpus_line
from gateway.rollouts.replay.recording import LOOK_SECONDS, Recording, Recordings
from gateway.rollouts.replay.redaction import NotRedactable, Redaction, usual_redaction
from gateway.store.store_client import Store
from observability.terminal import fail
from protos.errors import FilterFailed, StoreUnavailable

#: Lines that are taken from the store at once.
_PART: Final = 100


def add_record(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `record`."""
    parser = actions.add_parser(
        "record",
        help="make a corpus of live requests, or of a file of chats",
        description="Personal data and secrets are taken out. Live requests are recorded of tenants with `data.text` "
        "alone, until there are enough or it is ended.",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="where the corpus is written")
    parser.add_argument("--model", required=True, metavar="NAME", help="whose requests; of chats: what they ask for")
    parser.add_argument(
        "--chats", type=Path, metavar="FILE", help="JSON lines: bodies, lists of messages, or lines of a batch"
    )
    parser.add_argument("--config", type=Path, default=Path("penstock.yaml"), metavar="FILE")
    parser.add_argument(
        "--count",
        type=partial(between, least=1, most=1_000_000, whole=True),
        default=500,
        metavar="N",
        help="live requests at most (default: 500)",
    )
    parser.add_argument(
        "--share",
        type=partial(between, least=1e-6, most=1.0),
        default=1.0,
        metavar="SHARE",
        help="part of the live requests (default: 1)",
    )
    parser.add_argument(
        "--seconds",
        type=partial(between, least=1.0, most=7 * 86_400.0),
        default=3600.0,
        metavar="N",
        help="record for so long at most (default: 3600)",
    )
    parser.set_defaults(run=_record)


def _record(arguments: argparse.Namespace) -> int:
    if arguments.chats is not None:
        try:
            return _of_chats(arguments)
        except (BadLines, FilterFailed, OSError) as error:
            return fail("replay", str(error))
    return with_store("replay", arguments.config, lambda store, config: _live(store, config, arguments))


def _of_chats(arguments: argparse.Namespace) -> int:
    redaction, count = usual_redaction(), 0
    seen: dict[str, int] = {}
    head = CorpusHead(model=arguments.model, source="chats", redacted=True, created=int(time.time()))
    with _written(arguments.output) as file:
        file.write(corpus_line(head))
        for entry in chats_in(arguments.chats):
            seen[entry.id] = seen.get(entry.id, 0) + 1
            if seen[entry.id] > 1:
                raise BadLines(arguments.chats, 0, f"the id {entry.id[:64]!r} stands there twice")
            try:
                file.write(corpus_line(_redacted(entry, redaction, arguments.model)))
            except NotRedactable as error:
                raise BadLines(arguments.chats, 0, f"the chat {entry.id[:64]!r}: {error}") from error
            count += 1
        if not count:
            raise BadLines(arguments.chats, 0, "it has no chats")
    print(f"{arguments.output}: {count} requests")
    return 0


def _redacted(entry: Entry, redaction: Redaction, model: str) -> Entry:
    answer = None if entry.answer is None else redaction.answer(entry.answer)
    body = redaction.body(entry.body) | {"model": model}
    return msgspec.structs.replace(entry, body=body, answer=answer)


async def _live(store: Store, config: Config, arguments: argparse.Namespace) -> int:
    if arguments.model not in config.model_names:
        return fail("replay", f"--model: there is no model {arguments.model} ({', '.join(config.model_names)})")
    if not config.keeps_text:
        return fail("replay", f"no tenant of {arguments.config} has data.text, so nothing may be recorded")
    recordings = Recordings(store)
    recording = Recording(id=secrets.token_hex(8), model=arguments.model, share=arguments.share)
    if not await recordings.renew(recording):
        return fail("replay", "another recording runs; it ends with its command")
    taken = [0]
    try:
        with _written(arguments.output) as file:
            head = CorpusHead(model=arguments.model, source="live", redacted=True, created=int(time.time()))
            file.write(corpus_line(head))
            # Ctrl-C cancels the task: what has been recorded until then is kept.
            with contextlib.suppress(asyncio.CancelledError):
                await _take(recordings, recording, file, arguments, taken)
    except OSError as error:
        return fail("replay", f"{arguments.output}: {error.strerror or error}")
    finally:
        # Without its command a recording ends by itself, soon.
        with contextlib.suppress(StoreUnavailable):
            await recordings.end(recording)
    print(f"{arguments.output}: {taken[0]} requests")
    return 0 if taken[0] else fail("replay", "no request came that may be recorded")


async def _take(
    recordings: Recordings, recording: Recording, file: BinaryIO, arguments: argparse.Namespace, taken: list[int]
) -> None:
    """Write what workers hand in until there is enough or time is over; `taken` counts it."""
    until, most, away = time.monotonic() + arguments.seconds, arguments.count, False
    with progress(f"recording {recording.model}", 0, most) as show:
        while taken[0] < most and time.monotonic() < until:
            lines: list[bytes] = []
            runs, note = True, ""
            try:
                lines = await recordings.take(min(_PART, most - taken[0]))
                runs = await recordings.renew(recording)
            except StoreUnavailable as error:
                # What has been recorded is worth more than the seconds for which the store is away.
                if not away:
                    print(
                        f"penstock replay: recording waits for the store: {error.__cause__ or error}", file=sys.stderr
                    )
                note = "the store does not answer"
            away = bool(note)
            for line in lines:
                file.write(line + b"\n")
            taken[0] += len(lines)
            show(taken[0], note)
            if not runs:
                print("penstock replay: another recording has begun", file=sys.stderr)
                break
            if len(lines) < _PART:
                await asyncio.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """Write a file that is there whole or not at all."""
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
