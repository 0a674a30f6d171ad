"""Compares a rollout's versions by the measures that workers have reported to the store."""

import msgspec

from gateway.rollouts.measures.stored_measures import measures_key, read_measures
from gateway.tenancy.tenants.transactions import Storage
from routing.rollouts.facts import Compared
from routing.rollouts.judging import bounds_of, compared_of
from routing.rollouts.rollout import SERVING, Rollout
from routing.rollouts.verdicts.judge import judge
from routing.rollouts.verdicts.still_needed import with_needed
from routing.rollouts.verdicts.verdict import Verdict


class StoredComparer:
    """The judge over the store's measures; a rollout's are by its id."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def compare(self, rollout: Rollout, now: float) -> tuple[Compared, Verdict] | None:
        """Return what the versions compare as; None: the candidate answers nobody, or nothing has been measured.

        Raises:
            StoreUnavailable: The store did not answer.
        """
        if rollout.phase not in SERVING:
            return None
        measures = await read_measures(self._storage, rollout.id, now)
        candidate = measures.by_version.get(rollout.candidate)
        if candidate is None and not measures.unreadable:
            return None
        candidate, baseline = measures.of(rollout.candidate), measures.of(rollout.stable)
        verdict = judge(baseline, candidate, bounds_of(rollout.settings), max(now - _serves_since(rollout), 0.0))
        if measures.unreadable and verdict.kind != "worse":
            reason = (
                f"{measures.unreadable} slices in {measures_key(rollout.id)} cannot be read by this program version; "
                "`penstock rollout abort` ends it"
            )
            verdict = msgspec.structs.replace(verdict, kind="inconclusive", reason=reason, short=False)
            verdict = with_needed(verdict, None)
        return compared_of(verdict, candidate.requests), verdict


def _serves_since(rollout: Rollout) -> float:
    """Return when the candidate got its first requests."""
    return next((event.at for event in rollout.history if event.share), rollout.since)
