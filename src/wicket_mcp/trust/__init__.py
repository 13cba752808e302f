"""Decides which principal may see and do what. Knows no catalogue, no pool and no dialect.

Start with `policy.py`: the rules of one configuration, and what a principal may see by them.
"""
