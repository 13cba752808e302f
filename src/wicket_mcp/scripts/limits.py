"""The fixed bounds of a script: what nobody needs to change keeps one frame, reply and value small for the event loop.

Read by both ends, the gateway's and the jailed child's, so it imports nothing of ours. The bounds that a user can
change are the options in `config/model/scripts.py`.
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
