"""State in PostgreSQL, for several replicas: the SQL of `store/sql/` on connections of psycopg. Only `store/open.py`
imports it, and only where the configuration names such a store. Start at `connection.py`."""
