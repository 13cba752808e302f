"""The fixed limits of a script: they keep each frame, reply and value small for the event loop.

Used by both the gateway and the jailed child, so it imports none of our modules. The limits that a user can change are
options in `config/model/scripts.py`.
"""

KIB = 1024
MIB = 1024 * KIB

MAX_ARGUMENTS = 256 * KIB
MAX_REPLY = 2 * MIB
MAX_REPLIES = 32 * MIB
MAX_SENT = 32 * MIB
MAX_VALUE = 2 * MIB
MAX_FRAME = 4 * MIB
MAX_DEPTH = 64
MAX_DIGITS = 4300  # of a whole number: as many as Python's own conversion takes
