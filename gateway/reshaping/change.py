"""A change of a host group's shape as the store has it, and what operators are told of shapes.

Times are seconds since the epoch by the store's clock; a shape is the widths of a group's replicas, from its first GPU
on.
"""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from protos.reshape import Participant
from replicas.reshape.host_group import spans_of
from replicas.reshape.obstacles import difference
from replicas.reshape.ordered_change import OrderedChange, Phase

#: One hash tag for all that the controller of shapes keeps, which its scripts touch together.
PREFIX: Final = "penstock:{reshape}:"
#: A hash: model and group -> the group's last change, as JSON.
CHANGES: Final = f"{PREFIX}changes"
#: A hash: model and group -> id of the last order that was seen to, whether it was begun with or refused.
TAKEN: Final = f"{PREFIX}taken"
#: A hash: model -> how its changes have ended, as JSON of `Totals`.
TOTALS: Final = f"{PREFIX}totals"
#: A plain value: what the controller tells, as JSON of `Told`.
STATUS: Final = f"{PREFIX}status"
#: A channel: that an order has come.
HURRY: Final = f"{PREFIX}hurry"
#: A stream: what has happened to all groups, as JSON of `Event`.
HISTORY: Final = f"{PREFIX}history"
#: Events that the stream keeps, each of some hundred bytes.
MOST_STORED: Final = 4000

#: Who has asked for what was decided.
POLICY: Final = "policy"
#: After a change that failed a group is left alone for its cool-down, twice as long each time, so often at most.
MOST_DOUBLINGS: Final = 6

#: How a change is made: by the engines while they serve, or by other replicas in place of those that are there.
Method = Literal["in_place", "relaunch"]
Widths = Annotated[Sequence[int], Meta(description="Widths of its replicas, from its first GPU on.")]


class ParticipantRecord(Record, frozen=True, kw_only=True):
    """A replica that takes part in a change."""

    address: str
    gpu: Annotated[int, Meta(description="Its own first one in the group.")]
    epoch: Annotated[int, Meta(description="Of its process: one that was restarted takes part no more.")]


class Change(Record, frozen=True, kw_only=True):
    """A change of one group: one at a time, and the last one is kept."""

    object: Literal["reshape.change"] = "reshape.change"
    id: Annotated[int, Meta(description="Grows from one change of the group to the next.")]
    model: str
    group: str
    method: Method = "in_place"
    before: Widths
    after: Widths
    phase: Annotated[
        Phase,
        Meta(
            description="`claimed`: nothing was ordered yet; `preparing`, `transforming`, `aborting`: as replicas are "
            "ordered; `done` and `failed` are its end."
        ),
    ]
    reason: Annotated[str, Meta(description="Why it was begun.")]
    actor: Annotated[str, Meta(description="Who has asked for it; `policy`: nobody, it was decided.")]
    order: Annotated[str, Meta(description="Id of the operator's order; empty: it was decided.")] = ""
    participants: Sequence[ParticipantRecord] = ()
    narrow: Annotated[int, Meta(description="Of one by relaunch: narrow replicas that ran when it began.")] = 0
    started: float
    since: Annotated[float, Meta(description="When it came to its phase.")]
    ended: Annotated[float | None, Meta(description="When it ended; null: it has not.")] = None
    failure: Annotated[
        str, Meta(description="Why it failed, is taken back, or nothing follows on it; empty where none is so.")
    ] = ""
    failed: Annotated[int, Meta(description="Changes of the group that failed one after the other, with this one.")] = 0
    falls_back: Annotated[
        bool, Meta(description="Of one by relaunch: whether it is made as wide replicas do not come up any more.")
    ] = False
    lacks_since: Annotated[
        float | None,
        Meta(description="Of one by relaunch: since when wide replicas are missing after its end; null: none is."),
    ] = None
    goal: Annotated[
        Widths, Meta(description="What was ordered, where another change is to follow on this one; empty: `after`.")
    ] = ()

    @property
    def goes_on(self) -> bool:
        """Whether it is done, and another one is to follow on the way to what was ordered."""
        return self.phase == "done" and bool(self.goal) and not self.failure

    @property
    def is_over(self) -> bool:
        """Whether nothing follows on it any more."""
        return self.ended is not None and not self.goes_on

    @property
    def missed(self) -> bool:
        """Whether it is over, and what was ordered was not reached."""
        return self.is_over and (self.phase == "failed" or bool(self.goal))

    @property
    def place(self) -> str:
        """Its field in the store."""
        return place_of(self.model, self.group)

    def ordered(self) -> OrderedChange:
        """Return it as replicas are ordered it."""
        going, coming = difference(spans_of(self.before), spans_of(self.after))
        return OrderedChange(
            id=self.id,
            group=self.group,
            before=going,
            after=coming,
            participants=tuple(Participant(one.address, one.gpu, one.epoch) for one in self.participants),
            phase=self.phase,
            since=self.since,
            failure=self.failure,
        )

    def moved(self, phase: Phase, now: float, failure: str = "") -> "Change":
        """Return it in another phase."""
        ends = phase in ("done", "failed")
        fails = phase == "failed" or (phase == "done" and self.falls_back)
        return msgspec.structs.replace(
            self,
            phase=phase,
            since=now,
            ended=now if ends else None,
            failure=failure or self.failure,
            failed=self.failed + 1 if fails else 0 if phase == "done" else self.failed,
        )


class Event(Record, frozen=True, kw_only=True):
    """A change that has come to a phase, a decision that was only told, or an order that was refused."""

    at: float
    model: str
    group: str
    change: Annotated[int, Meta(description="The change's number; 0: there is none.")] = 0
    phase: Annotated[Phase | Literal["advised", "refused"], Meta(description="`advised`: it was decided and not made.")]
    before: Widths
    after: Widths
    method: Method = "in_place"
    actor: str
    order: Annotated[str, Meta(description="Id of the operator's order; empty: it was decided.")] = ""
    reason: Annotated[str, Meta(description="A sentence for operators: why it is so.")]
    seconds: Annotated[float | None, Meta(description="What the whole change took; null: it has not ended.")] = None


class Totals(Record, frozen=True, kw_only=True):
    """How a model's changes have ended, since the store has them, and the seconds that those took which were done."""

    done: int = 0
    failed: int = 0
    refused: Annotated[int, Meta(description="Orders of operators that were not begun with.")] = 0
    seconds: float = 0.0


class WidthStatus(Record, frozen=True, kw_only=True):
    """A TP degree that all engines of a group can take."""

    width: int
    kv_tokens: Annotated[int, Meta(description="KV tokens that a replica of it holds; 0: not known.")]
    relative_rate: Annotated[
        float,
        Meta(description="Requests per second and GPU, beside the narrowest width's; 0: not known."),
    ] = 0.0
    change_ms: Annotated[int, Meta(description="For which steps are held up in all, were it changed to now.")] = 0


class MemberStatus(Record, frozen=True, kw_only=True):
    """A replica of a group."""

    address: str
    gpu: int
    start: Annotated[int, Meta(description="First GPU of the replica that it serves as, or is parked on.")]
    width: int
    state: Annotated[str, Meta(description="`serving`, `parked`, `prepared` or `changing`.")]
    leads: Annotated[bool, Meta(description="Whether it serves those GPUs.")]
    used: Annotated[int, Meta(description="KV tokens that its requests hold or have reserved.")] = 0
    longest: Annotated[int, Meta(description="KV tokens that its longest request needs.")] = 0


class Advice(Record, frozen=True, kw_only=True):
    """A change that would be begun now."""

    group: str
    before: Widths
    after: Widths
    reason: str
    gpu_seconds: Annotated[float, Meta(description="What it costs: time of GPUs that do nothing else.")]


class GroupStatus(Record, frozen=True, kw_only=True):
    """A host group."""

    group: str
    gpus: int
    method: Annotated[Method | None, Meta(description="How its shape can change; null: it cannot.")] = None
    shape: Widths
    members: Sequence[MemberStatus] = ()
    widths: Sequence[WidthStatus] = ()
    held: Annotated[str, Meta(description="Why no change of it is begun now; empty: nothing forbids one.")] = ""
    problem: Annotated[str, Meta(description="What is wrong with how its replicas stand; empty: nothing.")] = ""
    undecided: Annotated[
        str, Meta(description="Why no change of it is decided, though operators may order one; empty: it is.")
    ] = ""
    rests_until: Annotated[
        float | None,
        Meta(
            description="When its cool-down ends, in which only a request that no replica holds makes it wider; null: "
            "it has none."
        ),
    ] = None
    change: Annotated[Change | None, Meta(description="Its last change; null: it had none.")] = None


class ReshapeDemand(Record, frozen=True, kw_only=True):
    """Demand for a model, for requests that the narrowest replica holds and for longer ones."""

    short_rate: Annotated[float, Meta(description="Requests per second that it holds.")] = 0.0
    long_rate: Annotated[float, Meta(description="The others.")] = 0.0
    waiting: Annotated[int, Meta(description="Of these, those that wait for a replica that is wide enough.")] = 0
    longest: Annotated[int, Meta(description="KV tokens that the longest of them needs.")] = 0
    oldest_wait: Annotated[float, Meta(description="Seconds.")] = 0.0


class ModelShapes(Record, frozen=True, kw_only=True):
    """A model whose replicas may change their shapes."""

    object: Literal["reshape.model"] = "reshape.model"
    model: str
    mode: Literal["off", "advise", "apply"]
    groups: Sequence[GroupStatus] = ()
    demand: Annotated[ReshapeDemand | None, Meta(description="null: no worker reports it.")] = None
    advice: Annotated[Advice | None, Meta(description="null: shapes are as they should be.")] = None
    totals: Totals = Totals()


class Told(Record, frozen=True, kw_only=True):
    """The last status of the controller of shapes."""

    at: float
    controller: str
    models: Sequence[ModelShapes] = ()
    lost: Annotated[int, Meta(description="Events that no webhook took, since this process began.")] = 0


def place_of(model: str, group: str) -> str:
    """Return a group's field in the store; a model's name has no space."""
    return f"{model} {group}"


def shape_name(widths: Sequence[int]) -> str:
    """Write a shape as `4 x TP1` or `TP2 + 2 x TP1`."""
    parts: list[tuple[int, int]] = []
    for width in widths:
        if parts and parts[-1][1] == width:
            parts[-1] = (parts[-1][0] + 1, width)
        else:
            parts.append((1, width))
    return " + ".join(f"TP{width}" if count == 1 else f"{count} x TP{width}" for count, width in parts)


def rests_until(change: Change | None, cool_down: float, now: float) -> float | None:
    """Return when the cool-down of a group ends that was changed lately; None: it has none."""
    if change is None or change.phase != "done" or change.ended is None:
        return None
    until = change.ended + cool_down
    return until if until > now else None


def failed_lately(change: Change, cool_down: float, now: float) -> str:
    """Say until when a group is left alone whose last change has failed; empty: it is not."""
    if not change.failed or change.ended is None:
        return ""
    left = change.ended + cool_down * 2 ** min(change.failed - 1, MOST_DOUBLINGS) - now
    why = change.failure or change.reason
    return f"its last change failed, and the next one waits for {left:.0f} s: {why}" if left > 0 else ""


def counted(totals: Totals, change: Change) -> Totals:
    """Count how a change has ended, if it has."""
    if change.phase == "failed":
        return msgspec.structs.replace(totals, failed=totals.failed + 1)
    if change.phase != "done":
        return totals
    seconds = totals.seconds + max((change.ended or change.started) - change.started, 0.0)
    return msgspec.structs.replace(totals, done=totals.done + 1, seconds=seconds)
