import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.scan.finding import Kind
from gateway.scan.scan import scan
from gateway.scan.walk import Bounds
from tests.gateway.scan.labelled import Sample, by_patterns, found_models, samples

SAMPLES = samples()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_sample_application_is_read_as_a_person_reads_it(sample: Sample, tmp_path: Path) -> None:
    found = scan(sample.write(tmp_path))
    assert found_models(found) == sample.models
    used = [one for one in found.findings if not one.of_tests]
    assert {one.value for one in used if one.kind is Kind.HOSTED} == sample.hosted
    assert {one.base_url for one in used} >= sample.clients
    assert {alias for one in used for alias in one.served_as} == sample.aliases


def test_patterns_alone_find_less_and_more_that_is_wrong(tmp_path: Path) -> None:
    right = found = wanted = 0
    for sample in SAMPLES:
        models = by_patterns(sample)
        right, found, wanted = right + len(models & sample.models), found + len(models), wanted + len(sample.models)
    assert right / found < 0.4  # precision
    assert right / wanted < 0.5  # recall


def test_each_finding_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('import os\n\nMODEL = "gpt-4o"\n\nchat(\n    model=MODEL,\n)\n')
    assert [(one.where, one.value) for one in scan(tmp_path).findings] == [("a.py:3", "gpt-4o"), ("a.py:5", "gpt-4o")]


def test_a_list_within_a_text_is_found_in_its_line(tmp_path: Path) -> None:
    (tmp_path / "v.yaml").write_text('envVars:\n  MODELS: |-\n    [\n      {"id": "org/llama-7b"}\n    ]\n')
    assert [(one.where, one.value) for one in scan(tmp_path).findings] == [("v.yaml:4", "org/llama-7b")]


def test_no_value_of_a_secret_is_kept(tmp_path: Path) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwx1234"
    (tmp_path / ".env").write_text(
        f"OPENAI_API_KEY={secret}\nOPENAI_MODEL={secret}\nLLM_URL=http://me:{secret}@llm/v1\n"
    )
    (tmp_path / "a.py").write_text(
        f'OpenAI(api_key="{secret}", base_url="http://u:{secret}@h/v1?key={secret}").x(model="{secret}")'
    )
    (tmp_path / "b.ts").write_text(f'const c = new OpenAI({{ apiKey: "{secret}" }}); c.create({{ model: "{secret}" }})')
    (tmp_path / "c.yaml").write_text(f"llm: {{provider: openai, model: {secret}, api_key: {secret}}}\n")
    (tmp_path / "d.sh").write_text(f"HF_TOKEN={secret} vllm serve {secret}\n")
    found = scan(tmp_path)
    assert secret not in repr(found)
    assert [one.value for one in found.findings if one.kind is Kind.KEY] == ["OPENAI_API_KEY"]
    assert "http://llm/v1" in {one.base_url for one in found.findings}


def test_what_cannot_be_read_is_skipped_with_a_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "deep.py").write_text("x = " + "-" * 50_000 + "1\n")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "latin.py").write_bytes("é = 1".encode("latin-1"))
    (tmp_path / "large.py").write_text("#" * (2 << 20))
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "bad.yaml").write_text("{{ .Values.x }}: [")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "deep.yaml").write_text("[" * 5_000)
    (tmp_path / "bundle.js").write_text("x" * 10_000)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "lost.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "round.py").symlink_to(tmp_path / "round.py")
    os.mkfifo(tmp_path / "pipe.py")
    found = scan(tmp_path)
    assert {file for file, _ in found.skipped} == {
        *(
            "broken.py",
            "deep.py",
            "binary.py",
            "latin.py",
            "large.py",
            "bad.json",
            "bad.yaml",
            "deep.json",
            "deep.yaml",
        ),
        *("bundle.js", "lost.py", "round.py"),
    }
    assert dict(found.skipped)["broken.py"].startswith("line 1: no Python that can be read")
    assert dict(found.skipped)["binary.py"] == "not text"


def test_files_without_permission_are_skipped() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "no.py").write_text("")
        (root / "no.py").chmod(0)
        (root / "folder").mkdir(mode=0)
        superuser = os.geteuid() == 0
        try:
            if superuser:  # who may read everything
                os.seteuid(65534)
            skipped = scan(root).skipped
        finally:
            if superuser:
                os.seteuid(0)
            (root / "folder").chmod(stat.S_IRWXU)
        assert sorted(skipped) == [("folder", "Permission denied"), ("no.py", "Permission denied")]


def test_nothing_of_the_folder_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "a.py").write_text(f"open({str(ran)!r}, 'w')\nmodel = 'gpt-4o'\n")
    (tmp_path / "setup.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (tmp_path / "conftest.py").write_text(f"open({str(ran)!r}, 'w')\n")
    (tmp_path / "c.yaml").write_text(f"!!python/object/apply:os.system ['touch {ran}']\n")
    assert scan(tmp_path).files == 4
    assert not ran.exists()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text('x(model="gpt-4o")')
    inside = tmp_path / "app"
    inside.mkdir()
    (inside / "a.py").symlink_to(tmp_path / "outside.py")
    (inside / "b").symlink_to(tmp_path, target_is_directory=True)
    assert not scan(inside).findings


def test_the_scan_ends_at_its_bounds(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.py").write_text('x(model="gpt-4o")')
    ticks = iter(range(10_000))
    slow = scan(tmp_path, Bounds(seconds=5), clock=lambda: float(next(ticks)))
    assert 0 < slow.files < 20
    assert "5 seconds are over" in slow.skipped[0][1]
    few = scan(tmp_path, Bounds(files=3))
    assert few.files == 3 and "more than 3 files" in few.skipped[0][1]
    deep = tmp_path
    for _ in range(50):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert "deeper than" in scan(tmp_path).skipped[0][1]


def test_constants_that_ask_for_each_other_end(tmp_path: Path) -> None:
    lines = ["a = a + a + b", "b = a + b or a"] * 50 + ["x(model=a + b)"]
    (tmp_path / "a.py").write_text("\n".join(lines))
    assert scan(tmp_path).findings == []


_NAMES = st.sampled_from(
    [
        *("a.py", "b.ipynb", "c.js", "d.ts", "e.yaml", "f.json", "g.toml", ".env", "Dockerfile", "Makefile", "h.sh"),
        *("compose.yml", "package.json", "pyproject.toml", "requirements.txt", "config.json", "pnpm-lock.yaml"),
        *("m.gguf", "m.safetensors", "x/a.py", "tests/a.py", "yarn.lock", "Procfile"),
    ]
)
_PIECES = st.sampled_from(
    [
        *('model="gpt-4o"', "from_pretrained('a/b')", "import openai\n", "{", "}", "[", "]", "(", ")", '"', "'", "`"),
        *("\\", "\n", "\0", "model: ", "litellm_params", "- ", ": ", "&a ", "*a", "<<: *a", "vllm serve ", "--model "),
        *("${X:-", "https://huggingface.co/a/b/resolve/", "os.getenv('X', ", "f'{x}'", "lambda: ", "/*", "//"),
        *("\ufeff", "é", "env:", "command:", "image: vllm/vllm-openai\n", "GGUF\3\0\0\0", "model_list:\n"),
        *('{"model_type": "llama", "num_hidden_layers": 3', "version https://git-lfs.github.com/spec/v1\n"),
        *(
            "oid x\nsize 5\n",
            "new OpenAI({baseURL: ",
            "const M = 'gpt-4o';",
            "process.env.X ?? ",
            "services:\n  a:\n    ",
        ),
    ]
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(
        _NAMES,
        st.one_of(st.binary(max_size=200), st.lists(_PIECES, max_size=30).map(lambda parts: "".join(parts).encode())),
        max_size=8,
    )
)
def test_no_tree_of_files_breaks_the_scan(files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("tree")
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    scan(root)


@pytest.mark.parametrize(
    ("name", "text", "provider"),
    [
        ("a.py", "from openai import OpenAI\n\nclient = OpenAI()\n", "openai"),
        ("b.py", "import anthropic\n\nclient = anthropic.AsyncAnthropic()\n", "anthropic"),
        ("c.ts", 'import OpenAI from "openai";\n\nconst client = new OpenAI();\n', "openai"),
        ("d.ts", 'import Anthropic from "@anthropic-ai/sdk";\n\nexport const c = new Anthropic();\n', "anthropic"),
    ],
)
def test_a_client_without_a_base_url_is_found(name: str, text: str, provider: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (client,) = [one for one in scan(tmp_path).findings if one.kind is Kind.CLIENT]
    assert (client.where, client.base_url, client.provider) == (f"{name}:3", "", provider)


@pytest.mark.parametrize("command", ['["--model", "org/m-7b"]', '["--model","org/m-7b"]', "--model org/m-7b"])
@pytest.mark.parametrize("base", ["FROM vllm/vllm-openai:v0.11", "FROM --platform=x vllm/vllm-openai AS a\nFROM a"])
def test_the_arguments_of_an_image_of_a_server_are_found(command: str, base: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"{base}\nCMD {command}\n")
    (model,) = [one for one in scan(tmp_path).findings if one.kind is Kind.WEIGHTS]
    assert (model.value, model.engine) == ("org/m-7b", "vllm")
    assert model.line == base.count("\n") + 2
