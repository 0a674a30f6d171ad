"""The table of kinds."""

import re
import subprocess
import sys

from safety.pii.kinds import ALL, KINDS, PERSONAL, SECRETS


def test_each_kind_is_personal_or_a_secret() -> None:
    assert PERSONAL | SECRETS == ALL == set(KINDS)
    assert not PERSONAL & SECRETS


def test_names_are_labels() -> None:
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{2,30}", name) and kind.name == name for name, kind in KINDS.items())
    assert all(kind.description for kind in KINDS.values())


def test_the_table_is_light() -> None:
    code = "import sys, safety.pii.kinds; assert 're2' not in sys.modules and 'hyperscan' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
