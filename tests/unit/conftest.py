"""Everything below is the unit lane: one module at a time, no process, no network. `pytest -m unit` runs it."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("unit")
