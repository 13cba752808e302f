"""The default store: one SQLite file. One module for each owner of state; `store.py` is their sum."""
