"""A flash crowd at a gateway whose model scales: what becomes of each request, and how the fleet follows.

`python -m loadtest.load.scaling.flash_crowd --key env:KEY --admin-key file:state/admin.key` asks a gateway that runs,
as one of deploy/scaling.yaml: streams at a low rate, at once many times as many, and the low rate again until the fleet
is as small as before. It prints a line every few seconds, and at the end the whole as JSON.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from loadtest.load.http1 import MalformedResponse, ResponseReader
from loadtest.reports.statistics import percentile

LINE_SECONDS: Final = 5.0
_WORDS: Final = ["river", "stone", "cloud", "table", "green", "seven", "march", "orbit", "alpha", "delta"]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What there is at a moment, in seconds since the beginning; replicas are those of the model's pools together."""

    at: float
    rate: float
    open: int
    answered: int
    failed: int
    needed: int
    wanted: int
    ready: int


class CrowdResult(msgspec.Struct, kw_only=True):
    """`failures` are what was wrong with each answer that was not whole; TTFT in seconds, of the crowd's time."""

    model: str
    calm: float
    crowd: float
    answered: int = 0
    failures: list[str] = []
    most_ready: int = 0
    ttft_p50: float = 0.0
    ttft_p95: float = 0.0
    course: list[Moment] = []


class FlashCrowd:
    """One run."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self.result = CrowdResult(model=arguments.model, calm=arguments.calm, crowd=arguments.rate)
        self._rate: float = arguments.calm
        self._open = 0
        self._ttft: list[float] = []
        self._began = time.monotonic()
        self._over = False

    async def run(self) -> CrowdResult:
        """Run through calm, crowd and calm, and wait for the last answer."""
        arguments = self._arguments
        asking = asyncio.create_task(self._ask_on())
        await self._watch(arguments.before)
        self._rate = arguments.rate
        await self._watch(arguments.seconds)
        self._rate = arguments.calm
        await self._watch(arguments.after, until_least=True)
        self._over = True
        await asking
        if self._ttft:
            self.result.ttft_p50, self.result.ttft_p95 = (
                percentile(sorted(self._ttft), share) for share in (0.5, 0.95)
            )
        return self.result

    async def _watch(self, seconds: float, *, until_least: bool = False) -> None:
        """Note how it is every few seconds; end before the time once no pool has more than its fewest replicas."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            pools = await asyncio.to_thread(self._pools)
            needed, wanted, ready, least = (sum(pool[name] for pool in pools) for name in _COUNTS)
            moment = Moment(
                at=round(now - self._began, 1),
                rate=self._rate,
                open=self._open,
                answered=self.result.answered,
                failed=len(self.result.failures),
                needed=needed,
                wanted=wanted,
                ready=ready,
            )
            self.result.course.append(moment)
            self.result.most_ready = max(self.result.most_ready, ready)
            print(" ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(moment).items()), flush=True)
            if until_least and wanted == ready == least:
                return
            await asyncio.sleep(min(LINE_SECONDS, until - now))

    def _pools(self) -> list[dict[str, int]]:
        """What the admin API says of the model's pools. Raises OSError."""
        arguments = self._arguments
        request = urllib.request.Request(
            f"{arguments.admin}/admin/scaling?model={arguments.model}",
            headers={"authorization": f"Bearer {arguments.admin_key}"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            (model,) = json.load(answer)["models"]
        pools: list[dict[str, int]] = model["pools"]
        return pools

    async def _ask_on(self) -> None:
        tasks: set[asyncio.Task[None]] = set()
        due, number = time.monotonic(), 0
        while not self._over:
            number += 1
            task = asyncio.create_task(self._ask(number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            due += 1.0 / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*tasks)

    async def _ask(self, number: int) -> None:
        self._open += 1
        try:
            problem = await self._answer(number)
        except (OSError, MalformedResponse) as error:
            problem = repr(error)
        self._open -= 1
        if problem:
            self.result.failures.append(f"{time.monotonic() - self._began:.1f} s: {problem}")
        else:
            self.result.answered += 1

    async def _answer(self, number: int) -> str:
        """Ask once, on a connection of its own; return what was wrong."""
        arguments, crowd, began = self._arguments, self._rate == self._arguments.rate, time.monotonic()
        words = [str(number), *random.choices(_WORDS, k=arguments.words)]
        body = {"model": arguments.model, "stream": True, "max_tokens": arguments.tokens, "ignore_eos": True}
        data = json.dumps(body | {"messages": [{"role": "user", "content": " ".join(words)}]}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: {arguments.host}\r\nauthorization: Bearer {arguments.key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection(arguments.host, arguments.port)
        try:
            writer.write(head.encode() + data)
            response, first = ResponseReader(), 0.0
            while not response.complete and (part := await reader.read(65_536)):
                response.feed(part)
                if response.events and not first:
                    first = time.monotonic() - began
        finally:
            writer.close()
        if response.status != 200:
            return f"status {response.status}"
        if response.failed or not response.done:
            return f"the stream broke after {response.events} events"
        if crowd:
            self._ttft.append(first)
        return ""


_COUNTS: Final = ("needed", "wanted", "ready", "min")


def parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m loadtest.load.scaling.flash_crowd", description=__doc__)
    made.add_argument("--host", default="127.0.0.1")
    made.add_argument("--port", type=int, default=8080)
    made.add_argument(
        "--key", required=True, type=_secret, metavar="SOURCE", help="env:NAME or file:PATH of an API key"
    )
    made.add_argument("--admin", default="http://127.0.0.1:8081", metavar="URL", help="the admin API")
    made.add_argument("--admin-key", required=True, type=_secret, metavar="SOURCE", help="the same of the admin key")
    made.add_argument("--model", default="llama-3.1-8b")
    made.add_argument("--calm", type=float, default=1.0, metavar="RATE", help="requests a second before and after it")
    made.add_argument("--rate", type=float, default=24.0, metavar="RATE", help="requests a second of the crowd")
    made.add_argument("--before", type=float, default=15.0, metavar="SECONDS")
    made.add_argument("--seconds", type=float, default=60.0, metavar="SECONDS", help="how long the crowd stays")
    made.add_argument("--after", type=float, default=180.0, metavar="SECONDS", help="at most, until the fleet is small")
    made.add_argument("--words", type=int, default=300, help="of a prompt")
    made.add_argument("--tokens", type=int, default=100, help="of an answer")
    return made


def _secret(source: str) -> str:
    """Read a key from where an option says: every user of the machine can read a command line."""
    kind, _, rest = source.partition(":")
    if kind not in ("env", "file"):
        raise argparse.ArgumentTypeError("expected env:NAME or file:PATH, and not the key itself")
    try:
        found = os.environ.get(rest, "") if kind == "env" else Path(rest).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {rest}: {error}") from error
    if not found:
        raise argparse.ArgumentTypeError(f"{source} is empty or not there")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; the status is 1 where an answer was not whole."""
    try:
        result = asyncio.run(FlashCrowd(parser().parse_args(argv)).run())
    except OSError as error:
        print(f"flash_crowd: {error}", file=sys.stderr)
        return 2
    print(msgspec.json.format(msgspec.json.encode(result), indent=1).decode())
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
