"""The console's files: without a key, without data, and with nothing that loads or runs anything from elsewhere."""

import re
from importlib import resources

from tests.gateway.admin.bench import bench_of

FILES = {
    "/console": "text/html; charset=utf-8",
    "/console/console.css": "text/css; charset=utf-8",
    "/console/console.js": "text/javascript; charset=utf-8",
    "/console/pages.js": "text/javascript; charset=utf-8",
    "/console/rollouts.js": "text/javascript; charset=utf-8",
    "/console/scaling.js": "text/javascript; charset=utf-8",
    "/console/shapes.js": "text/javascript; charset=utf-8",
    "/console/icon.svg": "image/svg+xml",
}
SCRIPTS = ("console.js", "pages.js", "rollouts.js", "scaling.js", "shapes.js")
SHOWN = ("index.html", "console.css", *SCRIPTS)


async def test_the_page_and_its_files_need_no_key_and_no_store() -> None:
    async with bench_of("unix:///nonexistent/store.sock") as bench:
        for path, media in FILES.items():
            for method in ("GET", "HEAD"):
                call = bench.call(method, path, headers=[])
                call.put(b"")
                answer = await call.answer()
                assert (answer.status, answer.headers["content-type"]) == (200, media)
                assert answer.headers["x-content-type-options"] == "nosniff"
                policy = answer.headers["content-security-policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert "unsafe" not in policy


async def test_there_is_nothing_else() -> None:
    async with bench_of("unix:///nonexistent/store.sock") as bench:
        for path in ("/console/x", "/console/../app.py", "/console/__init__.py", "/console/console.js/"):
            for headers, status in (([], 401), (None, 404)):
                call = bench.call("GET", path, headers=headers)
                call.put(b"")
                assert (await call.answer()).status == status
        assert (await bench.ask("POST", "/console")).status == 404


async def test_a_slash_too_many() -> None:
    async with bench_of("unix:///nonexistent/store.sock") as bench:
        call = bench.call("GET", "/console/", headers=[])
        call.put(b"")
        answer = await call.answer()
        assert (answer.status, answer.headers["location"]) == (308, "../console")


def test_nothing_from_elsewhere_and_no_html_from_text() -> None:
    folder = resources.files("gateway.admin.console")
    texts = {name: folder.joinpath(name).read_text("utf-8") for name in SHOWN}
    for name, text in texts.items():
        addresses = set(re.findall(r"https?://[^\s\"']+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
    for name in SCRIPTS:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|localStorage", texts[name]
        ), name
    assert not re.search(r"<script>|style=|\son\w+=", texts["index.html"])


def test_no_script_replaces_what_another_one_declares() -> None:
    folder = resources.files("gateway.admin.console")
    found: dict[str, str] = {}
    for name in SCRIPTS:
        for declared in re.findall(
            r"^(?:async )?(?:function|const|let) (\w+)", folder.joinpath(name).read_text("utf-8"), re.M
        ):
            assert found.setdefault(declared, name) == name, f"{declared} is in {found[declared]} and {name}"
