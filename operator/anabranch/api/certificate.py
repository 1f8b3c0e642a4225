"""The API's certificate, read again when its files change: who renews it need not restart anything.

Kubelet swaps the files of a Secret all at once, some seconds to a minute after the Secret changed. Connections that are
open go on with the certificate that they began with.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Final

import structlog

from anabranch.model.errors import InvalidInputError

LOOK_SECONDS: Final = 10.0
"""Between two looks at the files."""

_log = structlog.get_logger(__name__)


class Certificate:
    """A certificate with its key, and the TLS context that shows it.

    Args:
        cert: PEM file of the certificate, and of those between it and the authority.
        key: PEM file of its key, without a password.

    Raises:
        InvalidInputError: If they cannot be read, or do not belong together.
    """

    def __init__(self, cert: Path, key: Path) -> None:
        self._cert = cert
        self._key = key
        try:
            self._loaded = self._content()
            self.context: Final = self._load(_context())
        except OSError as error:  # what the ssl module raises is one too
            raise InvalidInputError(
                f"The certificate {cert} with the key {key} cannot be used: {error}.",
                hint="Mend what ANABRANCH_TLS_CERT and ANABRANCH_TLS_KEY name.",
            ) from error

    async def follow(self) -> None:
        """Show what the files hold, whenever they change, for as long as the process runs."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Take what the files hold now. What does not do is logged, and what was shown before stays."""
        try:
            if (content := self._content()) == self._loaded:
                return
            self._load(_context())  # first where a pair that does not match does no harm
            self._load(self.context)
        except OSError as error:
            _log.error("the new certificate cannot be used", cert=str(self._cert), error=str(error))
        else:
            self._loaded = content
            _log.info("new certificate", cert=str(self._cert))

    def _content(self) -> tuple[bytes, bytes]:
        return self._cert.read_bytes(), self._key.read_bytes()

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        # Without a callback OpenSSL would ask the terminal for the password of a key that has one.
        context.load_cert_chain(self._cert, self._key, password=lambda: b"")
        return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
