"""Who is asking, and with whose credentials: API keys, access tokens, our own grants, the vault, sign-in to servers.

Owns what makes a principal out of what somebody brings, and what is kept for one. Must not know how a request came in
or what it asks for; the surface and the pool ask here. Start reading at `keys.py` and `tokens.py` (who comes in),
`grants.py` (our own authorization server), `vault.py` (what rests), `accounts.py` (who goes out). What needs a
cryptography package imports it at the first use: a gateway that signs nobody in loads none of it.
"""
