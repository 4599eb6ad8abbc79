"""Clusters with a control API, as processes."""

import contextlib
import json
import pathlib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app

SECONDS = 60
NAME = "controlled"


@attrs.frozen
class Lab:
    """A cluster with a control API, and how to reach it."""

    url: str
    token: str
    directory: pathlib.Path

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the document of a response."""
        data = None if body is None else json.dumps(body).encode()
        fields = {**self.headers, **(headers or {})}
        request = urllib.request.Request(self.url + path, method=method, data=data, headers=fields)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def done(self, method: str, path: str, body: Any = None) -> Any:
        """Return the document of a request that succeeds."""
        status, document = self.ask(method, path, body)
        assert status == 200, document
        return document


def rmqlab(*arguments: str) -> Any:
    """Run a command."""
    return CliRunner().invoke(app, arguments, prog_name="rmqlab")


@contextlib.contextmanager
def controlled_lab(home: pathlib.Path, *options: str) -> Iterator[Lab]:
    """Start a cluster with `options`; check at its end that it had no internal error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RMQLAB_HOME", str(home))
        done = rmqlab("up", "-n", NAME, "--detach", "--json", "--control", "127.0.0.1:0", *options)
        assert done.exit_code == 0, done.stderr
        control = json.loads(done.stdout)["control"]
        try:
            yield Lab(**control, directory=home / NAME)
            assert json.loads(rmqlab("status", "-n", NAME, "--json").stdout)["internal_errors"] == {}
        finally:
            assert rmqlab("down", "-n", NAME).exit_code == 0
        assert not (home / NAME / "control.json").exists()
