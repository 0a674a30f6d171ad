"""Coding agents write a file with their own tools: each begins with its whole prompt, its tools and its settings."""

import json
from pathlib import Path
from typing import Any

from tests.clients.node_packages import needs_command
from tests.clients.outside import run
from tests.clients.thinking_model import CONTEXT, NAME
from tests.e2e.stack import Stack

WRITTEN = "agent-was-here\n"
SAID = "The greeting is written."


def lines_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A home, in which no settings of ours are found, and a project."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return home, project


def test_codex(site: Stack, tmp_path: Path) -> None:
    codex = needs_command(".bin/codex")
    home, project = folders(tmp_path)
    (home / "config.toml").write_text(
        f"""\
model = "{NAME}"
model_provider = "penstock"
model_reasoning_effort = "medium"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.penstock]
name = "Penstock"
base_url = "{site.base_url}"
env_key = "PENSTOCK_API_KEY"
wire_api = "responses"
"""
    )
    options = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", project)
    command = (codex, "exec", *options, "Write the greeting with exec_command.")
    output = run(site, *command, CODEX_HOME=str(home), HOME=str(home), PENSTOCK_API_KEY=site.key)
    items = [line["item"] for line in lines_of(output) if line["type"] == "item.completed"]
    assert [item["exit_code"] for item in items if item["type"] == "command_execution"] == [0], output
    assert items[-1]["text"] == SAID, output
    assert (project / "greeting.txt").read_text() == WRITTEN
    assert lines_of(output)[-1]["usage"]["output_tokens"] > 0


def test_opencode(site: Stack, tmp_path: Path) -> None:
    opencode = needs_command("opencode-linux-x64/bin/opencode")
    home, project = folders(tmp_path)
    model = {"name": "Qwen 3", "limit": {"context": CONTEXT, "output": 32000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Penstock",
        "options": {"baseURL": site.base_url, "apiKey": "{env:PENSTOCK_API_KEY}"},
        "models": {NAME: model},
    }
    config = {"autoupdate": False, "share": "disabled", "provider": {"penstock": provider}}
    config |= {"model": f"penstock/{NAME}", "small_model": f"penstock/{NAME}"}
    (project / "opencode.json").write_text(json.dumps(config))
    command = (opencode, "run", "--format", "json", "--dir", project, "Write the greeting with bash.")
    output = run(site, *command, folder=project, HOME=str(home), PENSTOCK_API_KEY=site.key)
    parts = [line["part"] for line in lines_of(output)]
    assert [part["tool"] for part in parts if part["type"] == "tool"] == ["bash"], output
    assert [part["text"] for part in parts if part["type"] == "text"] == [SAID], output
    assert (project / "greeting.txt").read_text() == WRITTEN
