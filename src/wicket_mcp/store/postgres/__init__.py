"""State in PostgreSQL, for several replicas: the SQL of `store/sql/` on psycopg connections. Only `store/open.py`
imports it, and only if the configuration names such a store. Start at `connection.py`."""
