"""What gRPC says of a failed call in words alone: it has no codes for these. The rules of
client/lib/rpc/grpc_text.h; tests/data/rules/grpc_failures.json holds both to them.
"""

from __future__ import annotations

from dataclasses import dataclass

_BROKEN = (
    "Socket closed",
    "Connection reset",
    "Broken pipe",
    "GOAWAY",
    "Connection timed out",
    "eepalive",
    "Stream removed",
    "RST_STREAM with error code 2",
)


@dataclass(frozen=True)
class GrpcText:
    """Of an error that no Stowage server made. Texts that are not gRPC's are a proxy's, which found
    no server that takes the call.
    """

    text: str

    @property
    def tls(self) -> bool:
        """Whether the two sides do not come to terms over TLS."""
        return "SSL" in self.text

    @property
    def broken(self) -> bool:
        """Whether the connection, or one behind a proxy, broke in mid-call."""
        return any(part in self.text for part in _BROKEN)

    @property
    def never_connected(self) -> bool:
        """Whether no connection could be made."""
        return self.text.startswith(("failed to connect to all addresses", "DNS resolution failed"))

    @property
    def closed(self) -> bool:
        """Whether the other side closed the connection."""
        return "Socket closed" in self.text or "reset by peer" in self.text

    @property
    def key_does_not_fit(self) -> bool:
        """Whether the client's key is not that of its certificate."""
        return "empty address list" in self.text

    @property
    def too_large(self) -> bool:
        """Whether the request is too large for the server."""
        return "message larger than max" in self.text
