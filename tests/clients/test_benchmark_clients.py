"""Programs that measure servers: each sends all its requests, and reads every answer and its counts."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.clients.outside import ENVIRONMENT, run
from tests.clients.thinking_model import NAME, REPOSITORY, write_cache
from tests.e2e.stack import Stack

#: Where `make test-clients` has put guidellm, apart from the others: it brings torch.
TORCH = "PENSTOCK_CLIENTS_TORCH"
REQUESTS = 8
#: Loading torch, which two of them do, takes a minute and more where two cores have other work.
SECONDS = 300


def needs(variable: str, name: str) -> Path:
    """Give the path of a command in an environment that a variable names, or skip the test."""
    path = Path(os.environ.get(variable, "")) / "bin" / name
    if variable not in os.environ or not path.exists():
        pytest.skip(f"{variable} names no environment with {name}; `make test-clients` makes one where it can")
    return path


@pytest.fixture
def cache(site: Stack, tmp_path: Path) -> str:
    """A cache of Hugging Face's hub that has the model's tokenizer."""
    write_cache(tmp_path / "hub", site.folder / "thinking")
    return str(tmp_path / "hub")


def test_guidellm(site: Stack, cache: str, tmp_path: Path) -> None:
    guidellm = needs(TORCH, "guidellm")
    report = tmp_path / "report.json"
    root = site.base_url.removesuffix("/v1")
    for form in ("/v1/chat/completions", "/v1/completions", "/v1/responses"):
        backend = f"kind=openai_http,target={root},model={NAME},api_key={site.key},request_format={form}"
        command = (guidellm, "run", "--backend", backend, "--tokenizer", f"kind=huggingface_auto,model={REPOSITORY}")
        load = ("--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=16", "--profile")
        profile = ("kind=concurrent,streams=2", "--constraint", f"kind=max_requests,count={REQUESTS}")
        output = ("--output", f"kind=json,path={report}", "--disable-progress")
        run(site, *command, *load, *profile, *output, folder=tmp_path, seconds=SECONDS, HF_HUB_CACHE=cache)
        (benchmark,) = json.loads(report.read_text())["benchmarks"]
        totals = benchmark["metrics"]["request_totals"]
        assert (totals["successful"], totals["errored"]) == (REQUESTS, 0), (form, totals)


def test_aiperf(site: Stack, cache: str, tmp_path: Path) -> None:
    aiperf = needs(ENVIRONMENT, "aiperf")
    server = ("--model", NAME, "--url", site.base_url.removesuffix("/v1"), "--api-key", site.key)
    load = ("--endpoint-type", "chat", "--streaming", "--tokenizer", REPOSITORY, "--isl", "64", "--osl", "16")
    amount = ("--concurrency", "2", "--request-count", str(REQUESTS), "--ui", "none", "--no-gpu-telemetry")
    command = (aiperf, "profile", *server, *load, *amount, "--output-artifact-dir", tmp_path / "report")
    run(site, *command, folder=tmp_path, seconds=SECONDS, HF_HUB_CACHE=cache)
    report = json.loads((tmp_path / "report" / "profile_export_aiperf.json").read_text())
    assert (report["request_count"]["avg"], report["error_summary"]) == (REQUESTS, [])
    # Its own counts and the gateway's.
    assert report["usage_completion_tokens"]["avg"] == report["output_sequence_length"]["avg"] == 16


def test_vllm(site: Stack, cache: str, tmp_path: Path) -> None:
    vllm = shutil.which("vllm")
    if ENVIRONMENT not in os.environ or vllm is None:
        pytest.skip("no vllm is on the path: its benchmark comes with the whole engine, 9 GB, and is not brought")
    root = site.base_url.removesuffix("/v1")
    for backend, endpoint in (("openai-chat", "/v1/chat/completions"), ("openai", "/v1/completions")):
        server = ("--backend", backend, "--base-url", root, "--endpoint", endpoint, "--model", NAME)
        load = ("--tokenizer", REPOSITORY, "--dataset-name", "random", "--num-prompts", str(REQUESTS))
        lengths = ("--random-input-len", "64", "--random-output-len", "16", "--ignore-eos")
        report = ("--save-result", "--result-dir", tmp_path, "--result-filename", "report.json")
        command = (vllm, "bench", "serve", *server, *load, *lengths, *report)
        run(site, *command, folder=tmp_path, seconds=SECONDS, HF_HUB_CACHE=cache, OPENAI_API_KEY=site.key)
        result = json.loads((tmp_path / "report.json").read_text())
        assert (result["completed"], result["total_output_tokens"]) == (REQUESTS, 16 * REQUESTS), result
