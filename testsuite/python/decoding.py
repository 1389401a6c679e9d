"""Checks the installed module `pcce` with a program, a folder that has its dictionary, a token, a number, and what
`pcce decode` prints of them."""

import os
import pickle
import sys
import threading

import pcce

program, store, token, interned, number, numbers, text, folded, of_number = sys.argv[1:]


def raised(error, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except error as met:
        return str(met)
    raise AssertionError(f"{error} was expected")


pickled = pickle.dumps(pcce.Decoder(store, program, numbers=numbers))
os.chdir("store")
unpickled = pickle.loads(pickled)
os.chdir("..")
for decoder in pcce.Decoder(store), pcce.Decoder(program), unpickled:
    context = decoder.decode(token)
    assert str(context) == text, str(context)
    assert context.folded == folded, context.folded
    assert context.missing == ()
    kinds = [frame.kind for frame in context.frames]
    assert kinds == ["call", "uninstrumented", "call"], kinds
    inner, qsort, main = context.frames
    assert (inner.function, main.function, qsort.function) == ("by_size", "main", "qsort")
    assert inner.file.endswith("decoding.c") and (inner.line, qsort.line) == (8, None), str(inner)
    assert inner.column > 0 and inner.build_id is None and not main.inlined
    assert f"#2  {main}" == text.splitlines()[2]
    again = pcce.Decoder(program).decode(token).frames
    assert again == context.frames and hash(again) == hash(context.frames) and inner != main

assert pcce.Decoder(program).decode(int(number)).folded == of_number
assert pcce.Decoder(store, numbers=numbers).decode(int(interned)).folded == folded
assert pcce.Decoder(program, numbers=numbers).decode(interned).folded == folded

assert pcce.tokens(f"empty {token}, and {token}+@{token}.") == [token, f"{token}+@{token}"]
assert pcce.tokens("none") == []

# Errors say what is wrong, and with what.
decoder = pcce.Decoder(store)
assert "checksum" in raised(pcce.DecodeError, decoder.decode, token[:-1] + "AQ"[token[-1] == "A"])
assert store in raised(pcce.DecodeError, decoder.decode, "pcce1.AQAIv6ncyiDMZ37qwRAAtBYQEg")
raised(pcce.DecodeError, decoder.decode, "no token")
raised(pcce.DecodeError, decoder.decode, -1)
raised(pcce.DecodeError, decoder.decode, 1 << 70)
raised(TypeError, decoder.decode, b"bytes")
assert "nowhere" in raised(FileNotFoundError, pcce.Decoder, "nowhere")
assert __file__ in raised(pcce.DictionaryError, pcce.Decoder, __file__)
assert "nowhere" in raised(FileNotFoundError, pcce.Decoder, numbers="nowhere")
assert issubclass(pcce.DecodeError, ValueError) and issubclass(pcce.DictionaryError, ValueError)
assert os.path.exists(os.path.join(os.path.dirname(pcce.__file__), "py.typed"))

# One decoder, several threads, and more different texts than are kept.
wrong = []


def decode(first):
    for count in range(first, first + 10_000):
        if decoder.decode(token + "+" * (count % 2)).folded != folded:
            wrong.append(count)
        raised(pcce.DecodeError, decoder.decode, f"pcce1.{count}")


threads = [threading.Thread(target=decode, args=(number * 10_000,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong[:3]
