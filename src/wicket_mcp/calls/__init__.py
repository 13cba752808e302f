"""What happens to a request between the dialects and the pool: one pipeline of layers.

Owns the order of the layers (`pipeline.py`, start reading there), one file for each layer, and the watches on single
resources. Must not know dialects, transports or how a result is shown.
"""
