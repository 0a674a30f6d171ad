"""Say in a sentence what a comparison came to."""

from routing.rollouts.measures.events import RATES
from routing.rollouts.measures.slice import STRATA
from routing.rollouts.verdicts.verdict import Comparison


def described(found: Comparison) -> str:
    """Describe what is seen, with its interval."""
    measure, base = found.measure, found.measure.removesuffix("_p99")
    if measure == "error_rate":
        return f"{_percent(found.candidate)} of {found.candidate_samples} requests failed; {_percent(found.bound)} may."
    if measure.endswith("_trend"):
        growth = f"grows by {_percent(found.candidate - 1.0)} a minute beside the stable version's"
        return f"{measure.removesuffix('_trend')} {growth}{_interval(found)}."
    if base != measure:
        times = "" if found.bound is None else f"; {found.bound:g} times as long may be"
        return f"The 99th percentile of {base} is {_seconds(found.candidate)} beside {_seconds(found.baseline)}{times}."
    if measure in RATES:
        return (
            f"{measure}: {_percent(found.candidate)} of {found.candidate_samples} beside {_percent(found.baseline)} of "
            f"{found.baseline_samples}{_interval(found)}."
        )
    times = "" if found.ratio is None else f"{found.ratio:.2f} times the stable version's{_interval(found)}"
    return f"{measure}{_where(found.stratum)} is {times}."


def _where(stratum: int | None) -> str:
    if stratum is None:
        return ""
    if stratum == 0:
        return f" of prompts under {STRATA[0]} tokens"
    if stratum == len(STRATA):
        return f" of prompts of {STRATA[-1]} tokens or more"
    return f" of prompts of {STRATA[stratum - 1]} to {STRATA[stratum] - 1} tokens"


def _interval(found: Comparison) -> str:
    if found.high is None:
        return f" (at least {found.low:.2f} times)" if found.low else ""
    return f" ({found.low:.2f} to {found.high:.2f} times)"


def _percent(share: float | None) -> str:
    if not share:
        return "0 %"
    # Two digits of 100 would be 1e+02.
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _seconds(value: float) -> str:
    return f"{value:.3g} s"
