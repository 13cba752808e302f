"""Loads numpy for search: once, late, and with a single thread for linear algebra.

A query is a product of a few rows with a thin matrix. Several threads make that slower on a busy machine, and
the library reads its thread count only while it loads; children that Wicket starts must not inherit the setting.
"""

import os

_THREADS = "OPENBLAS_NUM_THREADS"
_requested = os.environ.get(_THREADS)
os.environ.setdefault(_THREADS, "1")

import numpy as np  # noqa: E402

if _requested is None:
    os.environ.pop(_THREADS, None)

__all__ = ["np"]
