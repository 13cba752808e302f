"""State in PostgreSQL, for several replicas: the SQL of `store/sql/` on psycopg connections. Imported
only by `store/open.py`, if the configuration names such a store, and `store/transfer.py`. Start at `connection.py`."""
