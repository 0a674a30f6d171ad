from hypothesis import given
from hypothesis import strategies as st

from protos import codec
from protos.types import Finish, FinishReason, KvCreated, KvEvent, KvUpdate, Load, TokenLogprobs, Work
from replicas.kv_events import KvLedger
from replicas.outbox import Outbox

DONE = Finish(FinishReason.STOP)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(1, 4), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
            st.sampled_from(["take", "load"]),
        ),
        max_size=40,
    ),
    st.sets(st.integers(1, 4)),
)
def test_merging_loses_repeats_and_reorders_nothing(moves: list[object], with_logprobs: set[int]) -> None:
    outbox, said = Outbox(), dict[int, list[int]]()
    steps: list[codec.Step] = []
    for move in moves:
        if isinstance(move, tuple):
            stream_id, tokens = move
            said.setdefault(stream_id, []).extend(tokens)
            logprobs = [TokenLogprobs(-float(t)) for t in tokens] if stream_id in with_logprobs else None
            outbox.add_tokens(stream_id, list(tokens), logprobs)
        elif move == "load":
            outbox.load = Load(running=1)
        elif outbox:
            steps.append(outbox.take(0))
    for stream_id in said:
        outbox.add_start(stream_id, 3)
        outbox.add_finish(stream_id, DONE)
    steps.append(outbox.take(0))
    assert not outbox

    heard, finished = dict[int, list[int]](), list[int]()
    for step in steps:
        # What a step says is whole: it survives the wire, where counts and positions are checked.
        decoded = codec.decode_down(codec.encode_step(step))
        assert isinstance(decoded, codec.Step)
        assert len(set(decoded.stream_ids)) == len(decoded.stream_ids)
        at = 0
        for position, stream_id in enumerate(decoded.stream_ids):
            count = decoded.counts[position] if decoded.counts else 1
            run = list(decoded.tokens[at : at + count])
            heard.setdefault(stream_id, []).extend(run)
            entries = decoded.logprobs.get(position)
            assert (entries is not None) == (stream_id in with_logprobs)
            assert entries is None or [entry.chosen for entry in entries] == [-t for t in run]
            at += count
        finished += [stream_id for stream_id, _ in decoded.finishes]
    assert heard == said
    assert sorted(finished) == sorted(said)
    assert [step.seq for step in steps] == list(range(1, len(steps) + 1))
    assert steps[-1].starts == [(stream_id, 3) for stream_id in said]


def test_one_token_a_stream_needs_no_counts() -> None:
    outbox = Outbox()
    for stream_id in (3, 1, 2):
        outbox.add_tokens(stream_id, [stream_id * 10], None)
    step = outbox.take(7)
    assert (step.time_us, step.stream_ids, step.counts, step.tokens) == (7, [3, 1, 2], [], [30, 10, 20])


def test_what_a_load_knows_of_goes_with_it_and_with_nothing_else() -> None:
    outbox = Outbox()
    outbox.submits_seen = 5
    outbox.add_finish(1, DONE)
    assert outbox.take(0).submits_seen == 0
    outbox.load = Load()
    assert outbox.take(0).submits_seen == 5


def test_a_start_alone_is_no_reason_to_send() -> None:
    outbox = Outbox()
    outbox.add_start(1, 0)
    assert not outbox
    outbox.load = Load()
    assert outbox.take(0).starts == [(1, 0)]


def test_an_outbox_is_true_exactly_when_it_has_something_to_say() -> None:
    outbox = Outbox()
    assert not outbox
    outbox.load = Load()
    assert outbox
    outbox.take(0)
    assert not outbox
    outbox.add_finish(1, DONE)
    assert outbox
    outbox.take(0)
    assert not outbox


def test_what_a_feed_has_to_tell_goes_along() -> None:
    ledger = KvLedger(4, 10)
    outbox = Outbox(ledger.subscribe())
    assert not outbox
    ledger.take([KvEvent(0, KvCreated((10,)))])
    assert outbox
    assert outbox.take(0).kv_update == KvUpdate(1, reset=True, stored=[], removed=[])
    assert not outbox
    outbox.load = Load()
    assert outbox.take(0).kv_update is None


def test_work_is_told_once() -> None:
    outbox = Outbox()
    outbox.load, outbox.work = Load(), Work(5)
    assert outbox.take(0).work == Work(5)
    outbox.load = Load()
    assert outbox.take(0).work is None
