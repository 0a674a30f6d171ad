import pytest

from tests import async_tests

pytest_plugins = ["pytester"]


def outcome(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(f"import asyncio\nimport pytest\n{text}")
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "--strict-markers", *options, plugins=[async_tests])


def test_one_that_passes_and_one_that_does_not(pytester: pytest.Pytester) -> None:
    result = outcome(
        pytester,
        """
async def test_passes():
    await asyncio.sleep(0)

async def test_fails():
    await asyncio.sleep(0)
    assert 1 + 1 == 3
""",
    )
    result.assert_outcomes(passed=1, failed=1)


def test_an_exception_has_the_tests_own_traceback(pytester: pytest.Pytester) -> None:
    result = outcome(
        pytester,
        """
async def deeper():
    raise ValueError("this one")

async def test_fails():
    await deeper()
""",
        "--tb=short",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["test_*.py:8: in test_fails", "*await deeper()", "test_*.py:5: in deeper", "E   ValueError: this one"]
    )
    result.stdout.no_fnmatch_line("*runners.py*")
    result.stdout.no_fnmatch_line("*loops.py*")


def test_one_that_hangs_fails_by_its_bound_and_shows_where(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.loops.BOUND_SECONDS", 0.05)
    result = outcome(
        pytester,
        """
async def test_hangs():
    await asyncio.Event().wait()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [">*await asyncio.Event().wait()", "E *TimeoutError", "E *It has not ended within 0.05 s."]
    )


def test_one_that_hangs_where_it_expects_a_cancellation_fails_too(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.loops.BOUND_SECONDS", 0.05)
    result = outcome(
        pytester,
        """
async def test_hangs():
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *It has not ended within 0.05 s."])


def test_a_timeout_of_the_test_itself_is_not_taken_for_the_bound(pytester: pytest.Pytester) -> None:
    result = outcome(
        pytester,
        """
async def test_raises():
    async with asyncio.timeout(0.01):
        await asyncio.Event().wait()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*It has not ended*")


def test_a_task_that_is_left_behind_fails_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.loops.SOON_SECONDS", 0.5)
    result = outcome(
        pytester,
        """
async def test_leaves_one():
    task = asyncio.create_task(asyncio.Event().wait(), name="the one that stays")

async def test_leaves_one_that_ends_soon():
    task = asyncio.create_task(asyncio.sleep(0))
""",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *AssertionError: left behind: *the one that stays*"])


def test_fixtures_parameters_classes_and_marks(pytester: pytest.Pytester) -> None:
    result = outcome(
        pytester,
        """
@pytest.fixture
def seven():
    return 7

@pytest.mark.parametrize("number", [7, 8])
async def test_numbers(seven, number):
    assert seven == number

class TestMethods:
    async def test_method(self, seven):
        assert seven == 7

@pytest.mark.skip
async def test_skipped():
    raise AssertionError

@pytest.mark.xfail(raises=KeyError, strict=True)
async def test_expected():
    raise KeyError

def test_plain(seven):
    assert seven == 7
""",
    )
    result.assert_outcomes(passed=3, failed=1, skipped=1, xfailed=1)


def test_properties(pytester: pytest.Pytester) -> None:
    result = outcome(
        pytester,
        """
from hypothesis import given, strategies as st

@pytest.mark.parametrize("least", [0, 50])
@given(number=st.integers(0, 100))
async def test_property(least, number):
    await asyncio.sleep(0)
    assert number >= least
""",
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["least = 50, number = 0"])


def test_a_property_that_hangs_fails_by_its_bound(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.loops.BOUND_SECONDS", 0.05)
    result = outcome(
        pytester,
        """
from hypothesis import Phase, given, settings, strategies as st

@settings(max_examples=3, phases=[Phase.generate])
@given(number=st.integers(0, 100))
async def test_hangs(number):
    await asyncio.Event().wait()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *It has not ended within 0.05 s."])


def test_without_the_plugin_no_test_passes_unrun(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("async def test_it(): raise AssertionError")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(failed=1)
