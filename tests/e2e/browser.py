"""A headless Chromium, driven by its DevTools protocol over two pipes; for tests of pages."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium():
    """The program, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page; use as a context manager. Every wait ends."""

    def __init__(self, program):
        self.program = program

    def __enter__(self):
        # What it started may write there a little longer than it lives.
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command_read, self.commands = os.pipe()
        self.answers, answer_write = os.pipe()
        # It reads commands from descriptor 3, and writes answers to 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{command_read} 4>&{answer_write}', "sh", self.program,
             "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(command_read, answer_write), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(command_read)
        os.close(answer_write)
        self.pending, self.sent, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)  # its own session: what it started, too
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        self.profile.cleanup()

    def call(self, method, timeout=60, **parameters):
        """The result of a method; events that come meanwhile are kept."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        limit = time.monotonic() + timeout
        while True:
            answer = self._message(limit)
            if answer.get("id") == self.sent:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def _message(self, limit):
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.answers], [], [], max(0, limit - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self.answers, 1 << 16)
            assert more, "the browser has ended"
            self.pending += more
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def open(self, url, width=1000, height=900, dark=False):
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.call("Page.navigate", url=url)
        self.until(f"location.href === {url!r} && document.readyState === 'complete'")

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def run(self, expression):
        """What an expression of JavaScript is, promises awaited."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        assert "exceptionDetails" not in result, (expression, result)
        return result["result"].get("value")

    def until(self, expression, seconds=30):
        """Waits until the expression is true; while a page comes it may be an error."""
        limit = time.monotonic() + seconds
        while True:
            try:
                if self.run(expression):
                    return
                wrong = "it is false"
            except AssertionError as error:
                wrong = str(error)
            assert time.monotonic() < limit, f"never: {expression}: {wrong}\n{self.text()}"
            time.sleep(0.05)

    def text(self):
        return self.run("document.body.innerText")

    def complaints(self):
        """What the console has been told: errors, exceptions, breaches of the page's policy."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"])
            elif event["method"] == "Log.entryAdded":
                found.append(parameters["entry"]["text"])
        return found

    def screenshot(self):
        """PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
