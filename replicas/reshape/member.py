"""One replica's part in the changes of its host group, as a state machine: orders, peers and time in, acts out.

In a merge the replica on the first GPU takes what the others give it. In a split it deals out what it has, and waits
until all that shall serve have received their parts. Either alone decides: up to its decision any loss, time-out or
abort undoes the change everywhere, and afterwards nothing does. A wide replica lives as long as the links from all that
are parked on its GPUs; without one of them, each replica of it serves the GPUs that it started with.
"""

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from protos.join import Join, JoinKind
from protos.reshape import MemberState, Participant, ReshapeOrder, ReshapePhase, Span
from replicas.reshape.acts import Act, Become, Close, End, Give, Open, Reach, Refuse, Reset, Resume, Send, Tell
from replicas.reshape.order_problems import described, problem_with, span_of


class Place(msgspec.Struct, frozen=True):
    """A replica's place in a group of `gpus`: the `span` that it starts with, and its process's epoch."""

    group: str
    gpus: int
    span: Span
    epoch: int


class Part(Enum):
    """A replica's part in a change."""

    #: Serves the wide span that comes of a merge.
    TAKER = "taker"
    #: Gives what it has to the taker, and is parked.
    GIVER = "giver"
    #: Deals out what it has in a split.
    DEALER = "dealer"
    #: Is parked, and serves one of the spans that come of a split.
    HEIR = "heir"
    #: Is parked before and after.
    RIDER = "rider"


class _Change(msgspec.Struct):
    """A change under way, as one replica sees it."""

    order: ReshapeOrder
    before: Span
    after: Span
    part: Part
    others: dict[int, Participant]  # on the span after it, but for this replica, by GPU
    deadline: float
    ends: float = 0.0  # when it has to be done, once it is carried out
    rested: bool = False
    deals: bool = False  # what is to be sent is being dealt out
    sent: bool = False  # what it has to send: now somebody else decides, unless it is the dealer
    up: int | None = None  # the link to who will serve its GPU, where that is another replica than now
    down: dict[int, int] = {}  # links from those that will be parked on its GPUs, by their GPU
    given: set[int] = set()  # links over which all has come
    received: set[int] = set()  # links of those that have all


class Member:
    """The state machine. Every method returns acts, to be done in order; times are seconds on any clock."""

    def __init__(self, place: Place, problem_of: Callable[[tuple[int, ...]], str]) -> None:
        """`problem_of` says why the engine cannot go on as replicas of these widths; empty: it can."""
        self.place = place
        self.state = MemberState.SERVING
        self.span = place.span
        self.served_by = 0
        self.change = 0
        self.failure = ""
        self.draining = False
        self._problem_of = problem_of
        self._under_way: _Change | None = None
        self._links = 0
        self._up: int | None = None  # to the server of its GPU, while it is parked
        self._down: dict[int, int] = {}  # from those that are parked on its GPUs, by their GPU
        # Links of those that it has dealt something out to -> the place, and their epoch. They end once they serve.
        self._leaving: dict[int, tuple[int, int]] = {}

    @property
    def due(self) -> float | None:
        """The time at which `tick` has something to do."""
        return None if self._under_way is None else self._under_way.deadline

    def new_link(self) -> int:
        """Return a number for a link, which nothing else has."""
        self._links += 1
        return self._links

    def order(self, order: ReshapeOrder, now: float) -> list[Act]:
        """Follow an order, or refuse it."""
        if order.group != self.place.group:
            return [Refuse(order.change, f"this is a replica of group {self.place.group}, not of {order.group}")]
        if order.phase is ReshapePhase.PREPARE:
            return self._prepare(order, now)
        if order.phase is ReshapePhase.TRANSFORM:
            return self._transform(order, now)
        return self._abort(order)

    def joined(self, link: int, hello: Join) -> list[Act]:
        """Take a link that another replica has opened, unless nobody expects it."""
        change = self._under_way
        if change is None or hello.change != change.order.change or change.part not in (Part.TAKER, Part.HEIR):
            undone = self.failure if hello.change == self.change else ""
            return self._turned_away(link, hello, undone or f"change {hello.change} is not under way here")
        expected = change.others.get(hello.gpu)
        there = hello.gpu in change.down or hello.gpu in self._down
        if expected is None or expected.epoch != hello.epoch or there:
            return self._turned_away(link, hello, f"GPU {hello.gpu} of epoch {hello.epoch} is not expected")
        change.down[hello.gpu] = link
        if self.state is MemberState.CHANGING and not self._missing(change):
            change.deadline = change.ends
        return self._advanced()

    def heard(self, link: int, message: Join) -> list[Act]:
        """Take a message from a link, other than a hello or a part."""
        change = self._under_way
        if message.kind is JoinKind.BEAT:
            return self._followed(message.span) if link == self._up else []
        if change is None or message.change != change.order.change:
            return []
        if message.kind is JoinKind.FAILED:
            return self._failed(message.failure)
        if message.kind is JoinKind.DONE:
            return self._done(change, link, message)
        (change.given if message.kind is JoinKind.GIVEN else change.received).add(link)
        return self._advanced()

    def lost(self, link: int) -> list[Act]:
        """Note that a link has ended, or is silent."""
        change = self._under_way
        if link in self._leaving:
            return [End(*self._leaving.pop(link))]
        if link == self._up:
            return self._alone("who serves its GPU is lost")
        for gpu, known in self._down.items():
            if known == link:
                return self._alone(f"the replica of GPU {gpu} is lost")
        if change is not None:
            if link == change.up:
                return self._failed(f"the replica of GPU {change.after.start} is lost")
            for gpu, known in change.down.items():
                if known == link:
                    return self._failed(f"the replica of GPU {gpu} is lost")
        return []

    def rested(self) -> list[Act]:
        """Note that no step runs at the engine, and what can be moved beside steps is moved."""
        change = self._under_way
        if change is None:
            return []
        change.rested = True
        return self._advanced()

    def dealt(self) -> list[Act]:
        """Note that all that was to be given is dealt out and on its way."""
        change = self._under_way
        if change is None:
            return []
        change.sent = True
        return self._advanced()

    def unable(self, failure: str) -> list[Act]:
        """Note that the engine has not done what it should."""
        return self._failed(failure) if self._under_way is not None else self._alone(failure)

    def drain(self) -> list[Act]:
        """Take no more orders, and undo a change that can be undone."""
        self.draining = True
        return self._failed("the replica is draining") if self._free_to_fail() else []

    def tick(self, now: float) -> list[Act]:
        """Undo a change that has taken too long."""
        change = self._under_way
        if change is None or now < change.deadline:
            return []
        waited = f"{change.order.timeout_ms} ms"
        if self.state is MemberState.PREPARED:
            return self._failed(f"no order came for {waited} after it was prepared")
        if now < change.ends:
            return self._failed(f"the replica of GPU {min(self._missing(change))} has not begun in time")
        failure = f"change {change.order.change} was not done within {waited}"
        if change.sent and change.part is Part.HEIR:
            # It cannot know what became of the dealer's GPUs but by leaving them.
            return self._alone(failure)
        return self._failed(failure)

    def _prepare(self, order: ReshapeOrder, now: float) -> list[Act]:
        change = self._under_way
        if change is not None:
            asked = change.order
            again = msgspec.structs.replace(asked, phase=order.phase, timeout_ms=order.timeout_ms) == order
            return [Tell()] if again else [Refuse(order.change, f"change {change.order.change} is under way")]
        if order.change <= self.change:
            return [Refuse(order.change, f"change {order.change} is not newer than {self.change}")]
        self.change = order.change
        self.failure = self._problem_with(order)
        if self.failure:
            return [Tell()]
        self._under_way = self._planned(order, now)
        self.state = MemberState.PREPARED
        # A change begins where none is under way: those that it has dealt something out to serve by now.
        leaving, self._leaving = self._leaving, {}
        return [*(End(*ended) for ended in leaving.values()), Tell()]

    def _problem_with(self, order: ReshapeOrder) -> str:
        own = self.place.span
        problem = problem_with(order, self.place.gpus)
        if problem:
            return problem
        me = next((one for one in order.participants if one.gpu == own.start), None)
        if me is None:
            return f"{described(own)} is no participant's"
        if me.epoch != self.place.epoch:
            return f"the order is for epoch {me.epoch} at GPU {own.start}, which has {self.place.epoch}"
        if self.draining:
            return "the replica is draining"
        before, after = span_of(own.start, order.before), span_of(own.start, order.after)
        if before != self.span:
            verb = "is parked on" if self.served_by else "serves"
            return f"the replica {verb} {described(self.span)}, not {described(before)}"
        if not after.covers(own):
            return f"the process has {described(own)}, and {described(after)} cannot do without the others"
        left_out = self._down.keys() - {one.gpu for one in order.participants}
        if left_out:
            return f"the replica of GPU {min(left_out)}, parked here, is no participant"
        if self.served_by:
            return self._problem_of((after.width,))
        return self._problem_of(tuple(span.width for span in order.after if before.covers(span) or span.covers(before)))

    def _planned(self, order: ReshapeOrder, now: float) -> _Change:
        gpu = self.place.span.start
        before, after = span_of(gpu, order.before), span_of(gpu, order.after)
        others = {one.gpu: one for one in order.participants if one.gpu != gpu and after.start <= one.gpu < after.end}
        if len(order.after) == 1:
            part = Part.TAKER if gpu == after.start else Part.RIDER if self.served_by else Part.GIVER
        else:
            part = Part.DEALER if not self.served_by else Part.HEIR if gpu == after.start else Part.RIDER
        if part in (Part.GIVER, Part.RIDER):
            others = {after.start: others[after.start]}
        return _Change(order, before, after, part, others, now + order.timeout_ms / 1000)

    def _transform(self, order: ReshapeOrder, now: float) -> list[Act]:
        change = self._under_way
        if change is None or change.order.change != order.change:
            done = order.change == self.change and not self.failure and change is None
            return [Tell()] if done else [Refuse(order.change, f"change {order.change} is not prepared here")]
        if self.state is MemberState.CHANGING:
            return [Tell()]
        self.state = MemberState.CHANGING
        others_begin = now + change.order.timeout_ms / 1000
        change.order = msgspec.structs.replace(change.order, timeout_ms=order.timeout_ms)
        # Who does not decide waits longer than who does.
        waits = 1 if change.part in (Part.TAKER, Part.DEALER) else 2
        change.ends = change.deadline = now + waits * change.order.timeout_ms / 1000
        if change.part is Part.TAKER and self._missing(change):
            # Of those that begin it hears by a link; one that gives its change up before that says so to nobody.
            change.deadline = min(change.ends, others_begin)
        acts: list[Act] = [Tell()]
        if change.part in (Part.GIVER, Part.RIDER) and change.after.start != (
            self.span.start if self.served_by else -1
        ):
            change.up = self.new_link()
            acts += [Open(change.up, change.others[change.after.start].address), Send(change.up, self._hello(order))]
        if change.part in (Part.TAKER, Part.GIVER, Part.DEALER):
            acts.append(Reach(change.after.width))
        return acts + self._advanced()

    def _abort(self, order: ReshapeOrder) -> list[Act]:
        change = self._under_way
        if change is not None and change.order.change == order.change:
            return self._failed("it was aborted") if self._free_to_fail() else []
        if change is not None or order.change < self.change:
            return [Refuse(order.change, f"change {order.change} is not under way here")]
        if order.change > self.change:
            self.change, self.failure = order.change, "it was aborted before it was prepared here"
        return [Tell()]

    def _free_to_fail(self) -> bool:
        """Whether it may undo the change by itself: nobody else decides about it."""
        change = self._under_way
        if change is None:
            return False
        decides = change.part in (Part.TAKER, Part.DEALER) or (change.part is not Part.RIDER and not change.sent)
        return self.state is MemberState.PREPARED or decides

    def _advanced(self) -> list[Act]:
        """Do the next part of the change, if what it needs is there."""
        change = self._under_way
        if change is None or self.state is not MemberState.CHANGING:
            return []
        all_here = not self._missing(change)
        if change.part is Part.TAKER and change.rested and all_here:
            givers = {change.down[span.start] for span in change.order.before if span.start != change.after.start}
            if givers <= change.given:
                return self._taken(change, tuple(sorted(givers)))
        if change.part is Part.GIVER and change.rested and not change.deals and change.up is not None:
            change.deals = True
            return [Give((change.after.width,), {0: change.up})]
        if change.part is Part.HEIR and not change.sent and self._up in change.given and all_here:
            change.sent = True
            assert self._up is not None
            return [self._said(self._up, JoinKind.RECEIVED, change)]
        if change.part is Part.DEALER and change.rested:
            heirs = self._heirs(change)
            if not change.deals:
                change.deals = True
                return [Give(tuple(span.width for span in change.order.after), heirs)]
            if change.sent and set(heirs.values()) <= change.received:
                return self._dealt(change)
        return []

    def _missing(self, change: _Change) -> set[int]:
        """The GPUs of those that will be parked on its own, or are, and have no link to it."""
        return change.others.keys() - change.down.keys() - self._down.keys()

    def _heirs(self, change: _Change) -> Mapping[int, int]:
        """The links of those that shall serve in the dealer's place, by the places of their spans."""
        own = self.place.span.start
        return {at: self._down[span.start] for at, span in enumerate(change.order.after) if span.start != own}

    def _taken(self, change: _Change, givers: tuple[int, ...]) -> list[Act]:
        """Decide that a merge is done."""
        self._down = {gpu: change.down.get(gpu, self._down.get(gpu, 0)) for gpu in change.others}
        return [Become(change.after.width, keeps_all=True, take=givers), *self._serves(change)]

    def _dealt(self, change: _Change) -> list[Act]:
        """Decide that a split is done."""
        order, own, there = change.order, self.place.span.start, self._down
        epochs = {one.gpu: one.epoch for one in order.participants}
        self._leaving = {link: (at, epochs[order.after[at].start]) for at, link in self._heirs(change).items()}
        keep = next(at for at, span in enumerate(order.after) if span.start == own)
        self._down = {gpu: link for gpu, link in there.items() if gpu in change.others}
        serves = self._serves(change)
        # Those that will be parked on another's GPUs hear it from that one.
        heirs = [self._said(link, JoinKind.DONE, change) for link in self._leaving]
        return [Become(change.after.width, keep), *serves, *heirs]

    def _serves(self, change: _Change) -> list[Act]:
        """Serve the span after a change, and say so to all that are parked on it."""
        self._under_way = None
        self.state, self.span, self.served_by, self._up = MemberState.SERVING, change.after, 0, None
        return [Tell(), *(self._said(link, JoinKind.DONE, change) for link in self._down.values())]

    def _done(self, change: _Change, link: int, message: Join) -> list[Act]:
        """Follow the decision of who serves its GPU, or shall."""
        if link != (self._up if change.up is None else change.up):
            return []
        if change.part is Part.HEIR:
            if not change.sent or link != self._up:
                return self._alone(f"change {self.change} is said to be done, and is not")
            self._down = change.down
            return [Become(change.after.width, take=(link,)), *self._serves(change), Close(link)]
        giver = change.part is Part.GIVER
        if message.span != change.after or (giver and not change.sent):
            failure = f"change {self.change} is said to be done, and is not"
            return self._alone(failure) if link == self._up else self._failed(failure)
        server = change.others[change.after.start].epoch
        acts: list[Act] = [Become(0), End(None, server)] if giver else []
        if self._up is not None and link != self._up:
            acts.append(Close(self._up))
        self._under_way = None
        self._up, self._down = link, {}
        self.state, self.span, self.served_by = MemberState.PARKED, change.after, server
        return [*acts, Tell()]

    def _followed(self, span: Span) -> list[Act]:
        """Be parked on what the server of its GPU says to serve, whatever it was told of changes."""
        if self._under_way is not None and self._under_way.up is not None:
            # The change may be done, which whoever shall serve its GPU says.
            return []
        if not span.covers(self.place.span):
            return self._alone(f"who serves its GPU says to serve {described(span)} only")
        if span == self.span or self._under_way is not None:
            return []
        self.span = span
        return [Tell()]

    def _failed(self, failure: str) -> list[Act]:
        """Undo the change under way, here and at all that are told of it."""
        change = self._under_way
        if change is None:
            return []
        self._under_way = None
        self.failure = failure
        message = Join(JoinKind.FAILED, change.order.change, self.span, failure=failure)
        acts: list[Act] = []
        for link in (*change.down.values(), *(() if change.up is None else (change.up,))):
            acts += [Send(link, message), Close(link)]
        acts += [Send(link, message) for link in self._down.values()]
        if self._up is not None:
            acts.append(Send(self._up, message))
        if self.state is MemberState.CHANGING and not self.served_by:
            acts.append(Resume())
        self.state = MemberState.PARKED if self.served_by else MemberState.SERVING
        return [*acts, Tell()]

    def _alone(self, failure: str) -> list[Act]:
        """Serve the GPUs that it started with, as every other replica of the wide one does."""
        change = self._under_way
        links = [*self._down.values(), *(() if self._up is None else (self._up,))]
        if change is not None:
            links += [*change.down.values(), *(() if change.up is None else (change.up,))]
        self._under_way, self._up, self._down = None, None, {}
        self.state, self.span, self.served_by, self.failure = MemberState.SERVING, self.place.span, 0, failure
        return [*(Close(link) for link in links), Reset(self.span.width), Tell()]

    def _turned_away(self, link: int, hello: Join, failure: str) -> list[Act]:
        return [Send(link, Join(JoinKind.FAILED, hello.change, self.span, failure=failure)), Close(link)]

    def _hello(self, order: ReshapeOrder) -> Join:
        place = self.place
        return Join(JoinKind.HELLO, order.change, self.span, place.group, place.span.start, place.epoch)

    def _said(self, link: int, kind: JoinKind, change: _Change) -> Send:
        return Send(link, Join(kind, change.order.change, self.span))
