"""The dashboard at `/ui`: pages for people, rendered here, with one small script and no other.

Owns sign-in by cookie (`sessions.py`), routing and the headers that keep pages safe (`mount.py`), what each page shows
(`pages.py`, `figures.py`) and the templates. Must not know upstreams: it gets everything through `Source`. Text from
servers is shown as text, never as markup. No form carries a command line. Loaded when a user first opens it.
"""
