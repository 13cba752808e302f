"""The dashboard at `/ui`: pages for people, rendered here, with one small script and no other.

Owns sign-in by cookie (`sessions.py`), routing and the headers that keep pages safe (`mount.py`), what each page shows
(`pages.py`, `figures.py`) and the templates. Must not know upstreams: it asks through `Source`, which is given to it.
What servers say is text here, never markup. No form carries a command line. Loaded when somebody opens it.
"""
