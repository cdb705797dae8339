"""A hub as small as can be: the few endpoints of the Hugging Face hub that a run goes through."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit


class SmallHub(BaseHTTPRequestHandler):
    """Repositories in memory, by name; every upload is one more commit on their only branch."""

    repositories: ClassVar[dict[str, dict[str, bytes]]] = {}
    private: ClassVar[set[str]] = set()
    said: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Make a repository, say how files are to be sent, and take them."""
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        self.said.append(path)
        if self.headers.get("Authorization") != "Bearer hf_right":
            self._answer(401, {"error": "Invalid credentials"})
        elif path == "/api/repos/create":
            asked = json.loads(raw)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.repositories.setdefault(name, {})
            if asked.get("private") or asked.get("visibility") == "private":
                self.private.add(name)
            self._answer(200, {"url": f"http://{self.headers['Host']}/{name}", "name": name})
        elif path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif "/preupload/" in path:
            files = json.loads(raw)["files"]
            how = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in files
            ]
            self._answer(200, {"files": how})
        elif "/commit/" in path:
            held = self.repositories[path.removeprefix("/api/models/").partition("/commit/")[0]]
            for line in raw.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    content = base64.b64decode(entry["value"]["content"])
                    held[entry["value"]["path"]] = content
            sha = self._sha(held)
            self._answer(
                200,
                {"commitUrl": f"http://{self.headers['Host']}/me/x/commit/{sha}", "commitOid": sha},
            )
        else:
            self._answer(404, {"error": "Not Found"})

    def do_GET(self) -> None:
        """What a repository holds, or one of its files."""
        path = unquote(urlsplit(self.path).path)
        self.said.append(path)
        name, held = self._repository(path)
        if held is None:
            self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif "/resolve/" in path:
            content = held.get(path.partition("/resolve/")[2].partition("/")[2])
            if content is None:
                self._answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
                return
            about = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
            self._send(200, content, about | {"X-Repo-Commit": self._sha(held)})
        elif "/tree/" in path:
            files = [
                {"type": "file", "path": file, "size": len(data), "oid": "0" * 40}
                for file, data in held.items()
            ]
            self._answer(200, files)
        else:
            siblings = [{"rfilename": file} for file in held]
            self._answer(200, {"id": name, "sha": self._sha(held), "siblings": siblings})

    do_HEAD = do_GET  # noqa: N815 - the standard library asks for this name

    def _repository(self, path: str) -> tuple[str, dict[str, bytes] | None]:
        found = [name for name in self.repositories if f"/{name}" in path]
        return (found[0], self.repositories[found[0]]) if found else ("", None)

    def _sha(self, held: dict[str, bytes]) -> str:
        every = b"".join(name.encode() + data for name, data in sorted(held.items()))
        return hashlib.sha1(every).hexdigest()

    def _answer(self, code: int, values: Any, headers: dict[str, str] | None = None) -> None:
        self._send(code, json.dumps(values).encode(), headers or {}, "application/json")

    def _send(
        self, code: int, content: bytes, headers: dict[str, str], kind: str = "text/plain"
    ) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: requests are in `said`."""


@contextmanager
def small_hub() -> Iterator[str]:
    """The address of an empty hub on this machine."""
    SmallHub.repositories.clear()
    SmallHub.said.clear()
    SmallHub.private.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), SmallHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
