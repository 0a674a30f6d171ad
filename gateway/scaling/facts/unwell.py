"""Replicas that were ready once and serve no more although they run: which of a pool's are to be replaced. Pure.

The workers' health checks say so: an engine that makes no steps, a session or a probe without an answer. Where many are
unwell at once, the fault is more likely what lies between, and nothing is replaced.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from gateway.scaling.facts.pool_facts import PoolFacts, Use
from gateway.scaling.intents import Intent
from replicas.launchers.launcher import LaunchStep

#: Seconds for which a replica is unwell without a break until it is replaced: at first, and at most where those that
#: took the place of others were never well.
UNWELL_SECONDS: Final = 60.0
LONGEST_UNWELL_SECONDS: Final = 3600.0
#: The part of a pool that is replaced at a time; at least one replica.
AT_A_TIME: Final = 0.25
#: Seconds for which a replica that workers could use counts among those that they should be able to use.
REMEMBERED_SECONDS: Final = 3600.0
#: Seconds between two looks after which nothing is known of the time between, as after an outage of the store.
LONGEST_ROUND_SECONDS: Final = 10.0


def unwell(intent: Intent, facts: PoolFacts) -> str:
    """Say why all workers give a replica that runs and was ready no requests; empty: some do, or nobody knows."""
    seen, known = facts.observed.get(intent.id), facts.announced.get(intent.id)
    if intent.state != "run" or not intent.ready or not facts.reported or seen is None:
        return ""
    if seen.step not in (LaunchStep.PROCESS, LaunchStep.READY) or seen.preempted_at is not None:
        # It ends, or its launcher has begun it anew.
        return ""
    if known is not None and known.step is not LaunchStep.READY:
        return ""
    use = facts.uses.get(intent.address)
    if use is not None:
        return use.unwell
    # Workers leave out what neither registers nor answers, and some that register, as for want of TLS. What does not
    # register is found where its readiness is known.
    return "it neither registers nor answers any worker" if known is None and facts.registers else ""


class Reached:
    """When the workers could last use each replica that they know, of any model."""

    def __init__(self) -> None:
        self._well_at: dict[tuple[str, str], float] = {}

    def mostly_unwell(self, uses: Mapping[tuple[str, str], Use], now: float) -> bool:
        """Whether the workers cannot use most of all replicas that they could use within the last hour.

        Those that have been away for longer, or always, say nothing of what is between. Call it once a round.
        """
        for place, use in uses.items():
            if not use.unwell:
                self._well_at[place] = now
        self._well_at = {
            place: min(at, now)
            for place, at in self._well_at.items()
            if place in uses and now - at < REMEMBERED_SECONDS
        }
        count = sum(bool(uses[place].unwell) for place in self._well_at)
        return count > 1 and 2 * count > len(self._well_at)


class UnwellReplicas:
    """What one controller knows of one pool; `to_replace` is called about once a second."""

    def __init__(self, pool: str, start_timeout: float) -> None:
        """`start_timeout` is in seconds: what was started that long ago is waited for no longer."""
        self._pool = pool
        self._start_timeout = start_timeout
        self._since: dict[str, float] = {}
        self._looked_at = -inf
        self._patience = UNWELL_SECONDS
        #: When replicas were replaced, until as many that were started since are well, and how many of those lack.
        self._replaced: list[float] = []
        self._lacking = 0
        self._ended: set[str] = set()
        #: A sentence for operators while many are unwell and nothing is done about it; empty otherwise.
        self.warning = ""

    def to_replace(self, intents: Sequence[Intent], facts: PoolFacts) -> list[tuple[Intent, str]]:
        """Return the replicas that are to be ended, with the reason of each; others are then started for them."""
        now = facts.now
        if not 0 <= now - self._looked_at <= LONGEST_ROUND_SECONDS:
            self._since = {}
        self._looked_at = now
        serving = [intent for intent in intents if intent.state == "run" and intent.ready]
        reasons = {intent.id: reason for intent in serving if (reason := unwell(intent, facts))}
        self._since = {id_: min(self._since.get(id_, now), now) for id_ in reasons}
        self._note_well([intent for intent in serving if _is_well(intent, facts)], now)
        late = [intent for intent in serving if now - self._since.get(intent.id, now) >= self._patience]
        self.warning = ""
        if not late:
            return []
        if facts.mostly_unwell or 1 < len(reasons) > len(serving) / 2:
            self.warning = (
                f"{len(reasons)} of {len(serving)} replicas of pool {self._pool} are given no requests by any worker, "
                "and none is replaced: so many at once hint at the network or at the gateways "
                f"({late[0].id}: {reasons[late[0].id]})"
            )
            return []
        most = max(1, int(AT_A_TIME * len(serving))) - self._under_way(intents)
        chosen = sorted(late, key=lambda intent: (self._since[intent.id], intent.id))[: max(most, 0)]
        found = [(intent, self._problem(intent, reasons[intent.id], now)) for intent in chosen]
        if chosen:
            self._replaced += [now] * len(chosen)
            self._ended |= {intent.id for intent in chosen}
            self._patience = min(2 * self._patience, LONGEST_UNWELL_SECONDS)
        return found

    def _note_well(self, well: Sequence[Intent], now: float) -> None:
        """Note which replacements have come: where any is well, the next replica is as soon replaced as the first."""
        self._replaced = [at for at in self._replaced if now - at < self._start_timeout]
        come = sum(intent.made >= self._replaced[0] for intent in well) if self._replaced else 0
        if come:
            self._patience = UNWELL_SECONDS
        self._lacking = max(len(self._replaced) - come, 0)
        if not self._lacking:
            self._replaced = []

    def _under_way(self, intents: Sequence[Intent]) -> int:
        """How many replacements are not finished."""
        there = {intent.id for intent in intents}
        self._ended &= there
        starting = sum(intent.state == "run" and not intent.ready for intent in intents)
        return min(self._lacking, starting + len(self._ended))

    def _problem(self, intent: Intent, reason: str, now: float) -> str:
        lasted = now - self._since[intent.id]
        return f"it is replaced, as no worker has given it requests for {lasted:.0f} s: {reason}"


def _is_well(intent: Intent, facts: PoolFacts) -> bool:
    use = facts.uses.get(intent.address)
    return use is not None and not use.unwell
