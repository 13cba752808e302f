"""Principals and credentials: API keys, access tokens, our own grants, the vault, sign-in to servers.

Turns credentials into principals, and keeps the credentials of principals. Must not know how a request came in or what
it asks for; the surface and the pool call this package. Start with `keys.py` and `tokens.py` (incoming requests),
`grants.py` (our own authorization server), `vault.py` (storage), `accounts.py` (outgoing requests). Modules that need a
cryptography package import it on first use: a gateway without sign-in loads none of it.
"""
