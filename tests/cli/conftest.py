"""A person at a shell, with a fresh home folder."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell.at(tmp_path / "home")
