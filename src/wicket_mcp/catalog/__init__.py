"""What all servers offer, how it is named, and who may see what of it.

Owns listings, names, and the view of each principal; knows no dialect, no pipeline and no transport. Start with
`catalogue.py` (how listings are read, kept and renewed), then `view.py` (what somebody sees of them).
"""
