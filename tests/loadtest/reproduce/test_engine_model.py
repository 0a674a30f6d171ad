import pytest

from loadtest.reproduce.engine_model import (
    FIGURE_8,
    FIGURE_9,
    Fleet,
    latency,
    markdown,
    mean_absolute_error,
    orderings,
    saturated,
    saturation,
    sweep,
)
from loadtest.reproduce.published import NIM, WORKLOADS
from protos.types import Shape


def test_mixtral_saturates_where_the_published_figures_say() -> None:
    comparisons = saturation("mixtral-8x7b")
    assert len(comparisons) == 28
    assert mean_absolute_error(comparisons) < 0.10
    assert max(abs(c.error) for c in comparisons) < 0.35


@pytest.fixture(scope="module")
def figures() -> dict[tuple[Fleet, ...], dict[int, dict[str, float]]]:
    """What `sweep` finds for each figure."""
    return {figure: sweep(figure) for figure in (FIGURE_8, FIGURE_9)}


def test_scalellms_orderings_hold(figures: dict[tuple[Fleet, ...], dict[int, dict[str, float]]]) -> None:
    claims = orderings(figures[FIGURE_8], figures[FIGURE_9])
    assert len(claims) == 7
    assert [claim for claim, holds in claims.items() if not holds] == []


def test_other_models_are_in_the_same_range() -> None:
    short = WORKLOADS[4]
    assert saturated("llama-3.1-70b", Shape(tp=4), short) == pytest.approx(1316, rel=0.25)
    assert saturated("llama-3.1-8b", Shape(), short) == pytest.approx(3496, rel=0.25)


def test_time_between_tokens_follows_concurrency_as_measured() -> None:
    for point in NIM:
        assert latency(point).itl * 1e3 == pytest.approx(point.itl_ms, rel=0.15)


def test_the_page_is_what_the_command_prints(
    figures: dict[tuple[Fleet, ...], dict[int, dict[str, float]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loadtest.reproduce.engine_model.SATURATED", {})
    monkeypatch.setattr("loadtest.reproduce.engine_model.sweep", figures.__getitem__)
    page = markdown()
    for heading in ("# The engine model", "Figure 8", "Figure 9", "## Coefficients", "## Limits", "`kv_efficiency`"):
        assert heading in page
    assert page.endswith("\n")
