"""The chart's values with their meanings, out of a file and its comments."""

from tools.chart.values_table import Value, values_of, values_table

TEXT = """\
# Says something of the file alone.

# Pods.
replicas: 2
section:
  # Whether: a | or a line
  # of another.
  enabled: false
  nothing: {}
# A whole section.
other:
  # Of any form.
  notes:
    example.com/free: "yes"
"""


def test_a_comment_directly_above_is_the_meaning() -> None:
    assert list(values_of(TEXT)) == [
        Value("replicas", 2, "Pods."),
        Value("section", {"enabled": False, "nothing": {}}, ""),
        Value("section.enabled", False, "Whether: a | or a line of another."),
        Value("section.nothing", {}, ""),
        Value("other", {"notes": {"example.com/free": "yes"}}, "A whole section."),
        Value("other.notes", {"example.com/free": "yes"}, "Of any form."),
    ]


def test_sections_are_in_the_table_where_something_is_said_of_them() -> None:
    lines = values_table(TEXT).splitlines()
    assert lines[2:] == [
        "| `replicas` | `2` | Pods. |",
        r"| `section.enabled` | `false` | Whether: a \| or a line of another. |",
        "| `section.nothing` | `{}` |  |",
        "| `other` |  | A whole section. |",
        '| `other.notes` | `{"example.com/free": "yes"}` | Of any form. |',
    ]
