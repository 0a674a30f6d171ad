import pytest

from protos.types import Shape
from replicas.profiles import PROFILES
from replicas.timing import Batch, FixedTimer, RooflineTimer, kv_blocks

MIXTRAL, LLAMA = PROFILES["mixtral-8x7b"], PROFILES["llama-3.1-70b"]


def decode(sequences: int, context: int = 400) -> Batch:
    return Batch(decode=sequences, decode_context=sequences * context, outputs=sequences)


def test_profiles_have_the_published_sizes() -> None:
    assert MIXTRAL.weight_bytes == pytest.approx(46.7e9, rel=0.01)
    assert LLAMA.weight_bytes == pytest.approx(70.6e9, rel=0.02)
    assert PROFILES["llama-3.1-8b"].weight_bytes == pytest.approx(8.03e9, rel=0.08)
    assert MIXTRAL.kv_bytes_per_token == 65536
    assert LLAMA.kv_bytes_per_token == 163840


def test_cache_size_comes_from_what_weights_leave() -> None:
    sizes = [kv_blocks(MIXTRAL, Shape(tp=tp)) for tp in (1, 2, 4, 8)]
    assert sizes == sorted(sizes)
    assert sizes[1] > 2 * sizes[0]
    assert 300_000 < sizes[0] * 32 < 600_000
    with pytest.raises(ValueError, match="does not fit"):
        kv_blocks(PROFILES["llama-3.1-70b"], Shape(), tokens_per_block=10**6)


def test_expert_parallelism_must_divide_the_group_and_the_experts() -> None:
    with pytest.raises(ValueError, match="ep=3"):
        RooflineTimer(MIXTRAL, Shape(tp=8, ep=3))
    with pytest.raises(ValueError, match="ep=2"):
        RooflineTimer(LLAMA, Shape(tp=8, ep=2))


def test_steps_grow_with_everything_in_the_batch() -> None:
    timer = RooflineTimer(MIXTRAL, Shape(tp=2))
    seconds = timer.step_seconds(decode(8))
    assert seconds < timer.step_seconds(decode(9))
    assert seconds < timer.step_seconds(decode(8, context=500))
    assert seconds < timer.step_seconds(Batch(8, 3200, 512, 512 * 513 // 2, 8))
    assert timer.step_seconds(Batch(prefill=512, prefill_pairs=10**5)) < timer.step_seconds(
        Batch(prefill=512, prefill_pairs=10**7)
    )


def test_few_tokens_touch_few_experts() -> None:
    timer = RooflineTimer(MIXTRAL, Shape(tp=2))
    one, four, many = (timer.step_seconds(decode(n)) for n in (1, 4, 64))
    assert four - one > many - timer.step_seconds(decode(32))


def test_more_gpus_make_a_step_shorter() -> None:
    for batch in (decode(64), Batch(prefill=4096, prefill_pairs=4096 * 2048, outputs=4)):
        times = [RooflineTimer(MIXTRAL, Shape(tp=tp)).step_seconds(batch) for tp in (1, 2, 4, 8)]
        assert times == sorted(times, reverse=True)
    piped = RooflineTimer(LLAMA, Shape(tp=2, pp=2))
    plain = RooflineTimer(LLAMA, Shape(tp=2))
    assert piped.step_seconds(decode(1)) == pytest.approx(plain.step_seconds(decode(1)), rel=0.02)
    assert piped.step_seconds(decode(512)) < plain.step_seconds(decode(512))


def test_speed_divides_time() -> None:
    slow, fast = RooflineTimer(MIXTRAL, Shape()), RooflineTimer(MIXTRAL, Shape(), speed=10)
    assert slow.step_seconds(decode(8)) == pytest.approx(10 * fast.step_seconds(decode(8)))
    assert slow.transfer_seconds(1000) == pytest.approx(10 * fast.transfer_seconds(1000))


def test_transfer_is_bytes_over_rate() -> None:
    assert RooflineTimer(MIXTRAL, Shape(tp=4)).transfer_seconds(1000) == pytest.approx(65536 * 1000 / 64e9)
    assert FixedTimer(0.5).transfer_seconds(1000) == 0
    assert FixedTimer(0.5).step_seconds(decode(100)) == 0.5
