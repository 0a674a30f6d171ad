"""Align periodic work to common ticks, so that a process wakes once for all of it."""

from typing import Final

#: A tick nearer than this part of the period is skipped: timers may be early by the loop's resolution.
_NEAR: Final = 0.1


def until_tick(period: float, now: float) -> float:
    """Return seconds from `now` to the next multiple of the period, or to the one after it if that is nearly
    reached.

    Work at multiples of a period thus wakes together with work at multiples of its multiples.
    """
    wait = period - now % period
    return wait if wait > period * _NEAR else wait + period
