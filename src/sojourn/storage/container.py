r"""One file with arrays and a JSON header, checked by a checksum; reading it runs no code.

The file is in the safetensors format. Its metadata have one entry, ``sojourn``: a header in JSON
with the schema, the versions and the content, in which arrays stand by name (see `codec`). A
checksum over the header and all arrays shows damage; since a checksum can be recomputed, what is
read is validated as if it came from a stranger.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from sojourn.errors import SojournError
from sojourn.storage.atomic import atomic_write, check_no_device
from sojourn.storage.codec import Arrays

MAGIC = "sojourn model"
SCHEMA = 1
# safetensors itself refuses longer headers.
MAX_HEADER = 100_000_000
# What reading a damaged file can run into, apart from errors of the system.
DAMAGE = (
    *(KeyError, IndexError, TypeError, AttributeError, ValueError),
    *(OverflowError, RecursionError, MemoryError),
)


def write(path: str | os.PathLike[str], content: Mapping[str, Any], arrays: Arrays) -> None:
    """Write the file atomically; what was written is read back before it replaces an old one."""
    from sojourn import __version__

    content = {"magic": MAGIC, "schema": SCHEMA, "version": __version__, **content}
    # The checksum is of the arrays as they are in memory.
    with atomic_write(path, "wb", check=read) as file:
        file.write(to_bytes(content, arrays))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file, after every check that needs no estimator."""
    name = os.fspath(path)
    check_no_device(name)
    with open(name, "rb") as file:
        size = file.read(8)
        n = int.from_bytes(size, "little")
        head = file.read(n) if n <= MAX_HEADER else b""
        # Before the rest is read: it may be some other file, and a large one.
        if len(size) < 8 or len(head) < n or MAGIC.encode() not in head:
            raise SojournError(f"{name} is not a saved model of sojourn, or is cut off")
        data = b"".join((size, head, file.read()))
    return _parsed(name, head, data)


def to_bytes(content: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The file as bytes: arrays, and the header with their names and the checksum."""
    from safetensors.numpy import save as serialise

    # safetensors writes what lies at an array's address, whatever its strides.
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    content = {**content, "arrays": _manifest(arrays)}
    text = _canonical({**content, "checksum": _checksum(content, arrays)})
    return serialise(arrays, {"sojourn": text})


def _parsed(name: str, head: bytes, data: bytes) -> tuple[dict[str, Any], Arrays]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as parse

    from sojourn import __version__

    try:
        content = json.loads(json.loads(head)["__metadata__"]["sojourn"])
        magic, schema, version = content["magic"], content["schema"], content["version"]
        newer = magic == MAGIC and schema > SCHEMA
    except DAMAGE as error:
        raise damaged(name, f"its header cannot be read, {error}") from None
    if newer:
        raise SojournError(
            f"{name} was written by sojourn {version} in schema {schema}, and this is sojourn "
            f"{__version__}, which reads schemas up to {SCHEMA}; install a newer version"
        )
    try:
        arrays = parse(data)
        checksum = content.pop("checksum")
        valid = magic == MAGIC and schema == SCHEMA and content["arrays"] == _manifest(arrays)
        valid = valid and checksum == _checksum(content, arrays)
    except (*DAMAGE, SafetensorError) as error:
        raise damaged(name, str(error)) from None
    if not valid:
        raise damaged(name, "its checksum does not match its content")
    return content, arrays


def _manifest(arrays: Arrays) -> dict[str, list[Any]]:
    return {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}


def _canonical(content: Mapping[str, Any]) -> str:
    """One text for one content, in ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _checksum(content: Mapping[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(_canonical(content).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def damaged(name: str, reason: str) -> SojournError:
    """The error for a file that cannot be read as what it should be."""
    return SojournError(f"{name} is damaged ({reason}); save the model again")
