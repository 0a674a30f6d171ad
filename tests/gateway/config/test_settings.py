from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config, schema
from gateway.server.machine_checks import resolve
from protos.types import Role, Shape

ROOT = Path(__file__).parents[3]

POOL = "{name: p, engine: simulated, replicas: 1}"
MODEL = f"{{name: m, tokenizer: t, context: 4096, pools: [{POOL}]}}"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "penstock.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def model(**fields: str) -> str:
    known = {"name": "m", "tokenizer": "t", "context": "4096", "pools": f"[{POOL}]", **fields}
    return "models: [{" + ", ".join(f"{name}: {value}" for name, value in known.items()) + "}]"


def pool(**fields: str) -> str:
    known = {"name": "p", "engine": "simulated", "replicas": "1", **fields}
    return model(pools="[{" + ", ".join(f"{name}: {value}" for name, value in known.items()) + "}]")


def refusal(folder: Path, text: str | bytes) -> str:
    """What is said about a bad file, without the file's name in front."""
    path = written(folder, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    return said.removeprefix(f"{path}: ")


def test_the_shipped_file_is_valid_and_is_figure_8() -> None:
    config = load_config(ROOT / "penstock.yaml")
    resolve(config, "penstock.yaml", {"mistral-tekken"})
    assert config.store.embedded
    assert config.state_dir == ROOT / ".penstock"
    (mixtral,) = config.models
    assert mixtral.name == "mixtral-8x7b"
    assert mixtral.tokenizer_path is None
    assert [(p.shape.value, p.local_replicas, p.engine) for p in mixtral.pools] == [
        (Shape(tp=8, ep=2), 1, "simulated"),
        (Shape(tp=4), 2, "simulated"),
        (Shape(tp=2), 4, "simulated"),
    ]
    assert sum(p.replica_count * p.shape.value.gpus for p in mixtral.pools) == 24
    assert [pool.name for pool in config.models[0].pools if pool.local_replicas] == ["wide", "middle", "narrow"]


def test_defaults(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, f"models: [{MODEL}]"))
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 8080)
    assert config.listen.worker_count(cores=6) == 6
    assert config.listen.max_body_bytes == 8 * 1024 * 1024
    assert config.models[0].routing.policy == "auto"
    assert config.models[0].pools[0].role is Role.BOTH
    assert config.models[0].pools[0].simulated is None


def test_paths_are_relative_to_the_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub", model(tokenizer="./models/x") + "\nstate: ../data\n")
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("sub/penstock.yaml"))
    assert config.models[0].tokenizer_path == tmp_path / "sub" / "models" / "x"
    assert config.state_dir == tmp_path / "data"
    with pytest.raises(ConfigError, match=r"c\.yaml: models\[0\]\.tokenizer: .*/sub/models/x does not exist"):
        resolve(config, "c.yaml", ())
    (tmp_path / "sub" / "models" / "x").mkdir(parents=True)
    resolve(config, "c.yaml", ())


def test_an_unknown_bundled_tokenizer_is_named(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, model(tokenizer="tekken")))
    with pytest.raises(ConfigError) as caught:
        resolve(config, "c.yaml", {"mistral-tekken"})
    assert str(caught.value) == (
        'c.yaml: models[0].tokenizer: "tekken" is not bundled (mistral-tekken is); a path must have a / in it'
    )


def test_a_pool_elsewhere(tmp_path: Path) -> None:
    addresses = "['grpc://10.0.0.2:50051', 'grpc://[::1]:50051', 'unix:/run/r.sock']"
    config = load_config(written(tmp_path, pool(replicas=addresses)))
    (only,) = config.models[0].pools
    assert (only.local_replicas, only.replica_count) == (0, 3)
    assert only.addresses[2] == "unix:/run/r.sock"


def test_one_upstream_may_serve_many_models(tmp_path: Path) -> None:
    pools = "[{name: p, engine: openai, replicas: ['https://api.example/v1']}]"
    text = f"models: [{{name: a, context: 99, pools: {pools}}}, {{name: b, context: 99, pools: {pools}}}]"
    assert [model.name for model in load_config(written(tmp_path, text)).models] == ["a", "b"]
    twice = pools.replace("v1']", "v1', 'https://api.example/v1']")
    said = 'models[0].pools[0].replicas[1]: "https://api.example/v1" is already taken by models[0].pools[0].replicas[0]'
    assert refusal(tmp_path, f"models: [{{name: a, context: 99, pools: {twice}}}]") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("# nothing", "the file is empty"),
        ("[]", "expected a mapping with models in it"),
        ("{}", "models: required, but missing"),
        ("listen: {}", "models: required, but missing"),
        ("models: []", "models: expected list of length >= 1, got []"),
        (pool(shape="{tp: x}"), 'models[0].pools[0].shape.tp: expected int, got "x"'),
        (pool(shape="{tp: 0}"), "models[0].pools[0].shape.tp: expected int >= 1, got 0"),
        (pool(shape="{tp: 2.5}"), "models[0].pools[0].shape.tp: expected int, got 2.5"),
        (pool(shape="{tp: true}"), "models[0].pools[0].shape.tp: expected int, got true"),
        (pool(shape="{tp: 4, ep: 3}"), "models[0].pools[0].shape.ep: must divide tp (4), got 3"),
        (pool(shape="{tpp: 4}"), "models[0].pools[0].shape.tpp: unknown field; did you mean tp?"),
        (
            model(zzz="1"),
            "models[0].zzz: unknown field; known here: name, ",
        ),
        (
            f"models: [{MODEL}]\nquotas: []",
            "quotas: unknown field; known here: listen, state, store, auth, discovery, kubernetes, launchers, models, ",
        ),
        (f"models: [{MODEL}]\n1: x", "keys must be strings"),
        (f"models: [{MODEL}]\nlisten: {{workers: 0}}", "listen.workers: expected int >= 1, got 0"),
        (f"models: [{MODEL}]\nlisten: {{port: 65536}}", "listen.port: expected int <= 65535, got 65536"),
        (
            f"models: [{MODEL}]\nlisten: {{header_timeout_seconds: 61}}",
            "listen.header_timeout_seconds: expected int <= 60, got 61",
        ),
        (f"models: [{MODEL}]\nlisten: 8080", "listen: expected mapping, got 8080"),
        (model(fallbacks="{models: [m]}"), "models[0].fallbacks.models[0]: a model cannot fall back to itself"),
        (f"models: [{MODEL}, {MODEL}]", 'models[1].name: "m" is already taken by models[0].name'),
        (model(pools=f"[{POOL}, {POOL}]"), 'models[0].pools[1].name: "p" is already taken by models[0].pools[0].name'),
        (
            pool(replicas="['unix:/a', 'unix:/a']"),
            'models[0].pools[0].replicas[1]: "unix:/a" is already taken by models[0].pools[0].replicas[0]',
        ),
        (
            pool(engine="openai", replicas="['https://h/v1/chat/completions']"),
            "models[0].pools[0].replicas[0]: expected the base URL that the API's paths follow: "
            "leave out what comes after /v1",
        ),
        (pool(replicas="[]"), "models[0].pools[0].replicas: expected list of length >= 1, got []"),
        (pool(replicas="0"), "models[0].pools[0].replicas: expected int >= 1, got 0"),
        (
            pool(replicas="[localhost]"),
            "models[0].pools[0].replicas[0]: expected grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH, "
            'got "localhost"',
        ),
        (
            pool(replicas="['grpc://h:0']"),
            'models[0].pools[0].replicas[0]: expected grpc://HOST:PORT, grpcs://HOST:PORT or unix:/PATH, got "grpc://h:0"',
        ),
        (
            pool(engine="trtllm"),
            "models[0].pools[0].engine: expected openai or simulated or tensorrt_llm or triton or trtllm_grpc, "
            'got "trtllm"',
        ),
        (
            pool(role="prefill"),
            "models[0].pools[0].role: a prefill pool needs a decode pool, and the model has none",
        ),
        (
            pool(replicas="['unix:/a']", simulated="{speed: 2}"),
            "models[0].pools[0].simulated: only for replicas that are started here; "
            "elsewhere penstock replica has them",
        ),
        (
            pool(simulated="{instant: true, pace_ms: 3}"),
            "models[0].pools[0].simulated: instant and pace_ms exclude each other: each sets how long a step takes",
        ),
        (f"models: [{MODEL}]\nstore: {{timeout_seconds: 0.01}}", "store.timeout_seconds: expected float >= 0.05, got"),
        (f"models: [{MODEL}]\nstore: {{timeout_seconds: 11}}", "store.timeout_seconds: expected float <= 10.0, got 11"),
        (
            f"models: [{MODEL}]\nstore: {{url: 'redis://h:x/0'}}",
            "store.url: the address cannot be read; a port is a number from 0 to 65535",
        ),
        (
            f"models: [{MODEL}]\nstore: {{url: 'unix://relative'}}",
            "store.url: a unix:// address needs an absolute path, as in unix:///run/valkey.sock",
        ),
        (
            "models:\n  - {name: [}\n",
            "line 2, column 13: expected the node content, but found '}' while parsing a flow node",
        ),
        ("a: 1\nb: 2\na: 3\n", 'line 3, column 1: "a" is given twice in the same mapping'),
        ("a: !!python/object:os.system {}", "line 1, column 4: could not determine a constructor for the tag"),
        (b"a: \xff", "not UTF-8 text at byte 3"),
        ("a: \x01", "unacceptable character #x0001: special characters are not allowed"),
        ("a: 2024-99-99", "a value cannot be read: month must be in 1..12"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_refusals_name_the_place(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert refusal(tmp_path, text).startswith(said)


def test_a_stores_password_is_never_shown(tmp_path: Path) -> None:
    assert "hunter2" not in refusal(tmp_path, f"models: [{MODEL}]\nstore: {{url: 'http://u:hunter2@h'}}")
    assert "hunter2" not in refusal(tmp_path, f"models: [{MODEL}]\nstore: {{url: 'redis://u:hunter2@h:x'}}")
    config = load_config(written(tmp_path, f"models: [{MODEL}]\nstore: {{url: 'rediss://u:hunter2@h/0'}}"))
    assert config.store.shown_url == "rediss://***@h/0"


def test_a_cluster_is_an_address_too(tmp_path: Path) -> None:
    url = "redis+cluster://u:hunter2@10.0.0.1:7000,[::1]:7001,h"
    config = load_config(written(tmp_path, f"models: [{MODEL}]\nstore: {{url: '{url}'}}"))
    assert config.store.shown_url == "redis+cluster://***@10.0.0.1:7000,[::1]:7001,h"
    for wrong in ("", "h:x", "h:0", "h,,i", "u:hunter2@h/0", "u:hunter2", "h?x=y"):
        said = refusal(tmp_path, f"models: [{MODEL}]\nstore: {{url: 'rediss+cluster://{wrong}'}}")
        assert said.startswith("store.url: expected redis+cluster://HOST:PORT,HOST:PORT")
        assert "hunter2" not in said


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read: No such file or directory"):
        load_config(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path)


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf", "1e400", "-1"])
def test_numbers_outside_all_bounds(tmp_path: Path, number: str) -> None:
    assert refusal(tmp_path, pool(simulated=f"{{speed: {number}}}")).startswith("models[0].pools[0].simulated.speed: ")


@pytest.mark.parametrize("name", ["", "a b", "-a", "a\n", "é", "x" * 129])
def test_model_names_are_checked(tmp_path: Path, name: str) -> None:
    text = yaml.safe_dump({"models": [{"name": name, "tokenizer": "t", "context": 2, "pools": [yaml.safe_load(POOL)]}]})
    assert refusal(tmp_path, text).startswith("models[0].name: expected str matching regex")


def test_merges_and_aliases_stay_usable(tmp_path: Path) -> None:
    text = "models:\n  - name: m\n    tokenizer: t\n    context: 9\n    pools:\n"
    text += "      - &p {name: a, engine: simulated, replicas: 1}\n      - {<<: *p, name: b}\n"
    config = load_config(written(tmp_path, text))
    assert [p.name for p in config.models[0].pools] == ["a", "b"]


def _described(form: dict[str, Any]) -> list[str]:
    return [
        f"{name}.{field}"
        for name, definition in form["$defs"].items()
        for field, value in definition.get("properties", {}).items()
        if not value.get("description")
    ]


def test_the_schema_describes_every_field_and_allows_no_other() -> None:
    form = schema()
    assert _described(form) == []
    assert all(d["additionalProperties"] is False for d in form["$defs"].values() if "properties" in d)


def test_a_configuration_is_frozen() -> None:
    config = load_config(ROOT / "penstock.yaml")
    with pytest.raises(AttributeError):
        config.listen.port = 1  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(config), type=Config) == config


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
names = st.sampled_from(["models", "pools", "name", "shape", "tp", "replicas", "listen", "store", "url", "simulated"])
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.integers(), inner, max_size=4)
)


@settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(value=st.dictionaries(names, anything, max_size=4))
@example(value={"models": "\u2028"})
@example(value={"a\x85b": 1})
def test_any_mapping_is_loaded_or_refused_in_one_line(tmp_path: Path, value: dict[str, Any]) -> None:
    path = written(tmp_path, yaml.safe_dump(value, allow_unicode=True))
    try:
        load_config(path)
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1


@settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(text=st.binary(max_size=40) | st.text(alphabet="ab:-[]{}&*!|>'\"% \n#?,<", max_size=40).map(str.encode))
def test_any_bytes_are_refused_in_one_line(tmp_path: Path, text: bytes) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert len(str(caught.value).splitlines()) == 1
