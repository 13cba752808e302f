"""The SQL of every owner of state, written once for every engine: SQLite and PostgreSQL run the same texts.

Start at `part.py`, which says what an engine gives. A text keeps to what both understand: `ON CONFLICT` and not `INSERT
OR REPLACE`, `column = 0` and not `NOT column`, `?` for values. Where an order must be that of insertion it is `rowid`,
which every table has. A new owner adds a module here and its tables to `migrations.py`.
"""
