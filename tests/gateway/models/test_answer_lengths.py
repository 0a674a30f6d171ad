from gateway.models.answer_lengths import LEARNED_PER_SECOND, MAX_BURST, AnswerLengths
from routing.estimates.decode_length import Origin, QuantileDecodeLength

BUSY, QUIET = Origin("m", "busy"), Origin("m", "quiet")


class Noting(QuantileDecodeLength):
    def __init__(self) -> None:
        super().__init__()
        self.lessons: list[tuple[str, int, bool]] = []

    def learn(self, origin: Origin, prompt_tokens: int, output_tokens: int, *, cut: bool = False) -> None:
        self.lessons.append((origin.tenant, output_tokens, cut))
        super().learn(origin, prompt_tokens, output_tokens, cut=cut)


def test_a_busy_tenant_teaches_at_a_steady_pace_and_a_quiet_one_always() -> None:
    noting, now = Noting(), 0.0
    lengths = AnswerLengths(noting, lambda: now)
    for step in range(10_000):
        now = step / 1000
        lengths.learn(BUSY, 10, 70)
        if step % 1000 == 0:
            lengths.learn(QUIET, 10, 700, cut=True)
    busy = [lesson for lesson in noting.lessons if lesson[0] == "busy"]
    assert abs(len(busy) - (MAX_BURST + 10 * LEARNED_PER_SECOND)) <= 2
    assert [lesson for lesson in noting.lessons if lesson[0] == "quiet"] == [("quiet", 700, True)] * 10
    now += 3600
    for _ in range(1000):
        lengths.learn(BUSY, 10, 70)
    assert len(noting.lessons) - len(busy) - 10 <= MAX_BURST + 1


def test_what_is_expected_is_what_was_learned() -> None:
    inner = QuantileDecodeLength()
    lengths = AnswerLengths(inner, lambda: 0.0)
    for _ in range(40):
        lengths.learn(BUSY, 10, 70)
    assert lengths.expected(BUSY, 10, 1000) == inner.expected(BUSY, 10, 1000) != 256.0
    assert lengths.quantile(BUSY, 10, 1000, 0.9) == inner.quantile(BUSY, 10, 1000, 0.9)
