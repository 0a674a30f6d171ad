"""What the configuration may not say of guards, and how they are built from it."""

from pathlib import Path
from typing import Any

import pytest

from gateway.config.safety.guard_checks import guard_problems, with_absolute_files
from gateway.config.safety.guards import Asking, HttpGuard, ModelGuard, PluginFilter, PresidioFilter
from gateway.config.secrets import SecretSource
from gateway.filtering.guards.build_guards import GuardServices, build_guard
from gateway.filtering.guards.errors import GuardUnusable
from gateway.filtering.guards.unusable_guards import unusable_guard
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.providers.provider_keys import keyless
from safety.guard import Guard
from tests.certificates import Authority
from tests.loops import bounded

URL = "https://moderation.example/v1/moderations"


@pytest.mark.parametrize(
    ("settings", "problems"),
    [
        (ModelGuard(name="guard"), []),
        (ModelGuard(name="guard:adapter"), []),
        (ModelGuard(name="absent"), [("at.name", 'there is no model "absent"')]),
        (ModelGuard(name="guard", instruction="Is {text} harmful?"), []),
        (ModelGuard(name="guard", instruction="Is it?"), [("at.instruction", "expected {text} in it")]),
        (ModelGuard(name="guard", safe=" UNSAFE"), [("at.safe", "is the same as unsafe")]),
        (ModelGuard(name="guard", unsafe=" \n"), [("at.unsafe", "expected a word")]),
        (HttpGuard(url=URL), []),
        (HttpGuard(url="http://h:80x/"), [("at.url", "")]),
        (HttpGuard(url="http://h/?key=1"), [("at.url", "expected http://HOST")]),
        (HttpGuard(url="http://h/", ca="ca.pem"), [("at.ca", "is of no use")]),
        (HttpGuard(url=URL, ca="ca.pem"), []),
        (HttpGuard(url=URL, api_key=SecretSource()), [("at.api_key", "expected exactly one of env, file")]),
        (PluginFilter(target="a:B"), []),
    ],
)
def test_rules(settings: Asking, problems: list[tuple[str, str]]) -> None:
    found = list(guard_problems(settings, "at", ("guard", "guard:adapter")))
    assert len(found) == len(problems)
    for (where, problem), (expected, start) in zip(found, problems, strict=True):
        assert where == expected
        assert problem.startswith(start)


def test_files_are_taken_from_the_configurations_folder(tmp_path: Path) -> None:
    settings = HttpGuard(url=URL, ca="tls/ca.pem", api_key=SecretSource(file="key"))
    found = with_absolute_files(settings, tmp_path)
    assert found.ca == str(tmp_path / "tls" / "ca.pem")
    assert found.api_key == SecretSource(file=str(tmp_path / "key"))
    bare: list[Asking] = [HttpGuard(url=URL), ModelGuard(name="guard")]
    assert [with_absolute_files(one, tmp_path) for one in bare] == bare


def test_files_that_cannot_be_used_on_this_machine(tmp_path: Path) -> None:
    authority, key = Authority(tmp_path), tmp_path / "key"
    key.write_text("sk-1\n", encoding="utf-8")
    good = HttpGuard(url=URL, ca=str(authority.ca), api_key=SecretSource(file=str(key)))
    assert list(unusable_guard(good, "at")) == []
    bad = HttpGuard(url=URL, ca=str(key), api_key=SecretSource(env="PENSTOCK_TEST_NO_SUCH_VARIABLE"))
    assert [where for where, _ in unusable_guard(bad, "at")] == ["at.ca", "at.api_key"]
    assert list(unusable_guard(ModelGuard(name="guard"), "at")) == []


def test_code_that_cannot_be_used_on_this_machine() -> None:
    assert list(unusable_guard(PluginFilter(target=f"{__name__}:NoFilter"), "at")) == []
    assert [where for where, _ in unusable_guard(PluginFilter(target=f"{__name__}:Absent"), "at")] == ["at.target"]
    unknown = PluginFilter(target=f"{__name__}:NoFilter", settings={"x": 1})
    assert [where for where, _ in unusable_guard(unknown, "at")] == ["at.settings"]
    missing = "presidio_analyzer is not installed; it comes with: pip install presidio-analyzer"
    assert list(unusable_guard(PresidioFilter(), "at")) == [("at", missing)]


def built(settings: Asking) -> str:
    """What is wrong with it, once it has been built and closed again."""
    problems: list[str] = []

    async def main() -> None:
        around = GuardServices(lambda settings: None, EncodingQueue(), keyless)
        try:
            bounded = build_guard(settings, "safety.filters[1]", around)
            known: Guard = bounded
            assert known is bounded
            await bounded.aclose()
        except GuardUnusable as error:
            problems.append(str(error))
        finally:
            around.encoding.close()

    bounded(main)
    return "".join(problems)


class NoFilter:
    """A plugin that finds nothing."""

    def scan(self, text: str) -> list[Any]:
        return []


def test_building() -> None:
    assert built(HttpGuard(url=URL)) == ""
    assert built(PluginFilter(target=f"{__name__}:NoFilter")) == ""
    assert built(ModelGuard(name="absent")) == "safety.filters[1].model.name: there is no model absent"
    assert built(PluginFilter(target=f"{__name__}:Absent")).startswith("safety.filters[1].plugin.target: ")
