"""A stand-in for S3: serves the files of a directory over HTTP.

Clients can list, look up and read objects.
"""

import contextlib
import http.server
import pathlib
import threading
import urllib.parse
import xml.sax.saxutils
from collections.abc import Iterator

import attrs

_PAGE = 5
"""Keys in one page of a list: few, so that clients have to ask for more."""


@attrs.frozen
class ObjectStore:
    """A bucket with the files of a directory, and the requests that it received."""

    port: int
    requests: list[str]

    def uri(self, path: str, scheme: str = "s3a") -> str:
        return f"{scheme}://user:secret@bucket/{path}?scheme=http&endpoint_override=127.0.0.1:{self.port}"


@contextlib.contextmanager
def object_store(directory: pathlib.Path) -> Iterator[ObjectStore]:
    """Serve a directory as `bucket` until the block ends."""
    requests: list[str] = []

    class Handler(_Handler):
        root = directory
        log = requests

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield ObjectStore(server.server_address[1], requests)
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: pathlib.Path
    log: list[str]

    def do_HEAD(self) -> None:
        self._serve(has_body=False)

    def do_GET(self) -> None:
        self._serve(has_body=True)

    def _serve(self, *, has_body: bool) -> None:
        parts = urllib.parse.urlsplit(self.path)
        self.log.append(f"{self.command} {self.path}")
        _, _, key = parts.path.removeprefix("/").partition("/")
        query = dict(urllib.parse.parse_qsl(parts.query))
        path = self.root / urllib.parse.unquote(key)
        if "list-type" in query:
            self._send(200, self._list(query).encode())
        elif not path.is_file():
            self._send(404, b"")
        elif not has_body:
            self._send(200, b"", length=path.stat().st_size)
        else:
            content = path.read_bytes()
            first, _, last = (
                self.headers.get("Range", f"bytes=0-{len(content) - 1}").removeprefix("bytes=").partition("-")
            )
            self._send(206, content[int(first) : int(last) + 1])

    def _list(self, query: dict[str, str]) -> str:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        keys = sorted(path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file())
        keys = [key for key in keys if key.startswith(prefix) and key > after]
        page = keys[: min(_PAGE, int(query.get("max-keys", _PAGE)))]
        contents = "".join(
            f"<Contents><Key>{xml.sax.saxutils.escape(key)}</Key><Size>{(self.root / key).stat().st_size}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in page
        )
        rest = "<IsTruncated>false</IsTruncated>"
        if len(page) < len(keys):
            rest = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{page[-1]}</NextContinuationToken>"
        return f"<?xml version='1.0'?><ListBucketResult><KeyCount>{len(page)}</KeyCount>{contents}{rest}</ListBucketResult>"

    def _send(self, status: int, body: bytes, *, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Print nothing."""
