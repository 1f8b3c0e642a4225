"""Asks a model, once, and takes nothing for granted of what comes back.

The endpoint is somebody else's program, which may be slow, gone, overloaded, or not what it was: a request has one
deadline for all of it, however slowly bytes come; an answer has a size beyond which nobody reads on; a redirect is an
error, since the texts were meant for the host that the configuration names. Neither the key nor what the endpoint says
ever gets into a log: errors tell what kind they are, and no more.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import httpx

from anabranch.model.canonical import parse_json
from anabranch.model.errors import AnabranchError, InvalidInputError
from anabranch.telemetry import tracing
from anabranch.telemetry.of_operator import MODEL_REQUESTS, MODEL_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.proposals.config import ModelEndpoint

Outcome: TypeAlias = Literal["timeout", "unreachable", "throttled", "failed", "refused", "redirected", "junk"]

_BYTES: Final = 4 << 20
"""Of an answer. The largest content has 1 MiB, of which JSON in JSON may make a good deal more."""

_HEADERS: Final = {"User-Agent": "anabranch", "Accept": "application/json", "Accept-Encoding": "identity"}
_KEY_BYTES: Final = 8_192


class ModelError(AnabranchError):
    """A model gave no answer that can be used.

    Attributes:
        outcome: What kind of failure, in a word.
        pause: For how long the endpoint asked to be left alone, seconds; None: it did not.
    """

    status: ClassVar[int] = 503
    code: ClassVar[str] = "ModelUnavailable"

    def __init__(self, outcome: Outcome, detail: str, *, pause: float | None = None) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.pause = pause


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model has said.

    Attributes:
        text: All of it.
        tokens: What the endpoint says that asking and answering came to; None: it does not say.
    """

    text: str
    tokens: int | None


class Endpoint:
    """A model that can be asked.

    Args:
        name: Of its entry in the configuration.
        settings: That entry.
    """

    def __init__(self, name: str, settings: ModelEndpoint) -> None:
        self.name = name
        self.settings = settings
        self._context: ssl.SSLContext | None = None

    async def ask(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        """Ask once.

        Args:
            messages: Of a chat, ``{role, content}`` each.

        Raises:
            ModelError: If there is no answer, or none that can be used.
        """
        began = time.perf_counter()
        outcome = "stopped"
        try:
            with tracing.span("ask model", kind="client", model=self.name) as span:
                async with asyncio.timeout(self.settings.timeout_seconds):
                    reply = _reply(await self._post(messages))
                span.set(tokens=reply.tokens)
            outcome = "answered"
        except TimeoutError:
            outcome = "timeout"
            raise ModelError("timeout", f"The model {self.name} took longer than its timeout.") from None
        except ModelError as error:
            outcome = error.outcome
            raise
        finally:
            MODEL_REQUESTS.labels(self.name, outcome).observe(time.perf_counter() - began)
        MODEL_TOKENS.labels(self.name).inc(reply.tokens or 0)
        return reply

    async def _post(self, messages: Sequence[Mapping[str, str]]) -> bytes:
        settings = self.settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": list(messages),
            settings.tokens_field: settings.max_tokens,
            "temperature": 0,
            "stream": False,
        }
        if settings.json_mode:
            body["response_format"] = {"type": "json_object"}
        try:
            async with (
                httpx.AsyncClient(verify=self._tls(), timeout=settings.timeout_seconds, trust_env=False) as client,
                client.stream(
                    "POST",
                    f"{settings.url.rstrip('/')}/chat/completions",
                    json=body,
                    headers=await asyncio.to_thread(self._headers),
                    follow_redirects=False,
                ) as response,
            ):
                _check_status(self.name, response)
                return await _read(response)
        except httpx.TimeoutException:
            raise TimeoutError from None
        except (httpx.HTTPError, OSError) as error:
            # The words of such an error may hold what was sent: its kind has to do.
            raise ModelError(
                "unreachable", f"The model {self.name} cannot be reached ({type(error).__name__})."
            ) from None

    def _headers(self) -> dict[str, str]:
        """Read for each request: a Secret that was changed is another file from one moment to the next.

        Raises:
            ModelError: If the key cannot be read, or is none that a header can hold.
        """
        path = self.settings.api_key_file
        if path is None:
            return _HEADERS
        try:
            with Path(path).open("rb") as file:
                key = file.read(_KEY_BYTES).strip()
        except OSError as error:
            said = f"The key of the model {self.name} cannot be read ({type(error).__name__})."
            raise ModelError("refused", said) from None
        if not key or not key.isascii() or not key.decode().isprintable():
            raise ModelError("refused", f"The key of the model {self.name} is none: it is empty, or not plain text.")
        return _HEADERS | {"Authorization": f"Bearer {key.decode()}"}

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self.settings.ca_file)
        return self._context


def _check_status(name: str, response: httpx.Response) -> None:
    status = response.status_code
    if status == 200:
        return
    said = f"The model {name} answered with status {status}."
    if status == 429:
        raise ModelError("throttled", said, pause=_pause(response.headers.get("retry-after", "")))
    if status >= 500:
        raise ModelError("failed", said)
    raise ModelError("redirected" if 300 <= status < 400 else "refused", said)


def _pause(text: str) -> float | None:
    """Seconds of a Retry-After; one that is a date, or too long to be a number, counts as none."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 7 else None


async def _read(response: httpx.Response) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ModelError("junk", "The model's answer is compressed, which it was asked not to be.")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _BYTES:
            raise ModelError("junk", f"The model's answer is larger than {_BYTES >> 20} MiB.")
    return bytes(body)


def _reply(body: bytes) -> Reply:
    """What an answer says.

    Raises:
        ModelError: If it is no chat completion, or none that came to its end.
    """
    try:
        whole = parse_json(body)
    except InvalidInputError:
        raise ModelError("junk", "The model's answer is not JSON.") from None
    match whole:
        case {"choices": [{"message": {"content": str(text)}, **rest}, *_]}:
            if rest.get("finish_reason") not in (None, "stop"):
                raise ModelError("junk", "The model's answer did not come to its end.")
            return Reply(text, _tokens(whole.get("usage")))
        case _:
            raise ModelError("junk", "The model's answer is no chat completion.")


def _tokens(usage: Any) -> int | None:
    match usage:
        case {"total_tokens": int(tokens)} if not isinstance(tokens, bool) and tokens >= 0:
            return tokens
        case _:
            return None
