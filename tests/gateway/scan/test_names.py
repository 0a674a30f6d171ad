import pytest

from gateway.scan.names import hub_id, is_model_key, is_secret_name, looks_secret, plain_url, recognised


@pytest.mark.parametrize(
    ("text", "name", "provider", "hosted"),
    [
        ("gpt-4o-mini", "gpt-4o-mini", "openai", True),
        ("openai/gpt-4o", "gpt-4o", "openai", True),
        ("anthropic:claude-3-5-sonnet-latest", "claude-3-5-sonnet-latest", "anthropic", True),
        ("groq/llama-3.3-70b-versatile", "llama-3.3-70b-versatile", "groq", True),
        ("together_ai/meta-llama/Llama-3-70b", "meta-llama/Llama-3-70b", "together", True),
        ("hosted_vllm/Qwen/Qwen3-14B", "Qwen/Qwen3-14B", "hosted_vllm", False),
        ("ollama/llama3.1:8b", "llama3.1:8b", "ollama", False),
        ("qwen2.5:14b", "qwen2.5:14b", "ollama", False),
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", "huggingface", False),
        # Owners of the hub that are providers as well.
        ("google/gemma-2-9b-it", "google/gemma-2-9b-it", "huggingface", False),
        ("openai/gpt-oss-20b", "openai/gpt-oss-20b", "huggingface", False),
        ("mistralai/Mistral-7B-v0.3", "mistralai/Mistral-7B-v0.3", "huggingface", False),
    ],
)
def test_ids_are_told_by_their_form(text: str, name: str, provider: str, hosted: bool) -> None:
    found = recognised(text)
    assert found is not None
    assert (found.name, found.provider, found.hosted) == (name, provider, hosted)


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "text/plain", "golf", "ridge", "churn/v2", "o2", "a/b/c", "models/llama.py", "12:30", "http://x/y"),
        *("x" * 300, "sk-proj-abcdefghijklmnopqrst", "application/json", "localhost:8000", "src/model.ts", "command"),
    ],
)
def test_other_texts_are_no_models(text: str) -> None:
    assert recognised(text) is None


def test_a_secret_is_known_by_its_form_or_by_its_name() -> None:
    for text in (
        "sk-proj-abcdefghijklmnop1234",
        "hf_abcdefghijklmnopqrst",
        "http://h/sk-abcdefghijklmnop12/x",
        "0123456789abcdef" * 2,
    ):
        assert looks_secret(text), text
    for text in ("gpt-4o", "meta-llama/Llama-3.1-8B-Instruct", "claude-3-5-sonnet-20241022", "http://vllm:8000/v1"):
        assert not looks_secret(text), text
    for name in ("OPENAI_API_KEY", "apiKey", "DB_PASSWORD", "token", "X-Auth", "client_secret"):
        assert is_secret_name(name), name
    for name in ("MODEL", "OPENAI_BASE_URL", "tokenizer", "keyboard", "max_tokens"):
        assert not is_secret_name(name), name


def test_a_url_loses_what_may_be_secret() -> None:
    assert plain_url("http://me:pw@host:8000/v1/?key=abc#x") == "http://host:8000/v1"
    assert plain_url("https://[::1]:8/v1") == "https://[::1]:8/v1"
    for text in ("host:8000", "ftp://x", "http://", "http://a b", "http://h:99999/", "http://h/${X}", "http://[x"):
        assert plain_url(text) is None, text


def test_keys_of_models() -> None:
    for name in (
        "model",
        "model_name",
        "embedding_model",
        "modelId",
        "llm",
        "repo_id",
        "llm_hf_repo_id",
        "chatModel",
        "MODEL".lower(),
    ):
        assert is_model_key(name), name
    for name in ("models", "modelling", "remodel", "model_kwargs", "data_model_config", "mode"):
        assert not is_model_key(name), name


def test_ids_of_the_hub() -> None:
    assert hub_id("gpt2") == "gpt2" and hub_id("org/name") == "org/name"
    for text in (
        "YOUR-MODEL-PATH",
        "your-org/model",
        "<model>",
        "X-Model",
        "path/to",
        "a/b/c",
        "../x",
        "text/plain",
        "x.py",
        "",
        "a b",
    ):
        assert hub_id(text) is None, text
