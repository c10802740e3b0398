"""The private Postgres of a user: found, started, shared by all of the user's processes, and stopped.

Only the Postgres binaries come from elsewhere; the server's lifecycle is managed here.
"""
