"""What a request's record says of its way through the fleet."""

from observability.record import RequestRecord
from routing.dispatch.answer_stream import AnswerStream


def note_route(record: RequestRecord, stream: AnswerStream) -> None:
    """Note where a request is answered or was tried last, why there, and how often it had to go on elsewhere."""
    decision = stream.decision
    if decision is not None:
        record.pool, record.replica, record.reason = decision.replica.pool, decision.replica.id, decision.reason
        record.predicted_tokens = stream.route.cached.get(decision.entry.id, 0)
    record.retries, record.migrations, record.hedges = stream.retries, stream.migrations, stream.hedges
