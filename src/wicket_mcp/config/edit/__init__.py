"""Changes to files that people wrote by hand: `wicket.toml`, and the files of clients that are imported.

Owns edits that leave every other character unchanged, take-over and undo. Must not know the command line; loaded only
by the commands that change files. Start with `import_plan.py` and `wicket_toml.py`; `toml` and `jsonc` are the two text
editors below them.
"""
