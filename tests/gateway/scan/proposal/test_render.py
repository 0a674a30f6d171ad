"""Whatever an application says, the proposed file is one that the gateway loads."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config.load import load_config
from gateway.scan.proposal.propose import Options, propose
from gateway.scan.proposal.render import render
from gateway.scan.proposal.size import SizingOptions
from gateway.scan.scan import scan
from gateway.scan.sizing.gpus import gpu_kind

_IDS = st.one_of(
    st.sampled_from(
        [
            *(
                "gpt-4o",
                "claude-3-5-sonnet-latest",
                "azure/gpt-4o",
                "ollama/llama3:8b",
                "meta-llama/Llama-3.1-405B",
                "./m.gguf",
            ),
            *(
                "org/model-7B-AWQ",
                "a/b",
                "../../x",
                "~/models/x y",
                "null",
                "yes",
                "1e5",
                "- x",
                "# x",
                "a: b",
                "o1",
                "*",
                "&x",
            ),
            *(
                "-x/y",
                "x" * 200,
                "org/" + "y" * 90,
                "bedrock/anthropic.claude-v2",
                "gemini/gemini-pro",
                "x\ny",
                "é/llama",
                "@cf/x",
            ),
        ]
    ),
    st.text(max_size=40),
)
_URLS = st.sampled_from(
    [
        *(
            "http://h:1/v1",
            "http://h",
            "https://api.openai.com/v1",
            "http://[::1]:8/v1",
            "http://a_b/v1",
            "http://h:0/v1",
        ),
        *(
            "http://h:99999/v1",
            "http://u:p@h/v1?x=1",
            "https://x.openai.azure.com/",
            "http://h/v1/chat/completions",
            "ftp://x",
        ),
        *("http://" + "h" * 300, "http://..", "http://h/é", "", "http://localhost:11434/api"),
    ]
)
_LINES = st.tuples(_IDS, _URLS, st.sampled_from(range(9)))


def _line(model: str, url: str, form: int) -> tuple[str, str]:
    return (
        ("a.py", f"from vllm import LLM\nLLM(model={model!r})\n"),
        ("b.py", f"from openai import OpenAI\nOpenAI(base_url={url!r}).chat.completions.create(model={model!r})\n"),
        ("c.py", f"from transformers import AutoModel\nAutoModel.from_pretrained({model!r})\n"),
        ("d.yaml", f"llm:\n  model: {model}\n  base_url: {url}\n  provider: openai\n"),
        ("e.yaml", f"model_list:\n- model_name: x\n  litellm_params: {{model: {model!r}, api_base: {url!r}}}\n"),
        ("f.sh", f"vllm serve {model} --served-model-name {model} --max-model-len 99999999999\n"),
        ("g.ts", f'import OpenAI from "openai";\nnew OpenAI({{ baseURL: "{url}" }}).x({{ model: "{model}" }});\n'),
        (".env", f"OPENAI_MODEL={model}\nOPENAI_BASE_URL={url}\n"),
        ("h.py", f"from langchain_ollama import ChatOllama\nChatOllama(model={model!r}, base_url={url!r})\n"),
    )[form]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(_LINES, min_size=1, max_size=8), name=st.text(max_size=20), context=st.sampled_from([None, 1, 8192])
)
def test_whatever_is_found_the_file_is_valid(
    lines: list[tuple[str, str, int]], name: str, context: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root: Path = tmp_path_factory.mktemp("app")
    for model, url, form in lines:
        file, text = _line(model, url, form)
        with (root / file).open("a", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
    (root / "pyproject.toml").write_text(f"[project]\nname = {name!r}\n", encoding="utf-8", errors="replace")
    sizing = SizingOptions(gpus=(gpu_kind("l4:4@0.7"), gpu_kind("mine:8:96GiB")))
    proposal = propose(scan(root), Options(sizing=sizing, context=context))
    if proposal.models:
        out = root.parent / f"{root.name}.yaml"
        out.write_text(render(proposal, name, 10.0), encoding="utf-8")
        config = load_config(out)
        assert set(config.model_names) == {model.name for model in proposal.models}
