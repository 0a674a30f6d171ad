"""The outbox of a session: deltas merge per stream while the wire is busy, so that it stays bounded."""

from protos.codec import Step
from protos.types import Finish, Load, TokenLogprobs, Work
from replicas.kv_events import KvFeed

#: Most tokens of one stream in a step with logprobs, which are a hundred times their size: the acknowledgement window
#: is counted in steps and must not amount to megabytes.
MAX_LOGPROB_RUN = 32


class Outbox:
    """Merges engine output between two writes: at most one entry per stream, whatever the number of steps."""

    def __init__(self, kv: KvFeed | None = None) -> None:
        """`kv` has the KV updates for the session, if it subscribed to them."""
        self._tokens: dict[int, list[int]] = {}
        self._logprobs: dict[int, list[TokenLogprobs]] = {}
        self._finishes: list[tuple[int, Finish]] = []
        self._starts: list[tuple[int, int]] = []
        self._seq = 0
        self.kv = kv
        self.load: Load | None = None
        #: Work of the last engine step, until it is sent together with the load.
        self.work: Work | None = None
        #: Loaded LoRA adapters, until they are sent with the next message.
        self.adapters: tuple[str, ...] | None = None
        #: Sequences submitted on the session that `load` includes.
        self.submits_seen = 0

    def __bool__(self) -> bool:
        return bool(self._tokens or self._finishes or self.kv or self.load is not None)

    def add_tokens(self, stream_id: int, token_ids: list[int], logprobs: list[TokenLogprobs] | None) -> None:
        """Append tokens to a stream. The outbox keeps `token_ids` and may extend it."""
        pending = self._tokens.get(stream_id)
        if pending is None:
            self._tokens[stream_id] = token_ids
        else:
            pending.extend(token_ids)
        if logprobs is not None:
            self._logprobs.setdefault(stream_id, []).extend(logprobs)

    def add_start(self, stream_id: int, cached_tokens: int) -> None:
        """Note that a stream's prompt has been computed, `cached_tokens` of it cached; sent with the next message."""
        self._starts.append((stream_id, cached_tokens))

    def add_finish(self, stream_id: int, finish: Finish) -> None:
        """Add the stream's end, sent together with its last tokens."""
        self._finishes.append((stream_id, finish))

    def take(self, time_us: int) -> Step:
        """Return all buffered output as the session's next step."""
        self._seq += 1
        rest = self._cut_logprobs() if self._logprobs else {}
        stream_ids = list(self._tokens)
        runs = list(self._tokens.values())
        if all(len(run) == 1 for run in runs):
            counts: list[int] = []
            tokens = [run[0] for run in runs]
        else:
            counts = [len(run) for run in runs]
            tokens = [token for run in runs for token in run]
        logprobs = {}
        if self._logprobs:
            logprobs = {i: self._logprobs[sid] for i, sid in enumerate(stream_ids) if sid in self._logprobs}
        finishes = [entry for entry in self._finishes if entry[0] not in rest]
        step = Step(
            seq=self._seq,
            time_us=time_us,
            stream_ids=stream_ids,
            counts=counts,
            tokens=tokens,
            logprobs=logprobs,
            finishes=finishes,
            load=self.load,
            kv_update=self.kv.take() if self.kv else None,
            starts=self._starts,
            submits_seen=self.submits_seen if self.load is not None else 0,
            work=self.work,
            adapters=self.adapters,
        )
        self._finishes = [entry for entry in self._finishes if entry[0] in rest]
        self._tokens = {stream_id: run for stream_id, (run, _) in rest.items()}
        self._logprobs = {stream_id: entries for stream_id, (_, entries) in rest.items()}
        self._starts, self.load, self.work, self.adapters = [], None, None, None
        return step

    def _cut_logprobs(self) -> dict[int, tuple[list[int], list[TokenLogprobs]]]:
        """Cut each stream with logprobs to MAX_LOGPROB_RUN tokens; return the rest, for a later step."""
        rest = {}
        for stream_id, entries in self._logprobs.items():
            if len(entries) > MAX_LOGPROB_RUN:
                run = self._tokens[stream_id]
                rest[stream_id] = (run[MAX_LOGPROB_RUN:], entries[MAX_LOGPROB_RUN:])
                del run[MAX_LOGPROB_RUN:], entries[MAX_LOGPROB_RUN:]
        return rest
