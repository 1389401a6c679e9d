"""Reads context tokens of programs that were built with PCCE back into the chains of calls that they stand for.

    decoder = pcce.Decoder("dictionaries")
    print(decoder.decode("pcce1.AQAIjWDMHBvsz2PxhQcAAPCFBwAlDOv1"))
"""

from ._pcce import Context, DecodeError, Decoder, DictionaryError, Frame, tokens

__all__ = ["Context", "DecodeError", "Decoder", "DictionaryError", "Frame", "tokens"]
