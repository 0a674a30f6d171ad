"""Runs a client's load as one part of a benchmark and returns its TTFT."""

from loadtest.load.client import LoadResult, LoadSpec
from loadtest.load.processes import BenchError
from loadtest.load.stack import Stack
from loadtest.load.track import Track
from loadtest.reports.statistics import Percentiles, percentiles


def tracked_load(stack: Stack, spec: LoadSpec, label: str, track: Track) -> LoadResult:
    """Run a load as the current part of `track`. Raises BenchError."""
    track.at(label)
    result = stack.load(spec, lambda ended: track.at(label, ended / spec.requests))
    track.part_done()
    return result


def first_tokens(result: LoadResult) -> Percentiles:
    """Return the TTFT percentiles in ms. Raises BenchError if there are none."""
    found = percentiles(result.ttft_ms)
    if found is None:
        raise BenchError(f"no request of the client succeeded: {result.errors}")
    return found
