"""A gateway without replicas loads nothing of theirs."""

import subprocess
import sys

CODE = """
import sys
import wicket_mcp.app, wicket_mcp.serving, wicket_mcp.store.sqlite.connection, wicket_mcp.store.sql.store
theirs = ("psycopg", "redis", "wicket_mcp.cluster", "wicket_mcp.replicas", "wicket_mcp.store.postgres")
print([name for name in sys.modules if name.startswith(theirs)])
"""


def test_a_gateway_without_replicas_loads_nothing_of_theirs() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
