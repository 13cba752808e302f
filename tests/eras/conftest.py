"""Failures inside the cells' functions are told in full."""

import pytest

pytest.register_assert_rewrite("tests.eras.cells", "tests.eras.cells_everything")
