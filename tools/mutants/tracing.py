"""A plugin of pytest that writes which tests execute which lines, in the tests' own process.

`MUTANTS_SOURCES` names the modules, `MUTANTS_TRACED` the file to write. Of a test that does not pass, nothing is kept.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest


class Tracing:
    """What the tests of one run executed."""

    def __init__(self, sources: list[str], file: Path) -> None:
        self._sources = {str(Path(source).resolve()): source for source in sources}
        self._file = file
        self._lines: set[tuple[str, int]] = set()
        self._passed = True
        self._found: dict[str, Any] = {}

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._step if frame.f_code.co_filename in self._sources else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._step

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._lines, self._passed = set(), True
        began = time.monotonic()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            if self._passed and self._lines:
                lines: dict[str, list[int]] = {}
                for source, line in self._lines:
                    lines.setdefault(self._sources[source], []).append(line)
                self._found[item.nodeid] = {"seconds": time.monotonic() - began, "lines": lines}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._passed = False

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._found))


def pytest_configure(config: pytest.Config) -> None:
    sources = os.environ["MUTANTS_SOURCES"].split(os.pathsep)
    config.pluginmanager.register(Tracing(sources, Path(os.environ["MUTANTS_TRACED"])))
