"""A worker's parts, with what a test wants them to have counted."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from observability.metrics import declarations as declared
from observability.metrics.snapshot import empty
from observability.record import RequestRecord
from routing.health.replica_status import ReplicaStatus


class Running:
    """A running request for a model."""

    def __init__(self, model: str) -> None:
        self.record = RequestRecord("r", "chat", 0.0, 0.0, model=model)


@dataclass
class Counted:
    """All of them in one."""

    said: list[ReplicaStatus] = field(default_factory=list)
    admissions: dict[tuple[int, str], int] = field(default_factory=dict)
    waiting: int = 0
    reservations: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    versions: None = None

    def __post_init__(self) -> None:
        self.seconds = empty(declared.STORE_SECONDS)
        self.fleet = self.admission_queue = self

    def statuses(self) -> list[ReplicaStatus]:
        return self.said

    def counts(self) -> Mapping[str, float]:
        return {"telemetry_dropped_total": 2, "journal_records_total": 5, "journal_unwritten_records": 1, "else": 9}
