"""A replica as a member of its host group: carries out what replicas/reshape/member.py decides."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Protocol

import grpc.aio
import msgspec

from protos import codec
from protos.join import Join, JoinKind, decode_join
from protos.pem import PemError
from protos.protocol_error import ProtocolError
from protos.reshape import Membership, ReshapeOrder, Span
from protos.types import Failure, ReplicaInfo
from replicas.groups.link import Link, open_link
from replicas.reshape.acts import Act, Become, Close, End, Give, Open, Reach, Refuse, Reset, Resume, Send, Tell
from replicas.reshape.member import Member, Place
from replicas.reshape.reshapable import AtRest, Opened, Reshapable, Share

log = logging.getLogger(__name__)

#: Seconds within which a new link must send its hello.
_HELLO_SECONDS: Final = 5.0


class GroupOptions(msgspec.Struct, frozen=True):
    """A replica's host group of `gpus` GPUs, and the `span` of it with which it starts.

    Without an `engine` that can change its shape, orders to do so are refused. `credentials` are made for each link.
    """

    group: str
    gpus: int
    span: Span
    engine: Reshapable | None
    credentials: Callable[[], grpc.ChannelCredentials | None] = lambda: None


class Host(Protocol):
    """The replica server, as its member sees it."""

    @property
    def info(self) -> ReplicaInfo:
        """The engine's description now."""
        ...

    def announce(self, membership: bytes) -> None:
        """Send an encoded membership on all sessions, before anything else."""
        ...

    def take_requests(self, refusal: Failure | None) -> None:
        """Take requests from now on, or refuse them so."""
        ...

    def end(self, handles: Collection[int] | None, failure: Failure) -> None:
        """End requests (None: all) that the engine has dropped."""
        ...


#: Takes an encoded membership for one session.
Answer = Callable[[bytes], None]


class GroupMember:
    """One replica's member, the links to others, and the engine's change under way."""

    def __init__(self, options: GroupOptions, epoch: int, host: Host) -> None:
        self._engine, self._host, self._credentials = options.engine, host, options.credentials
        self._member = Member(Place(options.group, options.gpus, options.span, epoch), self._problem_of)
        self._revision = 0
        self._links: dict[int, Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._moving: asyncio.Task[None] | None = None  # has the engine reach a width, or deal out what it has
        self._rest: AtRest | None = None
        self._shares: list[Share] = []
        self._opened: dict[int, list[Opened]] = {}  # parts that have come over links, for the change under way
        self._gone: dict[int, Collection[int]] = {}  # dealt out, until who has them serves: place -> handles
        self._timer: asyncio.TimerHandle | None = None

    @property
    def parked(self) -> bool:
        """Whether its GPU belongs to another replica."""
        return bool(self._member.served_by)

    def membership(self) -> Membership:
        """Return how it stands, as the next one of its memberships."""
        member, self._revision = self._member, self._revision + 1
        return Membership(
            member.place.group,
            member.place.gpus,
            member.place.span.start,
            member.state,
            member.span,
            self._host.info,
            member.change,
            member.failure,
            member.served_by,
            self._engine.widths if self._engine is not None else (),
            self._revision,
        )

    def order(self, order: ReshapeOrder, answer: Answer) -> None:
        """Follow an order; `answer` is for what only the sender shall hear."""
        self._do(self._member.order(order, self._now()), answer)

    def drain(self) -> None:
        """Take no more orders."""
        self._do(self._member.drain())

    async def join(self, messages: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        """Serve a link that another replica opens."""
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                first = await context.read()
            hello = None if first is grpc.aio.EOF else decode_join(first)
        except (TimeoutError, ProtocolError):
            hello = None
        if hello is None or hello.kind is not JoinKind.HELLO or hello.group != self._member.place.group:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"a link begins with a hello of group {self._member.place.group}"
            )
        number = self._member.new_link()
        link = self._new_link(number)
        self._do(self._member.joined(number, hello))
        try:
            await link.run(context.read, context.write)
        finally:
            self._lost(number)

    async def close(self) -> None:
        """End all links."""
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._tasks, *(() if self._moving is None else (self._moving,))]
        self._links.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _problem_of(self, widths: Sequence[int]) -> str:
        if self._engine is None:
            return f"the engine {self._host.info.engine} cannot change its shape while it serves"
        return self._engine.problem_of(widths)

    def _do(self, acts: Sequence[Act], answer: Answer | None = None) -> None:
        """Carry acts out in order. What comes of one that fails takes the place of the rest."""
        for act in acts:
            further = self._one(act, answer)
            if further:
                self._do(further)
                break
        self._watch()

    def _one(self, act: Act, answer: Answer | None) -> Sequence[Act]:
        if isinstance(act, Tell):
            self._tell()
        elif isinstance(act, Refuse):
            if answer is not None:
                refused = msgspec.structs.replace(self.membership(), change=act.change, failure=act.failure)
                answer(codec.encode_membership(refused))
        elif isinstance(act, Open):
            self._open(act)
        elif isinstance(act, Close):
            self._links.pop(act.link).close() if act.link in self._links else None
        elif isinstance(act, Send):
            self._send(act.link, act.message)
        elif isinstance(act, Reach):
            self._moving = asyncio.create_task(self._reach(act.width))
        elif isinstance(act, Give):
            self._moving = asyncio.create_task(self._give(act))
        elif isinstance(act, Resume):
            self._stop_moving(resume=True)
        elif isinstance(act, Become):
            return self._become(act)
        elif isinstance(act, End):
            handles = None if act.place is None else self._gone.pop(act.place, ())
            self._host.end(handles, Failure("moved", "its KV cache is at another replica now", moved_to=act.epoch))
        else:
            return self._reset(act)
        return ()

    def _tell(self) -> None:
        membership = self.membership()
        log.info("%s", _described(membership))
        self._host.announce(codec.encode_membership(membership))

    def _open(self, act: Open) -> None:
        link = self._new_link(act.link)

        async def run() -> None:
            try:
                await open_link(link, act.address, self._credentials())
            except (grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError, PemError) as error:
                log.warning("the link to %s is lost: %s", act.address, error)
            finally:
                self._lost(act.link)

        self._start(run())

    def _new_link(self, number: int) -> Link:
        def beat() -> Join:
            return Join(JoinKind.BEAT, span=self._member.span)

        link = Link(beat, lambda message: self._hear(number, message))
        self._links[number] = link
        return link

    def _lost(self, number: int) -> None:
        # Without what has been closed here, or taken over.
        if self._links.pop(number, None) is not None:
            self._do(self._member.lost(number))

    def _hear(self, link: int, message: Join) -> None:
        if message.kind is not JoinKind.PART:
            self._do(self._member.heard(link, message))
        elif self._engine is not None and self._member.due is not None and message.change == self._member.change:
            # Each is read as it comes, which leaves little to do once the change is decided.
            try:
                self._opened.setdefault(link, []).append(self._engine.opened(message.part))
            except ValueError as error:
                self._do(self._member.unable(f"the engine has failed: {error}"))

    async def _reach(self, width: int) -> None:
        assert self._engine is not None
        try:
            self._rest = await self._engine.reach(width)
        except Exception as error:
            log.exception("the engine cannot change to TP%d", width)
            self._moving = None
            self._do(self._member.unable(f"the engine has failed: {error}"))
            return
        self._moving = None
        self._do(self._member.rested())

    def _stop_moving(self, *, resume: bool) -> None:
        if self._moving is not None:
            self._moving.cancel()
            self._moving = None
        if self._rest is not None and resume:
            self._rest.resume()
        self._rest, self._shares = None, []

    async def _give(self, act: Give) -> None:
        assert self._rest is not None
        change = self._member.change
        own = [place for place in range(len(act.widths)) if place not in act.links]
        try:
            self._shares = await self._rest.deal(act.widths, own[0] if own else None)
        except Exception as error:
            refused = isinstance(error, ValueError)
            if not refused:
                log.exception("the engine cannot deal out what it has")
            self._moving = None
            self._do(self._member.unable(f"{'memory' if refused else 'the engine has failed'}: {error}"))
            return
        for place, number in act.links.items():
            for part in self._shares[place].parts:
                self._send(number, Join(JoinKind.PART, change, part=part))
            self._send(number, Join(JoinKind.GIVEN, change, self._member.span))
        self._moving = None
        self._do(self._member.dealt())

    def _send(self, link: int, message: Join) -> None:
        if link in self._links:
            self._links[link].send(message)

    def _become(self, act: Become) -> Sequence[Act]:
        engine, rest, shares = self._engine, self._rest, self._shares
        assert engine is not None
        kept = None if act.keep is None or rest is None else shares[act.keep]
        taken = [part for number in act.take for part in self._opened.pop(number, ())]
        try:
            if rest is None:
                engine.reset(act.width, taken)
            else:
                others = [share for share in shares if share is not kept]
                gone = None if kept is None else frozenset().union(*(share.handles for share in others))
                rest.become(act.width, () if act.keeps_all else gone, taken)
        except Exception as error:
            # Others count on what it should be by now, and leave it once it serves its own GPU.
            log.exception("the engine cannot go on at TP%d", act.width)
            return self._member.unable(f"the engine has failed: {error}")
        self._stop_moving(resume=False)
        self._gone = {} if kept is None else {place: share.handles for place, share in enumerate(shares)}
        if not act.width:
            server = self._member.served_by
            self._host.take_requests(Failure("moved", "its GPU belongs to another replica now", moved_to=server))
            return ()
        self._host.take_requests(None)
        return self._checked(act.width)

    def _reset(self, act: Reset) -> Sequence[Act]:
        self._stop_moving(resume=False)
        if self._engine is not None:
            self._engine.reset(act.width)
        self._host.end(None, Failure("moved", "the replica has lost GPUs, and with them the request's KV cache"))
        self._host.take_requests(None)
        return ()

    def _checked(self, width: int) -> Sequence[Act]:
        is_now = self._host.info.shape.tp
        return () if is_now == width else self._member.unable(f"the engine should be TP{width}, and is TP{is_now}")

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._member.due
        if due is None:
            self._opened.clear()
        loop = asyncio.get_running_loop()
        self._timer = None if due is None else loop.call_at(due, lambda: self._do(self._member.tick(self._now())))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _described(membership: Membership) -> str:
    span = membership.span
    where = f"TP{span.width} from GPU {span.start} of {membership.group}"
    why = f": {membership.failure}" if membership.failure else ""
    return f"{membership.state.value} {where} after change {membership.change}{why}"
