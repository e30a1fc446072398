#!/usr/bin/env python3
"""Fetches one source archive from the package index that pip is configured with, and unpacks it.

    fetch_sdist.py PROJECT FILE SHA256 FOLDER

The index is PIP_INDEX_URL, else pip's own setting, else PyPI. The archive is checked against its
hash before it is opened; FOLDER appears whole or not at all. Status 1, with one line that says
why: it is not to be had.
"""
import hashlib
import html.parser
import io
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request

TIMEOUT_SECONDS = 60
BYTES_MAX = 128 << 20


class Links(html.parser.HTMLParser):
    """The files of an index page: name to address."""

    def __init__(self, page):
        super().__init__()
        self.page, self.address, self.files = page, None, {}

    def handle_starttag(self, tag, attributes):
        if tag == "a":
            self.address = dict(attributes).get("href")

    def handle_data(self, data):
        if self.address is not None:
            self.files[data.strip()] = urllib.parse.urljoin(self.page, self.address)

    def handle_endtag(self, tag):
        if tag == "a":
            self.address = None


def setting(name):
    """What pip is told, by its environment or its files; None."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value
    for pip in (".venv/bin/pip", "pip3"):
        for section in ("install", "global"):
            try:
                out = subprocess.run([pip, "config", "get", f"{section}.{name}"],
                                     capture_output=True, text=True, timeout=30)
            except (OSError, subprocess.TimeoutExpired):
                break
            if out.returncode == 0 and out.stdout.strip():
                return out.stdout.strip()
    return None


def read(address, context):
    with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS, context=context) as answer:
        data = answer.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise ValueError(f"{address} is larger than {BYTES_MAX} bytes")
    return data


def unpack(archive, folder):
    """Of the archive's one folder, regular files only."""
    whole = folder + ".part"
    shutil.rmtree(whole, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            parts = member.name.split("/")[1:]
            if not member.isfile() or not parts or ".." in parts:
                continue
            target = os.path.join(whole, *parts)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                shutil.copyfileobj(tar.extractfile(member), file)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(whole, folder)


def main(project, name, sha256, folder):
    index = (setting("index-url") or "https://pypi.org/simple").rstrip("/")
    context = ssl.create_default_context(cafile=setting("cert"))
    page = f"{index}/{project}/"
    links = Links(page)
    links.feed(read(page, context).decode())
    if name not in links.files:
        raise ValueError(f"the index has no {name}")
    archive = read(links.files[name].split("#")[0], context)
    if hashlib.sha256(archive).hexdigest() != sha256:
        raise ValueError(f"{name} has another hash than it should have")
    unpack(archive, folder)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # the network's, the archive's, the disk's
        sys.exit(f"  {sys.argv[2]}: {error}")
