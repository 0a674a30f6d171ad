from typing import Any

import pytest

from protos.token_counts import TokenCounts
from routing.transports.openai.usage_forms import counts_of, later

# Each form as its provider documents it, with made-up numbers.
FORMS: list[tuple[str, dict[str, Any], TokenCounts]] = [
    (
        "openai and azure: chat",
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 10},
            "completion_tokens_details": {
                "reasoning_tokens": 20,
                "audio_tokens": 5,
                "accepted_prediction_tokens": 3,
                "rejected_prediction_tokens": 4,
            },
        },
        TokenCounts(100, 50, cached=40, reasoning=20, audio_input=10, audio_output=5),
    ),
    (
        "openai: responses, batches",
        {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 30},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 150,
        },
        TokenCounts(100, 50, cached=40, written=30, reasoning=20),
    ),
    (
        "openai: realtime, with cached sound",
        {
            "input_tokens": 100,
            "input_token_details": {
                "cached_tokens": 60,
                "audio_tokens": 80,
                "text_tokens": 20,
                "cached_tokens_details": {"audio_tokens": 50, "text_tokens": 10},
            },
            "output_tokens": 30,
            "output_token_details": {"audio_tokens": 25, "text_tokens": 5},
            "total_tokens": 130,
        },
        TokenCounts(100, 30, cached=60, audio_input=30, audio_output=25),
    ),
    ("openai: embeddings", {"prompt_tokens": 9, "total_tokens": 9}, TokenCounts(9, 0)),
    ("voyage, jina: embeddings", {"total_tokens": 9}, TokenCounts(9, 0)),
    (
        "anthropic",
        {
            "input_tokens": 10,
            "cache_creation_input_tokens": 300,
            "cache_read_input_tokens": 500,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
            "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 30},
            "service_tier": "standard",
        },
        TokenCounts(810, 50, cached=500, written=100, written_long=200, reasoning=30),
    ),
    ("anthropic: no cache", {"input_tokens": 10, "output_tokens": 1}, TokenCounts(10, 1)),
    (
        "anthropic: null cache",
        {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": None},
        TokenCounts(10, 1),
    ),
    ("anthropic: a message_delta", {"output_tokens": 15}, TokenCounts(None, 15)),
    (
        "gemini",
        {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 30,
            "toolUsePromptTokenCount": 8,
            "totalTokenCount": 158,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 70}, {"modality": "AUDIO", "tokenCount": 30}],
            "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 10}],
            "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 12}],
        },
        TokenCounts(108, 50, cached=60, reasoning=30, audio_input=20, audio_output=12),
    ),
    ("gemini: nothing shown", {"promptTokenCount": 21, "totalTokenCount": 21}, TokenCounts(21, 0)),
    (
        "gemini: thoughts alone",
        {"promptTokenCount": 21, "thoughtsTokenCount": 60, "totalTokenCount": 81},
        TokenCounts(21, 60, reasoning=60),
    ),
    (
        "gemini, openai-compatible: thoughts in the total alone",
        {"prompt_tokens": 20, "completion_tokens": 200, "total_tokens": 620},
        TokenCounts(20, 600),
    ),
    (
        "gemini, openai-compatible: thoughts beside",
        {
            "prompt_tokens": 21,
            "completion_tokens": 0,
            "total_tokens": 81,
            "completion_tokens_details": {"reasoning_tokens": 60},
        },
        TokenCounts(21, 60, reasoning=60),
    ),
    (
        "mistral",
        {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35, "prompt_audio_seconds": 3},
        TokenCounts(30, 5),
    ),
    (
        "mistral: cached",
        {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35, "num_cached_tokens": 16},
        TokenCounts(30, 5, cached=16),
    ),
    (
        "deepseek",
        {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "total_tokens": 1050,
            "prompt_cache_hit_tokens": 900,
            "prompt_cache_miss_tokens": 100,
            "completion_tokens_details": {"reasoning_tokens": 30},
        },
        TokenCounts(1000, 50, cached=900, reasoning=30),
    ),
    (
        "deepseek: without a sum",
        {"completion_tokens": 50, "prompt_cache_hit_tokens": 900, "prompt_cache_miss_tokens": 100},
        TokenCounts(1000, 50, cached=900),
    ),
    (
        "moonshot, together: cached at the top",
        {"prompt_tokens": 1000, "completion_tokens": 5, "total_tokens": 1005, "cached_tokens": 900},
        TokenCounts(1000, 5, cached=900),
    ),
    (
        "xai: thoughts beside",
        {
            "prompt_tokens": 32,
            "completion_tokens": 9,
            "total_tokens": 135,
            "prompt_tokens_details": {"text_tokens": 32, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 94, "audio_tokens": 0},
            "num_sources_used": 0,
        },
        TokenCounts(32, 103, cached=8, reasoning=94),
    ),
    (
        "xai: fewer thoughts than answer, beside by the total",
        {
            "prompt_tokens": 32,
            "completion_tokens": 90,
            "total_tokens": 132,
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
        TokenCounts(32, 100, reasoning=10),
    ),
    (
        "thoughts that cannot be within, without a total",
        {"prompt_tokens": 32, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 317}},
        TokenCounts(32, 319, reasoning=317),
    ),
    (
        "groq",
        {
            "queue_time": 0.05,
            "prompt_tokens": 18,
            "prompt_time": 0.0006,
            "completion_tokens": 556,
            "total_tokens": 574,
            "prompt_tokens_details": {"cached_tokens": 12},
        },
        TokenCounts(18, 556, cached=12),
    ),
    (
        "fireworks, zhipu",
        {
            "prompt_tokens": 18,
            "completion_tokens": 6,
            "total_tokens": 24,
            "prompt_tokens_details": {"cached_tokens": 16},
        },
        TokenCounts(18, 6, cached=16),
    ),
    (
        "cohere",
        {
            "billed_units": {"input_tokens": 5, "output_tokens": 41},
            "tokens": {"input_tokens": 71, "output_tokens": 44},
            "cached_tokens": 3,
        },
        TokenCounts(5, 41, cached=3),
    ),
    ("cohere: tokens alone", {"tokens": {"input_tokens": 71, "output_tokens": 44}}, TokenCounts(71, 44)),
    (
        "bedrock",
        {
            "inputTokens": 10,
            "outputTokens": 50,
            "totalTokens": 860,
            "cacheReadInputTokens": 500,
            "cacheWriteInputTokens": 300,
            "cacheDetails": [{"ttl": "1h", "inputTokens": 200}, {"ttl": "5m", "inputTokens": 100}],
        },
        TokenCounts(810, 50, cached=500, written=100, written_long=200),
    ),
    (
        "openrouter",
        {
            "prompt_tokens": 194,
            "completion_tokens": 20,
            "total_tokens": 214,
            "cost": 0.95,
            "cost_details": {"upstream_inference_cost": 19},
            "prompt_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 100, "audio_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 7, "image_tokens": 2},
        },
        TokenCounts(194, 20, cached=50, written=100, reasoning=7, audio_input=4),
    ),
    (
        "alibaba, openai-compatible",
        {
            "prompt_tokens": 1600,
            "completion_tokens": 30,
            "total_tokens": 1630,
            "prompt_tokens_details": {
                "cached_tokens": 0,
                "cache_creation_input_tokens": 1500,
                "cache_creation": {"ephemeral_5m_input_tokens": 1500},
                "cache_type": "ephemeral",
            },
        },
        TokenCounts(1600, 30, written=1500),
    ),
    (
        "alibaba, its own",
        {
            "input_tokens": 3019,
            "output_tokens": 104,
            "total_tokens": 3123,
            "prompt_tokens_details": {"cached_tokens": 2048},
        },
        TokenCounts(3019, 104, cached=2048),
    ),
    (
        "anthropic's cache in openai's form, within",
        {
            "prompt_tokens": 810,
            "completion_tokens": 50,
            "total_tokens": 860,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 300,
        },
        TokenCounts(810, 50, cached=500, written=300),
    ),
    (
        "anthropic's cache in openai's form, beside",
        {
            "prompt_tokens": 10,
            "completion_tokens": 50,
            "total_tokens": 860,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 300,
        },
        TokenCounts(810, 50, cached=500, written=300),
    ),
    ("zeros", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, TokenCounts(0, 0)),
    ("zeros: anthropic", {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0}, TokenCounts(0, 0)),
    ("zeros: bedrock", {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}, TokenCounts(0, 0)),
    ("counts as floats", {"prompt_tokens": 12.0, "completion_tokens": 3.0}, TokenCounts(12, 3)),
    (
        "parts that are more than the whole",
        {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 500, "audio_tokens": 9},
            "completion_tokens_details": {"reasoning_tokens": 99, "audio_tokens": 99},
        },
        TokenCounts(7, 3, cached=7, reasoning=3, audio_output=3),
    ),
]


@pytest.mark.parametrize(("usage", "counts"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
def test_forms(usage: dict[str, Any], counts: TokenCounts) -> None:
    assert counts_of(usage) == counts


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        "many",
        {},
        {"seconds": 12, "type": "duration"},
        {"billed_units": {"search_units": 1}},
        {"prompt_tokens": -7, "completion_tokens": 3},
        {"prompt_tokens": 7, "completion_tokens": 9_000_000_000_000_000_000},
        {"prompt_tokens": "7", "completion_tokens": 3},
        {"prompt_tokens": 7.5, "completion_tokens": 3},
        {"prompt_tokens": float("nan"), "completion_tokens": 3},
        {"prompt_tokens": float("inf"), "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": 3},
    ],
)
def test_no_counts(usage: object) -> None:
    assert counts_of(usage) is None


def test_what_a_stream_tells_later_is_added() -> None:
    start = {"input_tokens": 10, "cache_read_input_tokens": 500, "output_tokens": 1}
    told = later(later(None, start), {"output_tokens": 15, "cache_read_input_tokens": None})
    assert counts_of(told) == TokenCounts(510, 15, cached=500)
