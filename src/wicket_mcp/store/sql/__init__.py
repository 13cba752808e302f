"""The SQL of every owner of state, written once: SQLite and PostgreSQL run the same statements.

Start with `part.py`, which defines what an engine provides. Statements use only what both support: `ON CONFLICT`
instead of `INSERT OR REPLACE`, `column = 0` instead of `NOT column`, `?` for values. Insertion order is `rowid`, which
every table has. A new owner adds a module here and its tables to `migrations.py`.
"""
