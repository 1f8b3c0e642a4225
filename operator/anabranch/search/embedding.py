"""Makes vectors of texts: texts that mean much the same get vectors that point much the same way.

An embedder is whatever does that. The one that comes with the extra ``embeddings`` has a vector for each piece of a
word and takes the mean: no network, no GPU, a tenth of a millisecond a record. It understands less than a language
model does; where a better table is at hand (in the layout of model2vec), its folder is named instead.

Tables are read from files that are there. Nothing is downloaded, neither now nor at a search.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from anabranch.domain.words import text_of
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

PACKAGED: Final = "wordllama"
"""Names the table that comes with the extra."""

_READ: Final = 2_000
"""Characters of a record that its vector is made of: the mean of a long text says little."""

_RECIPE: Final = 1
"""Of what is made of a record. Another one makes all vectors anew."""

_APART: Final = re.compile(r"[\W_]+")


class Embedder(Protocol):
    """Makes vectors.

    Attributes:
        name: Of the model. Vectors of different names do not compare.
        dimensions: Of its vectors, a multiple of `anabranch.domain.vectors.WORD`.
    """

    name: str
    dimensions: int

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of some texts, a row each, of length 1; zeros for a text that says nothing.

        Raises:
            UnavailableError: If it cannot now.
        """
        ...


class Table:
    """An embedder that takes the mean of the vectors of a text's pieces.

    Args:
        tokenizer: Takes texts apart.
        table: A vector for each of its tokens.
        name: Of both.
    """

    def __init__(self, tokenizer: Tokenizer, table: NDArray[np.float32], *, name: str) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.name = name
        self.dimensions = int(table.shape[1])
        self._tokenizer = tokenizer
        self._table = table

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of some texts (see `Embedder`)."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np  # noqa: PLC0415  (with the extra alone)

        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # One after the other: a batch would take all cores, which belong to others too.
        for place, text in enumerate(texts):
            (pieces,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
            ids = [one for one in pieces.ids if one < len(self._table)]
            if ids:
                mean = self._table[ids].mean(axis=0)
                if length := float(np.linalg.norm(mean)):
                    vectors[place] = mean / length
        return vectors


def load(setting: str) -> Embedder:
    """The embedder that a setting names.

    Args:
        setting: `PACKAGED`, or a folder with ``tokenizer.json`` and ``model.safetensors``.

    Raises:
        InvalidInputError: If it cannot be loaded.
    """
    tokenizer, table = _packaged() if setting == PACKAGED else _in(Path(setting))
    try:
        from safetensors.numpy import load_file  # noqa: PLC0415  (with the extra alone)
        from tokenizers import Tokenizer  # noqa: PLC0415  (likewise)

        tensors = load_file(table)
        found = Tokenizer.from_file(str(tokenizer))
    except ImportError as error:
        raise _without_extra() from error
    except Exception as error:  # what is in the files decides which; tokenizers raises nothing more precise
        raise InvalidInputError(
            f"The embedder {setting!r} cannot be loaded: {error}.", hint="Mend its folder, or leave the setting out."
        ) from error
    vectors = next(iter(tensors.values()))
    if len(tensors) != 1 or vectors.ndim != 2 or vectors.shape[1] % 64 or vectors.dtype.kind != "f":
        raise InvalidInputError(
            f"The embedder {setting!r} has another layout: {sorted(tensors)}.",
            hint="model.safetensors has one table of floats, a row for each token, of a multiple of 64 columns.",
        )
    digest = sha256(tokenizer.read_bytes() + table.read_bytes()).hexdigest()
    name = PACKAGED if setting == PACKAGED else Path(setting).name
    return Table(found, vectors.astype("float32"), name=f"{name[:64]}@{digest[:16]}/{_RECIPE}")


def said(key: str, body: bytes) -> str:
    """What a record's vector is made of: the words of its key, and the beginning of its content.

    Args:
        key: The record's key.
        body: Its content, canonical JSON.
    """
    content: Any = json.loads(body)
    return f"{_APART.sub(' ', key)}\n{text_of(content)[:_READ]}"


def _packaged() -> tuple[Path, Path]:
    # Its files alone: to import the package sets up the root logger, and its own loader looks for them on a hub.
    found = importlib.util.find_spec(PACKAGED)
    if found is None or not found.submodule_search_locations:
        raise _without_extra()
    folder = Path(found.submodule_search_locations[0])
    tokenizer, table = "tokenizers/l2_supercat_tokenizer_config.json", "weights/l2_supercat_256.safetensors"
    return _files(folder, tokenizer, table)


def _in(folder: Path) -> tuple[Path, Path]:
    return _files(folder, "tokenizer.json", "model.safetensors")


def _files(folder: Path, *names: str) -> tuple[Path, Path]:
    tokenizer, table = (folder / name for name in names)
    for file in (tokenizer, table):
        if not file.is_file():
            raise InvalidInputError(
                f"The embedder's file {file} is missing.",
                hint=f"ANABRANCH_EMBEDDER is {PACKAGED!r}, or a folder with tokenizer.json and model.safetensors.",
            )
    return tokenizer, table


def _without_extra() -> InvalidInputError:
    return InvalidInputError(
        "To search by meaning needs packages that are not installed.",
        hint="pip install 'anabranch[embeddings]', or build the image with VARIANT=embeddings; or leave "
        "ANABRANCH_EMBEDDER out.",
    )
