"""Examples on pages run in a folder of their own, so that what they write is left nowhere."""

import pytest


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
