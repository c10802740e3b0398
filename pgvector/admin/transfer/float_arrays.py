"""Conversion of vectors between Postgres' binary form and arrays of 32-bit floats, without a Python float for each."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence

from pgvector import Vector
from pgvector.psycopg import register_vector

from ...store.connection import DeadlineConnection

_HEADER = struct.Struct(">HH")


def know_vectors(conn: DeadlineConnection) -> None:
    """Register the vector type on this connection."""
    if conn.adapters.types.get("vector") is None:
        register_vector(conn)


def as_floats(vector: Vector) -> array[float]:
    """Return the floats of a vector."""
    floats = array("f")
    floats.frombytes(vector.to_binary()[_HEADER.size :])
    if sys.byteorder == "little":
        floats.byteswap()
    return floats


def as_vector(floats: Sequence[float]) -> Vector:
    """Return the vector of these floats."""
    if not isinstance(floats, array) or floats.typecode != "f":
        return Vector(list(floats))
    swapped = floats[:]
    if sys.byteorder == "little":
        swapped.byteswap()
    return Vector.from_binary(_HEADER.pack(len(floats), 0) + swapped.tobytes())
