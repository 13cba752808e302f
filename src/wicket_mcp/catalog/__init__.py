"""What all servers offer, how it is named, and which principal may see it.

Owns listings, names, and the view of each principal; knows no dialect, no pipeline and no transport. Start with
`catalogue.py` (how listings are read, stored and renewed), then `view.py` (what a principal sees).
"""
