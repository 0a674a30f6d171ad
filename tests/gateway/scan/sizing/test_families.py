import pytest

from gateway.scan.sizing.families import architecture_of


@pytest.mark.parametrize(
    ("name", "billions", "kv_bytes"),
    [
        # Bytes of a token's keys and values at two bytes a number, from the published configurations.
        ("meta-llama/Llama-3.1-8B-Instruct", 8.03, 131072),
        ("meta-llama/Meta-Llama-3.1-70B", 70.6, 327680),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8", 70.6, 327680),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 7.62, 57344),
        ("Qwen/Qwen3-30B-A3B", 30.5, 98304),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46.7, 131072),
        ("deepseek-ai/DeepSeek-V3", 671, 70272),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", 8.03, 131072),
        ("openai/gpt-oss-120b", 116.8, 73728),
        ("llama3.1:8b", 8.03, 131072),
    ],
)
def test_known_families_have_their_published_sizes(name: str, billions: float, kv_bytes: int) -> None:
    found, source = architecture_of(name)
    assert found.parameters == billions * 1e9
    assert found.kv_values is not None and 2 * found.kv_values == kv_bytes
    assert source == "its published configuration"


@pytest.mark.parametrize(
    ("name", "parameters", "source"),
    [
        ("acme/chat-13B-v2", 13e9, "the number in its name"),
        ("acme/tiny-350m", 350e6, "the number in its name"),
        ("acme/moe-4x3b", 12e9, "at most, by the numbers in its name"),
        ("acme/chat", None, ""),
        ("acme/v2", None, ""),
        ("acme/4bit", None, ""),
        ("acme/model-128k", None, ""),
    ],
)
def test_others_have_the_number_in_their_name_or_none(name: str, parameters: float | None, source: str) -> None:
    found, said = architecture_of(name)
    assert (found.parameters, said) == (parameters, source)
    assert found.kv_values is None
