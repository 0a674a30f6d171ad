"""What a container is started with, as Kubernetes documents it (Reference, "Container v1 core", and "Quantity")."""

import pytest

from tests.kubernetes.played.fields import command_of, expanded, quantity
from tests.kubernetes.played.images import Image


def test_variables_are_put_in_where_they_are_known() -> None:
    env = {"A": "1", "b.c-d": "2"}
    assert expanded("$(A) $(b.c-d) $(UNKNOWN) $$(A) $A", env) == "1 2 $(UNKNOWN) $(A) $A"


@pytest.mark.parametrize(("text", "value"), [("2", "2"), ("250m", "1"), ("1500m", "2"), ("1Gi", "1073741824")])
def test_quantities_are_integers_rounded_up(text: str, value: str) -> None:
    assert quantity(text) == value


def test_a_command_takes_the_images_arguments_away() -> None:
    image = Image(("entry",), ("default",))
    assert command_of({}, image, {}) == ["entry", "default"]
    assert command_of({"args": ["$(A)"]}, image, {"A": "x"}) == ["entry", "x"]
    assert command_of({"command": ["own"]}, image, {}) == ["own"]
