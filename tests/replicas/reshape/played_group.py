"""A host group in which a test decides what happens next: what is delivered, lost, killed, late."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from protos.join import Join, JoinKind
from protos.reshape import MemberState, Participant, ReshapeOrder, ReshapePhase, Span
from replicas.reshape.acts import Act, Become, Close, End, Give, Open, Reach, Refuse, Reset, Resume, Send, Tell
from replicas.reshape.host_group import problem_of
from replicas.reshape.member import Member, Place

GROUP = "g"


class Process:
    """One life of a replica: its member, and an engine that is no more than what runs on it."""

    def __init__(self, gpu: int, gpus: int, epoch: int) -> None:
        self.gpu, self.epoch, self.width = gpu, epoch, 1
        self.member = Member(Place(GROUP, gpus, Span(gpu, 1), epoch), lambda widths: "")
        self.running: set[str] = set()
        self.reaching = self.resting = False
        #: What is to be dealt out.
        self.dealing: Give | None = None
        self.dealt: list[set[str]] = []
        self.gone: dict[int, set[str]] = {}
        #: Its links, by its number of them -> the process at the other end, and that one's number.
        self.links: dict[int, tuple[Process, int]] = {}
        #: What comes over a link, by its number; None: its end.
        self.inboxes: dict[int, deque[Join | None]] = {}
        self.given: dict[int, set[str]] = {}
        self.orders: deque[ReshapeOrder] = deque()

    @property
    def sequences(self) -> Iterator[str]:
        yield from self.running
        for gone in self.gone.values():
            yield from gone


class PlayedGroup:
    """All processes of a group, their network, a controller, and the sequences that workers have."""

    def __init__(self, gpus: int = 4, transform_ms: int = 1000) -> None:
        self.transform_ms = transform_ms
        self.gpus, self.now, self.change, self.epochs = gpus, 0.0, 0, gpus
        self.processes = [Process(gpu, gpus, gpu + 1) for gpu in range(gpus)]
        self.limbo: set[str] = set()
        self.order: ReshapeOrder | None = None
        self.refused: list[str] = []

    def events(self) -> list[Callable[[], None]]:
        """All that could happen next without anybody's fault."""
        found: list[Callable[[], None]] = []
        for process in self.processes:
            for link, inbox in process.inboxes.items():
                if inbox:
                    found.append(partial(self.deliver, process, link))
            if process.orders:
                found.append(partial(self.obey, process))
            if process.reaching:
                found.append(partial(self.rest, process))
            if process.dealing is not None:
                found.append(partial(self.deal, process, process.dealing))
        return found

    def deliver(self, process: Process, link: int) -> None:
        message = process.inboxes[link].popleft()
        if message is None:
            self._unlink(process, link)
            self.do(process, process.member.lost(link))
        elif message.kind is JoinKind.HELLO:
            self.do(process, process.member.joined(link, message))
        else:
            self.do(process, process.member.heard(link, message))

    def obey(self, process: Process) -> None:
        self.do(process, process.member.order(process.orders.popleft(), self.now))

    def rest(self, process: Process) -> None:
        process.reaching, process.resting = False, True
        self.do(process, process.member.rested())

    def deal(self, process: Process, act: Give) -> None:
        process.dealing = None
        process.dealt = [set() for _ in act.widths]
        for number, sequence in enumerate(sorted(process.running)):
            process.dealt[number % len(act.widths)].add(sequence)
        for link in act.links.values():
            self._send(process, link, Join(JoinKind.GIVEN, process.member.change, process.member.span))
        self.do(process, process.member.dealt())

    def beat(self) -> None:
        """Every end of every link says that it lives."""
        for process in self.processes:
            for link in process.links:
                self._send(process, link, Join(JoinKind.BEAT, span=process.member.span))

    def wait(self) -> None:
        """Time passes until the next replica has waited for too long."""
        due = [(process.member.due, process.gpu) for process in self.processes if process.member.due is not None]
        if due:
            at, gpu = min(due)
            self.now = max(self.now, at)
            self.do(self.processes[gpu], self.processes[gpu].member.tick(self.now))

    def kill(self, gpu: int) -> None:
        """A process ends, and another one takes its place."""
        old = self.processes[gpu]
        self.limbo.update(old.sequences)
        for peer, link in list(old.links.values()):
            if link in peer.inboxes:
                peer.inboxes[link].append(None)
            peer.links.pop(link, None)
        self.epochs += 1
        self.processes[gpu] = Process(gpu, self.gpus, self.epochs)

    def cut(self, gpu: int) -> None:
        """All links of a process break."""
        process = self.processes[gpu]
        for link, (peer, other) in list(process.links.items()):
            process.inboxes[link].append(None)
            peer.inboxes[other].append(None)
            process.links.pop(link)
            peer.links.pop(other)

    def begin(self, choice: int) -> None:
        """The controller orders a change of what it sees, which may be no more true."""
        served = sorted({process.member.span for process in self.processes if not process.member.served_by})
        changes: list[tuple[tuple[Span, ...], tuple[Span, ...]]] = []
        for width in (w for w in (1, 2, 4, 8) if w <= self.gpus):
            for whole in Span(0, self.gpus).halves(width):
                inside = tuple(span for span in served if whole.covers(span))
                if len(inside) > 1:
                    changes.append((inside, (whole,)))
                if whole in served:
                    changes += [((whole,), whole.halves(part)) for part in (1, 2, 4) if part < width]
        if not changes:
            return
        before, after = changes[choice % len(changes)]
        self.change += 1
        there = [p for p in self.processes if any(s.start <= p.gpu < s.end for s in (*before, *after))]
        participants = tuple(Participant(f"gpu{p.gpu}", p.gpu, p.epoch) for p in there)
        self.order = ReshapeOrder(self.change, ReshapePhase.PREPARE, GROUP, before, after, participants, 1000)
        self.say(ReshapePhase.PREPARE)

    def say(self, phase: ReshapePhase) -> None:
        """The controller sends the next phase to all participants."""
        if self.order is not None:
            timeout = self.transform_ms if phase is ReshapePhase.TRANSFORM else 1000
            order = ReshapeOrder(
                *(self.order.change, phase, GROUP, self.order.before, self.order.after, self.order.participants),
                timeout_ms=timeout,
            )
            for one in self.order.participants:
                self.processes[one.gpu].orders.append(order)

    def forget(self) -> None:
        """The controller dies, and with it what it has not sent."""
        self.order = None
        for process in self.processes:
            process.orders.clear()

    def submit(self, sequence: str, gpu: int) -> None:
        """A worker sends a sequence, which one that is parked does not take."""
        process = self.processes[gpu]
        if process.member.served_by:
            self.limbo.add(sequence)
        else:
            process.running.add(sequence)

    def resubmit(self, gpu: int) -> None:
        """Workers send again what was moved or lost."""
        limbo, self.limbo = self.limbo, set()
        for sequence in limbo:
            self.submit(sequence, gpu)

    def settle(self) -> None:
        """Everything that is under way comes to its end, and nobody orders anything more."""
        self.forget()
        for _ in range(4):
            self.beat()
            for _ in range(10):
                while events := self.events():
                    events[0]()
                self.wait()

    def do(self, process: Process, acts: list[Act]) -> None:
        """Carry acts out, as a group member does."""
        for act in acts:
            self._one(process, act)

    def _one(self, process: Process, act: Act) -> None:
        if isinstance(act, Tell):
            pass
        elif isinstance(act, Refuse):
            self.refused.append(act.failure)
        elif isinstance(act, Open):
            self._open(process, act)
        elif isinstance(act, Close):
            self._close(process, act.link)
        elif isinstance(act, Send):
            self._send(process, act.link, act.message)
        elif isinstance(act, Reach):
            assert not process.member.served_by
            process.reaching = True
        elif isinstance(act, Give):
            assert process.resting
            process.dealing = act
        elif isinstance(act, Resume):
            process.reaching = process.resting = False
            process.dealing = None
        elif isinstance(act, Become):
            self._become(process, act)
        elif isinstance(act, End):
            ended = set(process.sequences) if act.place is None else process.gone.pop(act.place, set())
            self.limbo |= ended
            if act.place is None:
                process.running, process.gone = set(), {}
        else:
            assert isinstance(act, Reset)
            self.limbo.update(process.sequences)
            process.running, process.gone = set(), {}
            process.reaching = process.resting = False
            process.dealing = None
            process.width = act.width

    def _become(self, process: Process, act: Become) -> None:
        parked = process.width == 0
        assert parked or process.resting
        if act.keep is not None:
            process.gone = {at: part & process.running for at, part in enumerate(process.dealt) if at != act.keep}
            process.running -= set().union(*process.gone.values())
        elif act.width:
            # What nobody has ended by now, nobody will.
            process.gone = {}
        process.reaching = process.resting = False
        process.dealing = None
        process.width = act.width

    def _open(self, process: Process, act: Open) -> None:
        peer = self.processes[int(act.address.removeprefix("gpu"))]
        other = peer.member.new_link()
        process.links[act.link], peer.links[other] = (peer, other), (process, act.link)
        process.inboxes[act.link], peer.inboxes[other] = deque(), deque()

    def _send(self, process: Process, link: int, message: Join) -> None:
        if link in process.links:
            peer, other = process.links[link]
            peer.inboxes[other].append(message)

    def _close(self, process: Process, link: int) -> None:
        if link in process.links:
            peer, other = process.links.pop(link)
            peer.links.pop(other, None)
            if other in peer.inboxes:
                peer.inboxes[other].append(None)
        process.inboxes.pop(link, None)

    def _unlink(self, process: Process, link: int) -> None:
        process.inboxes.pop(link, None)
        process.links.pop(link, None)

    def check(self, sequences: set[str]) -> None:
        """Each sequence is in one place, and none where nothing serves."""
        found = [*self.limbo, *(sequence for process in self.processes for sequence in process.sequences)]
        assert sorted(found) == sorted(sequences)
        for process in self.processes:
            member = process.member
            assert process.width == (0 if member.served_by else member.span.width)
            if member.served_by:
                assert not process.running

    def check_settled(self) -> None:
        """The shape is legal, everybody agrees about it, and nothing is under way."""
        serving = {p.epoch: p for p in self.processes if not p.member.served_by}
        assert problem_of([p.member.span for p in serving.values()], self.gpus) == ""
        for process in self.processes:
            member = process.member
            assert member.due is None
            assert not process.reaching
            assert not process.resting
            assert process.dealing is None
            if member.served_by:
                assert member.state is MemberState.PARKED
                assert member.span == serving[member.served_by].member.span
                assert member.span.covers(Span(process.gpu, 1))
            else:
                assert member.state is MemberState.SERVING
                assert member.span.start == process.gpu
