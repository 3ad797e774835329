"""What tests of the command line share."""

import io
import sys

import pytest


@pytest.fixture
def stdin(monkeypatch):
    """Put text or bytes on standard input."""

    def put(data):
        data = data.encode() if isinstance(data, str) else data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put
