"""Libraries of lock files, in the forms that package managers write."""

import pytest

from gateway.scan.files.manifests import LOCKS, is_manifest, package_findings

NPM_1 = """\
{
  "name": "web", "lockfileVersion": 1, "requires": true,
  "dependencies": {
    "@anthropic-ai/sdk": {
      "version": "0.30.0",
      "requires": {"node-fetch": "^2.6.7"}
    },
    "openai": {
      "version": "4.70.0"
    },
    "left-pad": {
      "version": "1.3.0"
    }
  }
}
"""
NPM_3 = """\
{
  "name": "web", "lockfileVersion": 3,
  "packages": {
    "": {"name": "web", "dependencies": {"openai": "^4.70.0"}},
    "node_modules/@anthropic-ai/sdk": {
      "version": "0.30.0"
    },
    "node_modules/openai": {
      "version": "4.70.0"
    },
    "node_modules/openai/node_modules/left-pad": {
      "version": "1.3.0"
    }
  }
}
"""
YARN_1 = """\
# yarn lockfile v1

"@anthropic-ai/sdk@^0.30.0":
  version "0.30.0"
  dependencies:
    node-fetch "^2.6.7"

left-pad@^1.3.0:
  version "1.3.0"

openai@^4.70.0, openai@^4.71.0:
  version "4.71.0"
"""
YARN_4 = """\
__metadata:
  version: 8

"@anthropic-ai/sdk@npm:^0.30.0":
  version: 0.30.0
  resolution: "@anthropic-ai/sdk@npm:0.30.0"

"openai@npm:^4.70.0, openai@npm:^4.71.0":
  version: 4.71.0
"""
PNPM_6 = """\
lockfileVersion: '6.0'
packages:

  /@anthropic-ai/sdk@0.30.0:
    resolution: {integrity: sha512-a}

  /openai@4.70.0(zod@3.23.8):
    resolution: {integrity: sha512-b}
"""
PNPM_9 = """\
lockfileVersion: '9.0'
importers:
  .:
    dependencies:
      openai:
        specifier: ^4.70.0
        version: 4.70.0(zod@3.23.8)
packages:

  '@anthropic-ai/sdk@0.30.0':
    resolution: {integrity: sha512-a}

  openai@4.70.0:
    resolution: {integrity: sha512-b}
"""
BUN = """\
{
  "lockfileVersion": 1,
  "workspaces": {"": {"name": "web", "dependencies": {"openai": "^4.70.0"}}},
  "packages": {
    "@anthropic-ai/sdk": ["@anthropic-ai/sdk@0.30.0", "", {}, "sha512-a"],

    "openai": ["openai@4.70.0", "", { "dependencies": { "zod": "3" } }, "sha512-b"],
  }
}
"""
UV = """\
version = 1

[[package]]
name = "anthropic"
version = "0.40.0"

[[package]]
name = "openai"
version = "1.57.0"
dependencies = [{ name = "httpx" }]
"""
PIPFILE = """\
{
    "_meta": {"pipfile-spec": 6},
    "default": {
        "anthropic": {"version": "==0.40.0"},
        "openai": {
            "version": "==1.57.0"
        }
    }
}
"""
NODE = {"@anthropic-ai/sdk", "openai"}
PYTHON = {"anthropic", "openai"}


@pytest.mark.parametrize(
    ("name", "text", "packages"),
    [
        ("package-lock.json", NPM_1, NODE),
        ("package-lock.json", NPM_3, NODE),
        ("npm-shrinkwrap.json", NPM_3, NODE),
        ("yarn.lock", YARN_1, NODE),
        ("yarn.lock", YARN_4, NODE),
        ("pnpm-lock.yaml", PNPM_6, NODE),
        ("pnpm-lock.yaml", PNPM_9, NODE),
        ("bun.lock", BUN, NODE),
        ("uv.lock", UV, PYTHON),
        ("poetry.lock", UV, PYTHON),
        ("pipfile.lock", PIPFILE, PYTHON),
    ],
)
def test_libraries_of_models_are_found_at_their_line(name: str, text: str, packages: set[str]) -> None:
    assert is_manifest(name)
    assert name in LOCKS
    found = {finding.value: finding.line for finding in package_findings(f"app/{name}", name, text)}
    assert set(found) == packages
    lines = text.splitlines()
    assert all(package in lines[line - 1] for package, line in found.items())
