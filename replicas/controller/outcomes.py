"""What is learned from what came of decisions: the weights of signals, the headroom for growth, the capacity's
factor.
"""

from collections.abc import Mapping, Sequence
from math import exp

import msgspec

from replicas.controller.signals import WEIGHTS, Signals, learned_weights

#: Seconds between signals that are kept until their outcome is known, and how many at most.
SPACING, MOST_PENDING = 15.0, 120
#: The share of growths that is prepared for: at first, at least and at most.
HEADROOM, LEAST_HEADROOM, MOST_HEADROOM = 0.9, 0.5, 0.98
#: What it grows by in a second in which clients wait too long.
_HEADROOM_STEP = 1e-3
#: Of the time, this many times the share of requests that may be late may have late ones: not all of them are.
_LATE_TIME = 2.0
#: Bounds of the factor, and the seconds in which it follows what was observed, downwards and upwards.
LEAST_FACTOR, MOST_FACTOR, _DOWN_SECONDS, _UP_SECONDS = 0.3, 1.3, 120.0, 1800.0
#: Busy share from which a miss, or none, says something of the capacity.
BUSY_MISS, _BUSY_HIT = 0.5, 0.9
#: Ratio to the target below which clients are served with room to spare.
_WITH_ROOM = 0.8
#: What is taken for the capacity of a rate at which clients waited too long, or had room to spare.
_BELOW, _ABOVE = 0.97, 1.05


class PendingSignals(msgspec.Struct, frozen=True, array_like=True):
    """Signals of a pool at a time, until it is known what came of them; `missed` once it was a miss."""

    at: float
    pool: str
    signals: Signals
    missed: bool = False


def with_signals(
    pending: Sequence[PendingSignals],
    weights: Mapping[str, Mapping[str, float]],
    now: float,
    signals: Mapping[str, Signals],
    horizon: Mapping[str, float],
) -> tuple[tuple[PendingSignals, ...], dict[str, dict[str, float]]]:
    """Return what is pending, and the weights by pool, with the signals of now. `horizon` has seconds until an
    outcome.
    """
    learned = {name: dict(known) for name, known in weights.items() if name in signals}
    kept = []
    for before in pending:
        if before.pool not in signals or before.at > now:
            continue
        missed = before.missed or (signals[before.pool].slo > 1 and before.at < now)
        old = msgspec.structs.replace(before, missed=missed)
        if now - old.at >= horizon[old.pool]:
            known = learned.get(old.pool, WEIGHTS)
            learned[old.pool] = learned_weights(known, old.signals, missed=old.missed)
        else:
            kept.append(old)
    if not kept or now - max(old.at for old in kept) >= SPACING:
        kept.extend(PendingSignals(now, name, found) for name, found in signals.items())
    return tuple(kept[-MOST_PENDING:]), learned


def learned_headroom(headroom: float, in_time: float, seconds: float, *, late: bool) -> float:
    """Return the share of growths to prepare for, after `seconds` in which clients did or did not wait too long.

    It settles where they wait too long for twice as much of the time as requests may be late (Gibbs and Candès,
    "Adaptive Conformal Inference Under Distribution Shift", 2021).
    """
    step = _HEADROOM_STEP * min(max(seconds, 0.0), 60.0)
    change = step if late else -step * min(_LATE_TIME * (1.0 - in_time), 0.5)
    return min(max(headroom + change, LEAST_HEADROOM), MOST_HEADROOM)


def learned_factor(factor: float, rate: float, capacity: float, ratio: float, seconds: float) -> float:
    """Return the capacity's factor after `seconds` in which `rate` was served and clients saw `ratio` of the targets.

    `capacity` has the factor in it already. Callers leave out what says nothing: replicas that were just ready, queues
    that are worked off, a rate beyond the capacity. The factor falls within minutes and rises within hours.
    """
    if capacity <= 0 or rate <= 0:
        return factor
    busy, seconds = rate / capacity, min(max(seconds, 0.0), 60.0)
    if ratio > 1 and busy > BUSY_MISS:
        aim, speed = factor * busy * _BELOW, _DOWN_SECONDS
        if aim >= factor:
            return factor
    elif 0 < ratio < _WITH_ROOM and busy > _BUSY_HIT:
        aim, speed = factor * busy * _ABOVE, _UP_SECONDS
        if aim <= factor:
            return factor
    else:
        return factor
    aim = min(max(aim, LEAST_FACTOR), MOST_FACTOR)
    return factor + (1.0 - exp(-seconds / speed)) * (aim - factor)
