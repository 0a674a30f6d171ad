"""Rollouts as the store might have them, for tests of what is shown."""

from random import Random
from typing import Any

from gateway.admin.live.live_snapshot import rollouts_live
from gateway.admin.live.view import RolloutLive
from gateway.rollouts.rollout_registry import ModelVersions, RolloutView
from gateway.rollouts.rollout_series import Estimate, RolloutSeries, Span, VersionSpan
from routing.rollouts.rollout import Event, Rollout, Totals
from routing.rollouts.settings import Rollout as Settings
from routing.rollouts.verdicts.verdict import Comparison, Verdict

#: When the first rollout was started.
STARTED = 1_800_000_000.0
ID = "mixtral-8x7b-0af3"


def event(number: int, seconds: float, **fields: Any) -> Event:
    """An event so many seconds after the start."""
    known: dict[str, Any] = {"rollout": ID, "number": number, "at": STARTED + seconds, "model": "mixtral-8x7b"}
    return Event(**(known | {"candidate": "v2", "reason": "it was ordered", "cause": "started"} | fields))


FORWARD = (
    event(1, 0, phase="preparing"),
    event(2, 12, phase="warming", cause="ready", reason="2 replicas of v2 are ready"),
    event(3, 30, phase="shifting", share=0.1, cause="warm", reason="2 replicas are warm, first tokens within 0.21 s"),
    event(
        4,
        95,
        phase="shifting",
        stage=1,
        share=0.25,
        cause="held",
        reason="held for 60 s",
        verdict="as_good",
        requests=412,
    ),
    event(
        5,
        160,
        phase="shifting",
        stage=2,
        share=0.5,
        cause="held",
        reason="held for 60 s",
        verdict="as_good",
        requests=1190,
    ),
)
BACK = (
    *FORWARD,
    event(
        6,
        201,
        phase="rolling_back",
        stage=2,
        cause="worse",
        verdict="worse",
        requests=733,
        reason="first tokens of prompts from 1,024 to 4,096 tokens take 1.31 times as long (1.18 to 1.46)",
    ),
    event(7, 206, phase="rolled_back", stage=2, cause="drained", reason="no answer of v2 is under way"),
)
DONE = (
    *FORWARD,
    event(6, 220, phase="promoting", stage=2, share=1.0, cause="promoted", reason="an operator has promoted it"),
    event(7, 221, phase="draining", stage=2, cause="promoted", reason="v2 is the stable version"),
    event(8, 226, phase="done", stage=2, cause="drained", reason="v1 has no more requests"),
)
COMPARISONS = (
    Comparison(
        measure="error_rate",
        standing="as_good",
        baseline=0.0012,
        candidate=0.0021,
        bound=0.01,
        baseline_samples=4211,
        candidate_samples=2335,
    ),
    Comparison(
        measure="ttft_p99",
        standing="as_good",
        baseline=0.84,
        candidate=1.1,
        bound=2.0,
        ratio=1.31,
        low=1.0,
        high=1.6,
        baseline_samples=4211,
        candidate_samples=2335,
    ),
    Comparison(
        measure="ttft",
        standing="worse",
        baseline=0.21,
        candidate=0.275,
        ratio=1.31,
        low=1.18,
        high=1.46,
        stratum=2,
        baseline_samples=911,
        candidate_samples=502,
    ),
    Comparison(
        measure="ttft",
        standing="as_good",
        baseline=0.11,
        candidate=0.112,
        ratio=1.02,
        low=0.95,
        high=1.09,
        stratum=0,
        baseline_samples=1902,
        candidate_samples=1011,
    ),
    Comparison(
        measure="tpot",
        standing="better",
        baseline=0.021,
        candidate=0.018,
        ratio=0.86,
        low=0.8,
        high=0.92,
        baseline_samples=4211,
        candidate_samples=2335,
    ),
    Comparison(
        measure="seconds",
        standing="leaning",
        baseline=4.4,
        candidate=4.8,
        ratio=1.09,
        low=0.98,
        high=1.21,
        baseline_samples=4211,
        candidate_samples=2335,
    ),
    Comparison(
        measure="refusals",
        standing="too_few",
        baseline=0.01,
        candidate=0.02,
        ratio=2.0,
        low=0.4,
        high=None,
        baseline_samples=401,
        candidate_samples=202,
    ),
)


def rollout(history: tuple[Event, ...] = FORWARD, **fields: Any) -> Rollout:
    """A rollout that has come as far as its history."""
    last = history[-1]
    known: dict[str, Any] = {
        "id": ID,
        "model": "mixtral-8x7b",
        "stable": "v1",
        "candidate": "v2",
        "actor": "cli:root",
        "configured": "v1",
    }
    known |= {"started": STARTED, "phase": last.phase, "stage": last.stage, "share": last.share, "since": last.at}
    known |= {"reason": last.reason, "history": history, "steps": len(history), "requests": last.requests}
    known |= {"settings": Settings(model="mixtral-8x7b", to="v2")}
    return Rollout(**(known | fields))


def live_rollouts(one: Rollout | None, kind: str = "as_good", **fields: Any) -> list[RolloutLive]:
    """What the feed has of a model with this rollout, and of one without any."""
    verdict = Verdict(kind=kind, reason="no measure is worse", comparisons=COMPARISONS)  # type: ignore[arg-type]
    known: dict[str, Any] = {"wish": "run", "controller": "host-7", "verdict": verdict}
    view = None if one is None else RolloutView(rollout=one, **(known | fields))
    models = [
        ModelVersions(model="mixtral-8x7b", stable="v1", versions=("v1", "v2"), rollout=view, totals=Totals()),
        ModelVersions(model="small", stable="2026-11", versions=("2026-11", "2026-12"), rollout=None, totals=Totals()),
    ]
    return rollouts_live(models)


def series(seconds: int = 206) -> RolloutSeries:
    """Measures of both versions, with some spans in which nothing was measured, and one that is alone."""
    random = Random(4)

    def span(at: int, factor: float, requests: int) -> VersionSpan:
        if not requests:
            return VersionSpan()

        def of(value: float, wide: float) -> Estimate:
            value *= random.uniform(0.93, 1.07)
            return Estimate(value=value, low=value / wide, high=value * wide)

        errors = Estimate(value=0.002 * factor, low=0.0004, high=0.011)
        return VersionSpan(
            requests=requests, errors=errors, ttft=of(0.2 * factor, 1.15), tpot=of(0.02, 1.05), seconds=of(4.5, 1.1)
        )

    return RolloutSeries(
        model="mixtral-8x7b",
        rollout=ID,
        span_seconds=10.0,
        verdict=Verdict(kind="worse", reason="first tokens are slower", comparisons=COMPARISONS),
        spans=[
            Span(
                at=STARTED + at,
                stable=span(at, 1.0, 60),
                candidate=span(at, 1.31, 12 if at >= 30 and at not in (80, 100) else 0),
            )
            for at in range(0, seconds, 10)
        ],
    )
