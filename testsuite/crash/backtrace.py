# For gdb: prints the backtrace of each thread of each core file named in a list, a JSON object a line.
import json
import os

import gdb


def frames():
    found = []
    frame = gdb.newest_frame()
    # Not at a call: the innermost function, and those that a signal interrupted.
    exact = True
    while frame is not None and frame.is_valid():
        try:
            pc = frame.pc()
        except gdb.error:
            # A caller without a return address.
            break
        place = frame.find_sal()
        name = frame.name()
        # Code without debug information, and that of shared libraries.
        plain = frame.function() is None or gdb.solib_name(pc) is not None
        found.append(
            {
                "function": name,
                "line": place.line,
                "inlined": frame.type() == gdb.INLINE_FRAME,
                "signal": frame.type() == gdb.SIGTRAMP_FRAME,
                "plain": plain,
                "pc": pc,
                "exact": exact,
            }
        )
        if frame.type() != gdb.INLINE_FRAME:
            exact = frame.type() == gdb.SIGTRAMP_FRAME
        frame = frame.older()
    return found


gdb.execute("set pagination off")
gdb.execute("set max-completions 0")
with open(os.environ["CORES"]) as cores, open(os.environ["BACKTRACES"], "w") as out:
    for core in cores.read().split("\n"):
        if not core:
            continue
        gdb.execute("core-file " + core, to_string=True)
        threads = []
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t.num):
            thread.switch()
            threads.append({"thread": thread.ptid[1], "frames": frames()})
        json.dump({"core": core, "threads": threads}, out)
        out.write("\n")
