from protos.types import Shape
from replicas.profiles import H100, L40S, PROFILES, Gpu
from replicas.reshape.width_rates import rate_of
from replicas.timing import FixedTimer, RooflineTimer, kv_blocks


def test_a_cache_bounds_the_requests_that_run() -> None:
    # 10 requests run, of 10 tokens each, in steps of 0.1 s: one ends with each.
    assert rate_of(FixedTimer(0.1), 1100, prompt=100, output=10) == 10.0


def test_width_costs_more_where_links_are_slow() -> None:
    model = PROFILES["qwen2.5-32b"]

    def share(gpu: Gpu) -> float:
        narrow, wide = (
            rate_of(RooflineTimer(model, shape, gpu=gpu), 32 * kv_blocks(model, shape, gpu=gpu), 2048, 28) / shape.tp
            for shape in (Shape(1), Shape(4))
        )
        return wide / narrow

    assert share(L40S) < 0.4 < 0.6 < share(H100) < 1.0
