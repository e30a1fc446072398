#!/usr/bin/env python3
"""The page of the admin port in headless Chromium. CAUSEWAY_SCREENSHOT=FILE keeps a picture of it.

Skipped, with the reason, where no Chromium is.
"""

import os
import shutil
import sys
import unittest
import urllib.request
from pathlib import Path

from browser import Browser, find_chromium
from running_server import TINY_MEMORY, ModelsFolder, RunningServer, make_model

CHROMIUM = find_chromium()
SKIPPED = 77  # what CMake takes for that
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
HOSTILE = "<img src=x onerror=broken()><script>broken()<" + "&quot;'\"" + "\u202egnp"


def head(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.status, answer.headers, answer.read()


class Page(ModelsFolder):
    MODELS = ("llama-small", "qwen-small", "mistral-small")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_model(cls.root / HOSTILE, seed=9)
        for folder in cls.root.iterdir():
            (folder / "chat_template.jinja").write_text(TEMPLATE)

    def serve(self, *arguments, **options):
        return RunningServer("--models-dir", self.root, *TINY_MEMORY, "--admin-port", 0,
                             "--load-on-demand", *arguments, **options)

    def open(self, browser, server, **how):
        browser.open(server.admin_url + "/", **how)

    def row(self, name):
        """In JavaScript, the text of a model's row."""
        return (f"[...document.querySelectorAll('#models tr')].find((tr) => "
                f"tr.querySelector('bdi').textContent === {name!r})?.innerText ?? ''")

    def press(self, browser, name, label):
        browser.run(f"[...document.querySelectorAll('#models tr')].find((tr) => "
                    f"tr.querySelector('bdi').textContent === {name!r}).querySelectorAll('button')"
                    f".forEach((one) => one.textContent === {label!r} && one.click())")

    def talk(self, browser, model, words):
        browser.run(f"document.getElementById('which').value = {model!r};"
                    f"document.getElementById('words').value = {words!r};"
                    "document.getElementById('say').requestSubmit()")

    def test_shows_models_live(self):
        with self.serve() as server, Browser(CHROMIUM) as browser:
            self.open(browser, server)
            for name in self.MODELS:
                browser.until(f"({self.row(name)}).includes('unloaded')")
            server.admin("/admin/models/load", {"model": "llama-small"})
            browser.until(f"({self.row('llama-small')}).includes('ready')")
            self.press(browser, "qwen-small", "load")
            browser.until(f"({self.row('qwen-small')}).includes('ready')")
            self.press(browser, "qwen-small", "pin")
            browser.until(f"({self.row('qwen-small')}).includes('pinned')")
            self.press(browser, "qwen-small", "unload")
            browser.until("document.getElementById('notice').textContent.includes('pinned')")
            self.press(browser, "llama-small", "unload")
            browser.until(f"({self.row('llama-small')}).includes('unloaded')")
            for figure in ("Host memory", "Device memory", "Running", "First token in time",
                           "Tokens in time", "Link: weights, in"):
                self.assertIn(figure, browser.text())
            make_model(self.root / "new", seed=10)
            try:
                browser.run("document.getElementById('reload').click()")
                browser.until(f"({self.row('new')}).includes('unloaded')")
            finally:
                shutil.rmtree(self.root / "new")
            self.assertEqual([one for one in browser.complaints() if "409" not in str(one)], [])

    def test_chat(self):
        with self.serve() as server, Browser(CHROMIUM) as browser:
            self.open(browser, server)
            browser.until("document.getElementById('which').options.length === 4")
            self.talk(browser, "mistral-small", "<b>hello</b> & good day")
            browser.until("document.querySelectorAll('#talk p').length === 2 && "
                          "document.querySelectorAll('#talk p')[1].textContent.length > 20")
            self.assertIn("<b>hello</b> & good day", browser.text())
            self.assertEqual(browser.run("document.querySelectorAll('#talk b').length"), 0)
            browser.until("document.getElementById('send').textContent === 'Send'")
            self.talk(browser, "qwen-small", "never mind")
            browser.run("document.getElementById('say').requestSubmit()")  # it says Stop now
            browser.until("document.getElementById('send').textContent === 'Send'")
            self.assertEqual(server.admin("/admin/models")[1]["draining"], False)
            browser.run("document.getElementById('anew').click()")
            self.assertEqual(browser.run("document.querySelectorAll('#talk p').length"), 0)
            self.assertEqual(browser.complaints(), [])

    def test_chat_of_a_model_that_thinks(self):
        with self.serve("--reasoning-parser", "deepseek_r1") as server, \
                Browser(CHROMIUM) as browser:
            self.open(browser, server)
            browser.until("document.getElementById('which').options.length === 4")
            self.talk(browser, "qwen-small", "hello")
            browser.until("document.querySelector('#talk p[data-who=\"qwen-small thinks\"]')"
                          "?.textContent.length > 20")
            self.assertEqual(browser.complaints(), [])

    def test_hostile_names_are_text(self):
        with self.serve() as server, Browser(CHROMIUM) as browser:
            self.open(browser, server)
            browser.until("document.querySelectorAll('#models tr').length === 4")
            self.assertIn(HOSTILE, browser.run(
                "[...document.querySelectorAll('#models bdi')].map((one) => one.textContent)"))
            browser.until(f"({self.row(HOSTILE)}).includes('unloaded')")
            self.talk(browser, HOSTILE, HOSTILE)
            browser.until("document.querySelectorAll('#talk p').length >= 2")
            self.assertEqual(browser.run("document.images.length"), 0)
            self.assertEqual(browser.run("document.scripts.length"), 1)
            self.assertEqual(browser.complaints(), [])

    def test_policy_runs_nothing_else(self):
        with self.serve() as server, Browser(CHROMIUM) as browser:
            status, headers, body = head(server.admin_url + "/")
            self.assertEqual(status, 200)
            policy = headers["Content-Security-Policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["X-Frame-Options"], "DENY")
            self.assertNotIn(b"http://", body.replace(b"http://127", b""))
            self.assertNotIn(b"https://", body)
            self.open(browser, server)
            browser.run("document.body.insertAdjacentHTML('beforeend', "
                        "'<img src=x onerror=\"window.broken = true\">');"
                        "const made = document.createElement('script');"
                        "made.textContent = 'window.broken = true'; document.body.append(made);"
                        "fetch('http://localhost:1/').catch(() => window.kept = true)")
            browser.until("window.kept === true")
            self.assertFalse(browser.run("window.broken === true"))
            self.assertTrue(any("Content Security Policy" in str(one)
                                for one in browser.complaints()), browser.complaints())

    def test_a_key_is_asked_for_and_kept_for_the_session(self):
        with self.serve("--admin-key", "geheim") as server, Browser(CHROMIUM) as browser:
            self.open(browser, server)
            browser.until("!document.getElementById('ask').hidden")
            self.assertTrue(browser.run("document.getElementById('all').hidden"))
            self.assertNotIn("llama-small", browser.text())
            for key in ("wrong", "geheim"):
                browser.run(f"document.getElementById('key').value = {key!r};"
                            "document.getElementById('ask').requestSubmit()")
                if key == "wrong":
                    browser.until("document.getElementById('notice').textContent.includes('key')")
                    browser.until("!document.getElementById('ask').hidden")
            browser.until(f"({self.row('llama-small')}).includes('unloaded')")
            self.assertEqual(browser.run("Object.values(sessionStorage)"), ["geheim"])
            self.assertEqual(browser.run("localStorage.length"), 0)
            self.assertEqual(browser.run("document.cookie"), "")
            self.assertNotIn("geheim", browser.run("location.href"))
            self.talk(browser, "llama-small", "hello")
            browser.until("document.querySelectorAll('#talk p').length === 2 && "
                          "document.querySelectorAll('#talk p')[1].textContent.length > 0")
            browser.run("document.getElementById('forget').click()")
            browser.until("!document.getElementById('ask').hidden")
            self.assertEqual(browser.run("sessionStorage.length"), 0)

    def test_narrow_and_dark(self):
        with self.serve() as server, Browser(CHROMIUM) as browser:
            def brightness():
                return sum(map(int, browser.run(
                    "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)")))

            self.open(browser, server, width=400)
            browser.until("document.querySelectorAll('#models tr').length === 4")
            self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), 400)
            self.assertGreater(brightness(), 700)
            self.open(browser, server, width=400, dark=True)
            self.assertLess(brightness(), 150)

    def test_picture(self):
        where = os.environ.get("CAUSEWAY_SCREENSHOT")
        if where is None:
            self.skipTest("CAUSEWAY_SCREENSHOT names no file")
        shutil.move(self.root / HOSTILE, self.root / "gemma-small")
        try:
            with self.serve("--pin", "qwen-small", "--weights-memory-bytes", "64mb") as server, Browser(CHROMIUM) as browser:
                for name in ("llama-small", "qwen-small"):
                    server.admin("/admin/models/load", {"model": name})
                self.open(browser, server, width=1000, height=790)
                browser.until("document.getElementById('which').options.length === 4")
                self.talk(browser, "llama-small", "What is a causeway?")
                browser.until("document.querySelectorAll('#talk p')[1]?.textContent.length > 40")
                browser.until("!document.getElementById('figures').innerText.includes(' 0 of 0')"
                              " && !document.getElementById('figures').innerText"
                              ".includes('\\n0 in all')")
                Path(where).write_bytes(browser.screenshot())
        finally:
            shutil.move(self.root / "gemma-small", self.root / HOSTILE)


if __name__ == "__main__":
    if CHROMIUM is None:
        print("skipped: no Chromium is here; `scripts/test setup` installs it")
        sys.exit(SKIPPED)
    unittest.main()
