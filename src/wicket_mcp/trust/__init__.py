"""Who may see and do what. Decides, and asks nobody: knows no catalogue, no pool and no dialect.

Start with `policy.py`: the rules of one configuration, and what they let a principal see.
"""
