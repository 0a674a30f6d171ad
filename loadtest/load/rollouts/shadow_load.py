"""Measures what clients notice of a shadow: their latencies with copies of all their requests, and without."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import msgspec

from loadtest.load.client import LoadResult, LoadSpec
from loadtest.load.client_beside import first_tokens, tracked_load
from loadtest.load.processes import BenchError
from loadtest.load.stack import MODEL, BenchPool, Stack, chat_body, gateway_stack, random_prompt
from loadtest.load.track import Track
from loadtest.reports.statistics import Percentiles, median_percentiles, percentiles

PACE_MS: Final = 20.0
SLOTS: Final = 128
_TOKENS: Final = 40
_WORDS: Final = 30
_PHASE_SECONDS: Final = 60.0
_CLI: Final = [sys.executable, "-P", "-m", "gateway.cli.main"]
#: A shadow of all requests that no number of copies ends.
_ROLLOUT: Final = f"""\
rollouts:
  - model: {MODEL}
    to: v2
    plan: shadow
    hold_seconds: 604800
    warmup: {{requests: 0}}
    shadow: {{share: 1.0, room: 1.0}}
"""


class ShadowLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies in ms, medians over runs: first tokens and whole answers, without copies and with them.

    `ratio` is that of the p99 of whole answers, `first_ratio` that of first tokens; `compared` are the copies that were
    answered, `left_out` those that were not made.
    """

    clients: int
    runs: int
    errors: int
    first_without_ms: Percentiles
    first_with_ms: Percentiles
    whole_without_ms: Percentiles
    whole_with_ms: Percentiles
    first_ratio: float
    ratio: float
    compared: int
    left_out: int


def shadow_load(
    clients: int, *, requests: int, repeat: int, show: Callable[[str, float, int], None] | None = None
) -> ShadowLoad:
    """Run the benchmark: in turn without a shadow and with one, on one gateway. Raises BenchError."""
    rng = random.Random(1)
    chats = [chat_body(random_prompt(rng, _WORDS), stream=True, max_tokens=_TOKENS) for _ in range(requests)]
    spec = LoadSpec(bodies=chats, concurrency=clients, requests=requests, warmup=2 * clients, ramp_seconds=1.0)
    track = Track(2 * repeat, show)
    track.at("starting a gateway")
    engine = ["--pace-ms", str(PACE_MS), "--slots", str(SLOTS)]
    pools = [BenchPool("old", tp=2, version="v1"), BenchPool("new", tp=2, version="v2")]
    without: list[LoadResult] = []
    beside: list[LoadResult] = []
    compared = left_out = 0
    with gateway_stack(engine, pools=pools, more=_ROLLOUT) as stack:
        _until(stack, "shadowing")
        for number in range(repeat):
            if number:
                _order(stack, "start", "--to", "v2")
                _until(stack, "shadowing")
            beside.append(tracked_load(stack, spec, "with copies", track))
            _order(stack, "abort")
            differences = _until(stack, "rolled_back")["shadow"]
            compared += differences["differences"]["compared"]
            left_out += sum(differences["left_out"].values())
            without.append(tracked_load(stack, spec, "without copies", track))
    firsts, seconds = [first_tokens(each) for each in without], [first_tokens(each) for each in beside]
    wholes, whole_beside = [_whole(each) for each in without], [_whole(each) for each in beside]
    return ShadowLoad(
        clients=clients,
        runs=repeat,
        errors=sum(each.error_count for each in (*without, *beside)),
        first_without_ms=_medians(firsts),
        first_with_ms=_medians(seconds),
        whole_without_ms=_medians(wholes),
        whole_with_ms=_medians(whole_beside),
        first_ratio=_ratio(firsts, seconds),
        ratio=_ratio(wholes, whole_beside),
        compared=compared,
        left_out=left_out,
    )


def _whole(result: LoadResult) -> Percentiles:
    found = percentiles(result.e2e_ms)
    if found is None:
        raise BenchError(f"no request succeeded: {result.errors}")
    return found


def _medians(runs: list[Percentiles]) -> Percentiles:
    found = median_percentiles(runs)
    assert found is not None, "there is a run"
    return found


def _ratio(without: list[Percentiles], beside: list[Percentiles]) -> float:
    return round(median(b.p99 / a.p99 for a, b in zip(without, beside, strict=True)), 4)


def _order(stack: Stack, action: str, *arguments: str) -> Any:
    """Run `penstock rollout`. Raises BenchError."""
    command = [*_CLI, "rollout", action, MODEL, *arguments, "--config", str(stack.config), "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise BenchError(f"penstock rollout {action} failed: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)


def _until(stack: Stack, phase: str) -> dict[str, Any]:
    """Wait for a phase of the rollout. Raises BenchError."""
    deadline = time.monotonic() + _PHASE_SECONDS
    while time.monotonic() < deadline:
        view: dict[str, Any] | None = _order(stack, "status")["rollout"]
        if view is not None and view["rollout"]["phase"] == phase:
            return view
        time.sleep(0.5)
    raise BenchError(f"the rollout is not {phase} after {_PHASE_SECONDS:.0f} s")
