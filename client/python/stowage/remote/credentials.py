"""Client TLS and bearer-token credentials, from files: the rules of
client/lib/rpc/credentials.h.
"""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass

from stowage.errors import invalid

PathLike = str | os.PathLike[str]

_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a connection needs.

    Attributes:
        tls: Encrypt; with the system's root certificates unless `authorities` is set.
        authorities: PEM: root certificates to verify the server with.
        certificate: PEM: the client certificate.
        key: PEM: its private key.
        token: The bearer token; empty: none is sent.
    """

    tls: bool = False
    authorities: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    token: str = ""


def read_credentials(
    tls_ca: PathLike | None,
    tls_cert: PathLike | None,
    tls_key: PathLike | None,
    token: str | None,
    token_file: PathLike | None,
    tls: bool = False,
) -> Credentials:
    """Reads the files.

    Raises:
        OSError: A file cannot be read.
        InvalidRequestError: A certificate without a key or the reverse, an empty file, or a token
            that an HTTP header cannot carry.
    """
    if (tls_cert is None) != (tls_key is None):
        raise invalid("tls_cert, tls_key", "give both, or neither")
    if token is not None and token_file is not None:
        raise invalid("token, token_file", "give one of the two")
    if token_file is not None:
        token = _read(token_file, "token_file").decode("ascii", "replace").strip()
    if token is not None and not _is_token(token):
        name = "token" if token_file is None else str(token_file)
        raise invalid(name, "is not a token: one word without spaces")
    return Credentials(
        tls=tls or tls_ca is not None or tls_cert is not None,
        authorities=None if tls_ca is None else _read(tls_ca, "tls_ca"),
        certificate=None if tls_cert is None else _read(tls_cert, "tls_cert"),
        key=None if tls_key is None else _read(tls_key, "tls_key"),
        token=token or "",
    )


def _is_token(token: str) -> bool:
    """Printable ASCII without spaces: what an HTTP header can carry."""
    return bool(token) and all("!" <= letter <= "~" for letter in token)


def _read(path: PathLike, field: str) -> bytes:
    with pathlib.Path(path).open("rb") as file:
        text = file.read(_MAX_BYTES + 1)
    if not text:
        raise invalid(field, f"{os.fspath(path)} is empty")
    if len(text) > _MAX_BYTES:
        raise invalid(field, f"{os.fspath(path)} is larger than a mebibyte")
    return text
