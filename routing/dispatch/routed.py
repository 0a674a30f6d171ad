"""What a request's record says of its way through the fleet."""

from observability.record import RequestRecord
from routing.dispatch.failover_stream import Journey


def note_route(record: RequestRecord, journey: Journey) -> None:
    """Where it is answered or was tried last, why there, and how often it had to go on elsewhere."""
    decision = journey.decision
    if decision is not None:
        record.pool, record.replica, record.reason = decision.replica.pool, decision.replica.id, decision.reason
        record.predicted_tokens = journey.route.cached.get(decision.entry.id, 0)
    record.retries, record.migrations, record.hedges = journey.retries, journey.migrations, journey.hedges
