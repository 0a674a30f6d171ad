from gateway.text.schemas.absent_members import without_nulls


def test_members_that_are_null_are_absent_at_every_level() -> None:
    schema = {
        "type": "object",
        "required": None,
        "description": None,
        "properties": {"a": {"type": "string", "enum": ["x", None], "default": None, "pattern": None}, "b": None},
        "items": [{"required": None}],
        "anyOf": [{"properties": None}, True],
    }
    assert without_nulls(schema) == {
        "type": "object",
        "properties": {"a": {"type": "string", "enum": ["x", None], "default": None}, "b": {}},
        "items": [{}],
        "anyOf": [{}, True],
    }
