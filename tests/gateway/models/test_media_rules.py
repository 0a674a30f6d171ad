import pytest

from gateway.models.media_rules import ANTHROPIC, GEMINI, OPENAI, rule_of


@pytest.mark.parametrize(
    ("width", "height", "low", "tokens"),
    [(512, 512, False, 255), (1024, 1024, False, 765), (2048, 4096, False, 1105), (4096, 8192, True, 85)],
)
def test_openai_counts_tiles(width: int, height: int, low: bool, tokens: int) -> None:
    assert OPENAI.image(width, height, low) == tokens


def test_small_openai_models_count_patches() -> None:
    rule = rule_of(["gpt-4.1-mini-2025-04-14"], [])
    assert (rule.name, rule.image(512, 512, False), rule.image(4000, 4000, False)) == ("openai patches", 415, 2489)


@pytest.mark.parametrize(("width", "height", "tokens"), [(200, 200, 54), (1000, 1000, 1334), (8000, 8000, 1600)])
def test_anthropic_counts_the_area(width: int, height: int, tokens: int) -> None:
    assert ANTHROPIC.image(width, height, False) == tokens


@pytest.mark.parametrize(("width", "height", "tokens"), [(384, 384, 258), (385, 100, 258), (1536, 769, 4 * 258)])
def test_gemini_counts_tiles(width: int, height: int, tokens: int) -> None:
    assert GEMINI.image(width, height, False) == tokens


@pytest.mark.parametrize(
    ("models", "addresses", "name"),
    [
        (["sonnet", "anthropic/claude-sonnet-4"], ["https://openrouter.ai/api/v1"], "anthropic"),
        (["m"], ["https://api.anthropic.com/v1"], "anthropic"),
        (["m"], ["https://generativelanguage.googleapis.com/v1beta/openai"], "gemini"),
        (["google/gemini-2.5-pro"], [], "gemini"),
        (["openai/o4-mini"], [], "openai patches"),
        (["gpt-4o"], [], "openai tiles"),
        (["qwen2.5-vl"], ["http://10.0.0.1:8000/v1"], "openai tiles"),
    ],
)
def test_the_rule_is_that_of_the_upstream(models: list[str], addresses: list[str], name: str) -> None:
    assert rule_of(models, addresses).name == name
