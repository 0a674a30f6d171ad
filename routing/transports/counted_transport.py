"""Transports to engines that do not report their load: it is what this worker sent there, or what was scraped.

Each request is a call of its own. Health checks find out whether the replica can be reached.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from protos.errors import PenstockError, ReplicaUnavailable
from protos.types import Load, ReplicaInfo, Submit
from routing.contracts.transport import Leg, Receiver
from routing.health.probe import PROBE, Probe, TokenProbe
from routing.transports.mailbox import Mailbox
from routing.transports.mismatch import mismatch
from routing.transports.replica_connection import ReplicaConnection, TransportContext
from routing.transports.replica_spec import ReplicaSpec

log = logging.getLogger(__name__)

#: Seconds between health checks, and the timeout of one.
CHECK_SECONDS: Final = 1.0
CHECK_TIMEOUT_SECONDS: Final = 5.0
#: Longest interval in seconds: a replica that cannot be reached is checked less and less often.
LAST_RETRY_SECONDS: Final = 5.0


class Unreachable(Exception):
    """A health check failed; `refused`: what answered is not what the configuration names."""

    def __init__(self, problem: str, *, refused: bool = False) -> None:
        super().__init__(problem)
        self.problem = problem
        self.refused = refused


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a health check. `load` is the engine's own over all its users; None: it does not report one."""

    info: ReplicaInfo
    load: Load | None = None


@dataclass(slots=True)
class Flight:
    """One request at the replica: its cancel function and its share of the counts."""

    cancel: Callable[[], None]
    sequences: int
    kv_tokens: int
    compute_tokens: int
    started: bool = False
    reported: bool = False
    gone: bool = False


class CountedConnection(ReplicaConnection):
    """Base of these transports; subclasses implement the sending of a request, and note what health checks find."""

    def __init__(self, spec: ReplicaSpec, context: TransportContext) -> None:
        super().__init__(spec, context)
        self._flights: dict[Mailbox, Flight] = {}
        self._reached = False
        self._scraped: Load | None = None
        # Sums over the flights: of all, of those whose prompt is not computed, of those that no scraped load includes.
        self._sequences = self._tokens = self._prefill = 0
        self._sent = self._sent_prompt = self._sent_kv = 0

    @abstractmethod
    def _send(self, submit: Submit, mailbox: Mailbox) -> Callable[[], None]:
        """Begin to send a request; return its cancel function, called at most once and never after its end.

        Events go to the mailbox at once: `start`, then tokens into its `sink` (numbered from `-mailbox.base`) or
        `relay`; then `finish` for each sequence from number 0 on, or `_lost` when nothing more can come.
        """

    @property
    def connected(self) -> bool:
        """Whether the last health check succeeded."""
        return self._reached

    @property
    def in_flight(self) -> int:
        return self._sequences

    def open(
        self,
        submit: Submit,
        kv_tokens: int | None = None,
        compute_tokens: int | None = None,
        receiver: Receiver | None = None,
    ) -> Leg:
        if not self._reached:
            raise ReplicaUnavailable("The replica is not connected.")
        n, prompt = submit.sampling.n, len(submit.prompt_ids)
        if submit.delta_interval > 1:
            # A whole answer does not show when its prompt has been computed.
            compute_tokens = 0
        mailbox = Mailbox(0, n, self._detach, asyncio.get_running_loop(), receiver)
        flight = Flight(
            _no_call,
            n,
            prompt + n * submit.max_tokens if kv_tokens is None else kv_tokens,
            prompt if compute_tokens is None else compute_tokens,
        )
        self._flights[mailbox] = flight
        self._count(flight, 1)
        flight.cancel = self._send(submit, mailbox)
        self._refresh_view()
        return mailbox

    def fail_streams(self, error: PenstockError) -> None:
        for mailbox in list(self._flights):
            mailbox.fail(error)

    async def aclose(self) -> None:
        self._closing = True
        self.fail_streams(ReplicaUnavailable("The connection to the replica was closed."))
        await super().aclose()

    def _ask(self) -> Probe | None:
        try:
            return TokenProbe(self.open(PROBE))
        except ReplicaUnavailable:
            return None

    def _started(self, mailbox: Mailbox, cached_tokens: int) -> None:
        """Note that a request's prompt has been computed; subclasses call this instead of `mailbox.start`."""
        flight = self._flights.get(mailbox)
        if flight is not None and not flight.started:
            self._prefill -= flight.compute_tokens
            flight.started = True
            self._refresh_view()
        mailbox.start(cached_tokens)

    def _lost(self, mailbox: Mailbox, error: PenstockError) -> None:
        """Note that nothing more can come of a request; subclasses call this instead of `mailbox.cut`."""
        if mailbox in self._flights:
            self._detach(mailbox, cancel=False)
        mailbox.cut(error)

    def _alive(self) -> None:
        """Note a sign of the engine's progress."""
        self.health.progress.renew()

    def _detach(self, mailbox: Mailbox, cancel: bool) -> None:
        flight = self._flights.pop(mailbox)
        self._count(flight, -1)
        flight.gone = True
        self._refresh_view()
        self._listener.loaded()
        if cancel:
            flight.cancel()

    def _count(self, flight: Flight, sign: int) -> None:
        self._sequences += sign * flight.sequences
        self._tokens += sign * flight.kv_tokens
        if not flight.started:
            self._prefill += sign * flight.compute_tokens
        if not flight.reported:
            self._sent += sign * flight.sequences
            self._sent_prompt += sign * flight.compute_tokens
            self._sent_kv += sign * flight.kv_tokens

    def _check_passed(self, result: CheckResult, before: list[Flight]) -> None:
        problem = mismatch(self.spec, result.info)
        if problem:
            self._check_failed(Unreachable(problem, refused=True))
            return
        self._note_description(result.info)
        self._scraped = result.load
        if result.load is not None:
            for flight in before:
                if not flight.reported:
                    flight.reported = True
                    if not flight.gone:
                        self._sent -= flight.sequences
                        self._sent_prompt -= flight.compute_tokens
                        self._sent_kv -= flight.kv_tokens
        self._refresh_view()
        if not self._reached:
            self._reached = True
            self._became_reachable()
        self._listener.loaded()

    def _check_failed(self, error: Unreachable | TimeoutError) -> None:
        problem = error.problem if isinstance(error, Unreachable) else f"no answer within {CHECK_TIMEOUT_SECONDS:g} s"
        refused = isinstance(error, Unreachable) and error.refused
        if not self._reached:
            self.health.away(problem, refused=refused)
            return
        # Open requests may still be answered; they end by themselves if not.
        self._reached = False
        self._became_unreachable(problem)
        if refused:
            self.health.away(problem, refused=True)

    def _refresh_view(self) -> None:
        """Rebuild the view."""
        load, info = self._scraped, self.info
        if load is None:
            load = Load(
                running=self._sequences,
                tokens_in_flight=self._tokens,
                prefill_tokens=self._prefill,
                workers=1,
            )
            sent = sent_prompt = sent_kv = 0
        else:
            sent, sent_prompt, sent_kv = self._sent, self._sent_prompt, self._sent_kv
        self._view = msgspec.structs.replace(
            self._view,
            load=load,
            sent=sent,
            sent_prompt_tokens=sent_prompt,
            sent_kv_tokens=sent_kv,
            max_batch_size=info.max_batch_size if info else 0,
            max_num_tokens=info.max_num_tokens if info else 0,
            kv_block_tokens=info.kv_block_tokens if info else 0,
            features=self.features,
        )


def _no_call() -> None:
    """Cancel nothing: the request has not been sent yet."""
