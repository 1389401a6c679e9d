import os
from typing import Optional, Union, final

__all__ = ["Context", "DecodeError", "Decoder", "DictionaryError", "Frame", "tokens"]

class DecodeError(ValueError):
    """A text is no token or number, or there is no dictionary for it."""

class DictionaryError(ValueError):
    """A file is no dictionary, program, or file of numbers that can be used."""

@final
class Frame:
    """A line of a context."""

    @property
    def kind(self) -> str:
        """`call`, or the kind of a boundary: `uninstrumented`, `tail`, `signal`, `thread`, `task`, `unknown`,
        `unknown-module`, `truncated`, `damaged`."""
    @property
    def function(self) -> Optional[str]:
        """The name of the function, demangled."""
    @property
    def file(self) -> Optional[str]: ...
    @property
    def line(self) -> Optional[int]: ...
    @property
    def column(self) -> Optional[int]: ...
    @property
    def inlined(self) -> bool:
        """The function was inlined into that of the next frame."""
    @property
    def build_id(self) -> Optional[str]:
        """Of `unknown-module`: the start of the build id of the module whose dictionary is missing."""
    def __str__(self) -> str:
        """The line as `pcce decode` writes it, without its number."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Context:
    """The calls that a token stands for."""

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames, innermost first."""
    @property
    def folded(self) -> str:
        """The functions in one line, outermost first, with `;` between them."""
    @property
    def missing(self) -> tuple[str, ...]:
        """The build ids of modules whose dictionary is missing, and whose calls are left out."""
    def __str__(self) -> str:
        """The lines as `pcce decode` writes them."""

@final
class Decoder:
    """Decodes tokens. It may be used by several threads, and pickled: it is made again of its arguments."""

    def __new__(
        cls,
        *places: Union[str, os.PathLike[str]],
        numbers: Optional[Union[str, os.PathLike[str]]] = None,
    ) -> Decoder:
        """`places` are folders in which dictionaries are found by build id (`pcce dict --store FOLDER PROGRAM`), and
        dictionaries or programs themselves. `numbers`: a file of numbers, for those from 2**63 on.

        Raises DictionaryError, and OSError if a place is not there."""
    def decode(self, token: Union[str, int]) -> Context:
        """The context of a token, or of a number of `pcce_context()`.

        Raises DecodeError."""
    def __getnewargs_ex__(self) -> tuple[tuple[str, ...], dict[str, Optional[str]]]: ...

def tokens(text: str) -> list[str]:
    """The tokens in a text, such as a line of a log."""
