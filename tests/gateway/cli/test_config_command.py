from pathlib import Path

import pytest

from gateway.cli.main import main

PLAIN = """\
models:
  - name: m
    tokenizer: mistral-tekken
    context: 99
    pools: [{name: p, engine: tensorrt_llm, replicas: ["grpc://a:1"]}]
"""


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize(
    ("after", "status", "lines"),
    [
        (PLAIN, 0, ["Nothing differs."]),
        (
            PLAIN.replace("context: 99", "context: 99\n    aliases: [x]"),
            1,
            [
                'models[m].aliases[0]: added ("x")',
                "models that change in place, with no request or replica affected: m",
            ],
        ),
        (
            PLAIN.replace("context: 99", "context: 100"),
            1,
            [
                "models[m].context: 99 -> 100",
                "models with new fleets and queues, beside which the old ones end their requests: m",
            ],
        ),
        (
            f"listen: {{port: 9}}\n{PLAIN}",
            3,
            ["listen.port: 8080 -> 9", "needs a restart:", "  listen.port: 8080 -> 9"],
        ),
    ],
)
def test_two_files_are_compared(
    tmp_path: Path, after: str, status: int, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = written(tmp_path, "one.yaml", PLAIN), written(tmp_path, "other.yaml", after)
    assert main(["config", "diff", "--against", one, other]) == status
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diff", "--against", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["diff"], "no gateway runs on this machine with the state directory"),
        (["reload", "--config"], "no gateway runs on this machine with the state directory"),
    ],
)
def test_what_cannot_be_said_is_one_line(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "penstock.yaml", PLAIN)
    assert main(["config", *arguments, file]) == (1 if "reload" in arguments else 2)
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "penstock.yaml", "models: 1")
    assert main(["config", "diff", file]) == 2
    assert f"{file}: models: expected" in capsys.readouterr().err
    file = written(tmp_path, "penstock.yaml", "state: 1")
    assert main(["config", "reload", "--config", file]) == 1
    assert "state: expected a string" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mistral-tekken", "./nope", "models[0].tokenizer: "),
        ("models:", "listen: {tls: {certificate: c.pem, key: k.pem}}\nmodels:", "listen.tls"),
    ],
)
def test_a_file_that_a_reload_would_refuse_is_refused_with_the_line_of_check(
    tmp_path: Path, old: str, new: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = written(tmp_path, "one.yaml", PLAIN), written(tmp_path, "other.yaml", PLAIN.replace(old, new))
    assert main(["config", "diff", "--against", one, other]) == 2
    refused = capsys.readouterr().err
    assert said in refused
    assert main(["check", "--config", other]) == 1
    assert refused == f"penstock config diff: {capsys.readouterr().err}"


def test_variables_that_only_the_gateway_has_do_not_matter_to_the_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PLAIN.replace(
        'engine: tensorrt_llm, replicas: ["grpc://a:1"]',
        "engine: openai, replicas: ['http://a/v1'], upstream: {api_key: [{env: PENSTOCK_NO_A}, {env: PENSTOCK_NO_B}]}",
    )
    file = written(tmp_path, "one.yaml", text)
    assert main(["config", "diff", "--against", file, file]) == 0
    capsys.readouterr()
    assert main(["check", "--config", file]) == 1
    said = capsys.readouterr().err
    assert "the environment variable PENSTOCK_NO_A is not set; nor is PENSTOCK_NO_B" in said
