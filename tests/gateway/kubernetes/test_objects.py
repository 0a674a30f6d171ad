import msgspec
import pytest

from gateway.kubernetes.objects import LabelSelector


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"a": "1"},
                "matchExpressions": [
                    {"key": "b", "operator": "In", "values": ["2", "3"]},
                    {"key": "c", "operator": "NotIn", "values": ["4"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"},
                ],
            },
            "a=1,b in (2,3),c notin (4),d,!e",
        ),
    ],
)
def test_a_selector_is_asked_for_as_the_api_takes_it(selector: object, text: str) -> None:
    assert msgspec.convert(selector, LabelSelector).text == text
