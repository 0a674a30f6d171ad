from hypothesis import given
from hypothesis import strategies as st

from routing.transports.unreported import Unreported

SUBMITS = st.tuples(st.just("submit"), st.integers(1, 4), st.integers(0, 100))
REPORTS = st.tuples(st.just("report"), st.integers(0, 10), st.none())
MISFITS = st.tuples(st.just("unsent"), st.integers(0, 40), st.none())


@given(st.lists(st.one_of(SUBMITS, REPORTS, MISFITS), max_size=60))
def test_what_was_sent_counts_until_a_report_knows_of_it(moves: list[tuple[str, int, int | None]]) -> None:
    unreported = Unreported()
    sent: list[tuple[int, int, int]] = []  # (stream id, sequences, tokens) in order, without those that never left
    seen = 0  # of `sent`, how many submits the last report knew of
    for stream_id, (kind, number, tokens) in enumerate(moves):
        if kind == "submit":
            unreported.add(stream_id, number, tokens or 0, 2 * (tokens or 0))
            sent.append((stream_id, number, tokens or 0))
        elif kind == "report":
            # The replica has received so many submits more, whole ones; sometimes the same report comes twice.
            seen = min(len(sent), seen + number)
            for _ in range(2):
                unreported.reported(sum(sequences for _, sequences, _ in sent[:seen]))
        else:
            unreported.unsent(number)
            sent = [one for k, one in enumerate(sent) if k < seen or one[0] != number]
        left = sent[seen:]
        tokens_left = sum(tokens for _, _, tokens in left)
        assert unreported.sums == (sum(sequences for _, sequences, _ in left), tokens_left, 2 * tokens_left)
    unreported.reported(2**63)
    assert unreported.sums == (0, 0, 0)


def test_a_report_in_the_middle_of_a_submit_leaves_it_unreported() -> None:
    unreported = Unreported()
    unreported.add(1, 3, 10, 20)
    unreported.reported(2)
    assert unreported.sums == (3, 10, 20)
