"""Notes the route of a request in its record."""

from observability.record import RequestRecord
from routing.dispatch.answer_stream import AnswerStream


def note_route(record: RequestRecord, stream: AnswerStream) -> None:
    """Note the replica that answers or was tried last, the reason, and the number of retries and migrations."""
    decision = stream.decision
    if decision is not None:
        replica, cached = decision.replica, stream.route.cached
        record.pool, record.replica, record.reason = replica.pool, replica.id, decision.reason
        record.predicted_tokens = cached.get(decision.entry.id, 0) if cached else 0
    record.retries, record.migrations, record.hedges = stream.retries, stream.migrations, stream.hedges
