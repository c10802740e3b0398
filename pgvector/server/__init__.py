"""The private Postgres of a user: found, started, shared by all of the user's processes, and stopped.

Only the binaries of a Postgres are borrowed; everything about their lifecycle is decided here.
"""
