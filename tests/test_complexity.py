from collections.abc import Callable

from tests.complexity import LINEAR, bytecodes, growth


def linear(size: int) -> Callable[[], object]:
    return lambda: sum(number for number in range(size))


def quadratic(size: int) -> Callable[[], object]:
    return lambda: sum(number for _ in range(size) for number in range(size))


def in_c(size: int) -> Callable[[], object]:
    text, needle = "a" * size, "a" * (size // 2) + "b" + "a" * (size // 2)
    return lambda: [text.startswith(needle[1:], at) or text[at:].count("b") for at in range(size)]


def test_time_tells_linear_work_from_quadratic_work() -> None:
    assert growth(linear, 20_000) < LINEAR < growth(quadratic, 200)


def test_time_counts_what_runs_in_c() -> None:
    assert growth(in_c, 6_000) > LINEAR


def test_steps_do_too_and_are_the_same_each_time() -> None:
    assert bytecodes(linear(2000)) < LINEAR * bytecodes(linear(1000))
    assert bytecodes(quadratic(40)) > LINEAR * bytecodes(quadratic(20))
    assert bytecodes(linear(100)) == bytecodes(linear(100)) > 100
