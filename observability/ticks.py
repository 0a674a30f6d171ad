"""Moments that what a process does again and again shares, so that it wakes once for all of it."""

from typing import Final

#: A beat that is nearer than this part of the period is passed over: timers may be early by the loop's resolution.
_NEAR: Final = 0.1


def until_tick(period: float, now: float) -> float:
    """Seconds from `now` to the next multiple of the period, or to the one after it if that is all but there.

    Who waits for multiples of a period also wakes with those who wait for multiples of its multiples.
    """
    wait = period - now % period
    return wait if wait > period * _NEAR else wait + period
