"""The differences of two configurations: complete, and without anything secret."""

from typing import Any

import msgspec
import pytest
from hypothesis import given

from gateway.config.settings import Config
from gateway.reload.changes import ORDER_OF, UNSET, Change, changes, shown
from tests.gateway.reload.configs import BASE, CONFIGS, base, far


def applied(before: Any, change: Change) -> Any:
    """What a configuration is after one change of it, as plain values."""
    at = before
    for name in change.path[:-1]:
        at = _item(at, name) if isinstance(at, list) else at[name]
    last = change.path[-1]
    if isinstance(at, dict) and isinstance(last, str) and last.startswith(ORDER_OF):
        items = at[last.removeprefix(ORDER_OF)]
        ranks = {name: place for place, name in enumerate(change.after)}
        kept = sorted((item for item in items if item["name"] in ranks), key=lambda item: ranks[item["name"]])
        at[last.removeprefix(ORDER_OF)] = kept + [item for item in items if item["name"] not in ranks]
    elif isinstance(at, dict):
        at[last] = change.after
    elif isinstance(last, int):
        at[last : last + 1] = [] if change.after is UNSET else [change.after]
    else:
        at[:] = [item for item in at if item["name"] != last] + ([] if change.after is UNSET else [change.after])
    return before


def _item(items: list[Any], name: str | int) -> Any:
    return items[name] if isinstance(name, int) else next(item for item in items if item["name"] == name)


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists(inner) for name, inner in value.items()}
    return [_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


def _by_name(value: Any) -> Any:
    """Plain values in which items with names have no order."""
    if isinstance(value, dict):
        return {name: _by_name(inner) for name, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        return {item["name"]: _by_name(item) for item in value}
    return [_by_name(inner) for inner in value] if isinstance(value, list) else value


@given(CONFIGS, CONFIGS)
def test_the_changes_make_the_one_of_the_other(before: Config, after: Config) -> None:
    value = _lists(msgspec.to_builtins(before))
    found = changes(before, after)
    # Of what goes the last one first: it does not move what is still to be changed.
    for change in (
        *(change for change in found if change.after is not UNSET),
        *(change for change in reversed(found) if change.after is UNSET),
    ):
        value = applied(value, _of_lists(change))
    assert _by_name(value) == _by_name(_lists(msgspec.to_builtins(after)))


def _of_lists(change: Change) -> Change:
    return Change(change.path, change.before, change.after if change.after is UNSET else _lists(change.after))


@given(CONFIGS, CONFIGS)
def test_there_are_none_exactly_where_the_configurations_are_equal(before: Config, after: Config) -> None:
    assert (changes(before, after) == []) == (before == after)


@given(CONFIGS, CONFIGS)
def test_the_way_back_has_the_same_paths(before: Config, after: Config) -> None:
    there, back = changes(before, after), changes(after, before)
    assert {(change.path, repr(change.before)) for change in there} == {
        (change.path, repr(change.after)) for change in back
    }


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (base(listen={"port": 9}), ["listen.port: 8080 -> 9"]),
        (far(price={"input": 1, "output": 2}), None),
        (base(tenants=[]), ["tenants[acme]: removed"]),
        (
            base(tenants=[{"name": "acme", "limits": {"rpm": 20}}, {"name": "new"}]),
            ["tenants[acme].limits.rpm: 10 -> 20", "tenants[new]: added"],
        ),
        (far(aliases=["x"]), ['models[far].aliases[0]: added ("x")']),
        (base(models=BASE["models"][::-1]), ['order of models: ["far", "near"] -> ["near", "far"]']),
        (
            far(pools=[{"name": "pool", "engine": "tensorrt_llm", "replicas": ["grpc://a:1"]}]),
            ['models[far].pools[pool].replicas[1]: removed ("grpc://b:1")'],
        ),
    ],
)
def test_lines_name_the_path_and_both_values(after: Config, lines: list[str] | None) -> None:
    found = [str(change) for change in changes(base(), after)]
    if lines is None:
        assert found[0].startswith('models[far].price: unset -> {"input": 1.0, ')
    else:
        assert found == lines


@pytest.mark.parametrize(
    "sections",
    [
        {"store": {"url": "redis://user:hunter2-hunter2@store:6379/0"}},
        {"alerts": {"webhook": "https://hooks.example/T0/hunter2-hunter2"}},
        {"observability": {"traces": {"endpoint": "http://user:hunter2-hunter2@collector:4318/"}}},
        {"observability": {"traces": {"headers": {"authorization": "hunter2-hunter2"}}}},
        {"safety": {"filters": [{"name": "c", "canaries": {"tokens": ["hunter2-hunter2"]}}]}},
    ],
)
def test_what_may_be_secret_is_not_shown(sections: dict[str, Any]) -> None:
    after = base(**sections)
    for one, other in ((base(), after), (after, base())):
        lines = [str(change) for change in changes(one, other)]
        assert lines
        assert "hunter2-hunter2" not in "".join(lines)


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 10_000)) == 160


def test_members_that_are_unset_are_not_shown() -> None:
    assert (
        shown({"input": 1.0, "cached_input": None, "steps": [{"a": None, "b": 2}]})
        == '{"input": 1.0, "steps": [{"b": 2}]}'
    )
