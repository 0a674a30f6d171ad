import json

from tools.published_shapes import FILE, file_text, shapes


def test_the_file_is_what_the_clients_say_now() -> None:
    assert FILE.read_text() == file_text(), "run `python -m tools.published_shapes`"


def test_every_shape_is_there_and_none_has_prose() -> None:
    found = shapes()
    text = json.dumps(found)
    named = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert named <= set(found)
    assert '"description": "' not in text
