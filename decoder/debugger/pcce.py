"""The command `pcce bt` for gdb and lldb: the calling context of the selected thread, from the encoding and not from the
stack's unwinding alone. For gdb, also a frame filter, with which `bt` leaves out what the pass and the runtime have added.

  (gdb) source PREFIX/share/pcce/pcce.py              in ~/.gdbinit
  (lldb) command script import PREFIX/share/pcce/pcce.py    in ~/.lldbinit

The program may run elsewhere: on another machine, or in an emulator, behind gdb's `target remote`. Then what is in memory is
found by the files that gdb knows.

Nothing is called in the program. The registers come from the debugger; with them and the memory that a context needs
(the stack, the thread's block, relocated data) the script writes a small core file of the thread, and `pcce core` reads it. Of a core
file that is debugged, `pcce core` reads the file itself.
"""

import collections
import os
import re
import shutil
import struct
import subprocess
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
# registers: those of a core file's NT_PRSTATUS note, in its order, by the debuggers' names. needed: those that are asked for; the
# others are 0. thread_pointer: its names, of which one is there. thread_note: the kind of the kernel's own note that has it, if
# NT_PRSTATUS does not. red_zone: bytes below the stack pointer that are in use. storage: where static thread-local storage lies
# from the thread pointer on, as far as it is looked at.
Machine = collections.namedtuple("Machine", "registers needed stack_pointer thread_pointer thread_note red_zone storage")


def x86_64():
    registers = (
        "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs"
    ).split()
    needed = [name for name in registers if name[0] == "r"]
    return Machine(registers, needed, "rsp", ["fs_base"], thread_note=None, red_zone=128, storage=(-1 << 16, 0))


def aarch64():
    needed = ["x%d" % number for number in range(31)] + ["sp", "pc"]
    # Linux has it as a register of its own, and emulators have it among the system's.
    pointer = ["tpidr", "TPIDR_EL0"]
    return Machine(needed + ["cpsr"], needed, "sp", pointer, thread_note=0x401, red_zone=0, storage=(0, 1 << 16))


# By the number `e_machine` of ELF headers.
MACHINES = {62: x86_64(), 183: aarch64()}
PAGE = 4096
# Of memory whose end is not known, so much is read at once.
STEP = 64 << 10
# Of one mapping no more is read; deep stacks are smaller.
MOST = 256 << 20
# Functions that are in no source of the program: thunks and stubs of the pass, and functions of the runtime library. Of C++
# functions, debuggers show such an ending as `NAME(PARAMETERS) [clone .pcce_push]`.
ADDED = re.compile(r"\.pcce_(push|open|replaced)(\.[0-9]+)?\]?$|^__pcce_|^pcce_(abi|runtime|system|tracer)::")
# The ending of a function's second body for traces.
RECORDING = re.compile(r"( \[clone )?\.pcce_recording\]?$")
NT_PRSTATUS, NT_AUXV, NT_FILE = 1, 6, 0x46494C45


class Failure(Exception):
    """What the user should know."""


def pcce():
    """The command `pcce` of this installation, or the one in PATH."""
    installed = os.path.join(HERE, "..", "..", "bin", "pcce")
    found = installed if os.path.exists(installed) else shutil.which("pcce")
    if not found:
        raise Failure("`pcce` is neither in %s nor in PATH; install PCCE again" % os.path.dirname(installed))
    return found


class Mapping:
    """A part of the process's memory, with whether the process has written to it."""

    def __init__(self, start, end, offset=0, name="", readable=True, written=False):
        self.start, self.end, self.offset, self.name = start, end, offset, name
        self.readable, self.written = readable, written

    def __contains__(self, address):
        return self.start <= address < self.end


def mappings(process):
    """The memory of a process of this machine."""
    found = []
    with open("/proc/%d/smaps" % process, encoding="utf-8", errors="surrogateescape") as smaps:
        for line in smaps:
            words = line.rstrip("\n").split(None, 5)
            if "-" in words[0]:
                start, end = (int(word, 16) for word in words[0].split("-"))
                name = words[5] if len(words) > 5 else ""
                found.append(Mapping(start, end, int(words[2], 16), name, words[1].startswith("r")))
            elif words[0] == "Anonymous:":
                found[-1].written = words[1] != "0"
    return found


class Elf:
    """A file of a program or library: its entry, its segments, and where its section `.text` begins."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            content = file.read()
        self.entry, programs, sections = struct.unpack_from("<QQQ", content, 24)
        _, size, count, section_size, section_count, names = struct.unpack_from("<HHHHHH", content, 52)
        self.segments = [struct.unpack_from("<IIQQQQQQ", content, programs + i * size) for i in range(count)]
        headers = [struct.unpack_from("<IIQQQQ", content, sections + i * section_size) for i in range(section_count)]
        text = lambda name: content[headers[names][4] + name :].startswith(b".text\0")
        self.text = next((header[3] for header in headers if text(header[0])), 0)
        # Where the table of segments is in memory.
        loaded = [segment for segment in self.segments if segment[0] == 1 and 0 <= programs - segment[2] < segment[5]]
        self.table = next((programs - offset + at for _, _, offset, at, *_ in loaded), programs)

    def mappings(self, bias):
        return [
            Mapping((at & -PAGE) + bias, at + size + bias, offset & -PAGE, self.path, written=bool(flags & 2))
            for kind, flags, offset, at, _, _, size, _ in self.segments
            if kind == 1
        ]


def mappings_elsewhere(program, auxiliary, libraries, pointers, read):
    """The memory of a process elsewhere: of its files, and where its stack and its thread's variables are. `libraries`: their
    paths, and the addresses of their sections `.text`."""
    AT_ENTRY = 9
    main = Elf(program)
    found = main.mappings(auxiliary.get(AT_ENTRY, main.entry) - main.entry)
    for path, text in libraries:
        if os.path.isfile(path):
            library = Elf(path)
            found += library.mappings(text - library.text)
    for pointer in sorted(pointers):
        if any(pointer in mapping for mapping in found):
            continue
        start = end = pointer & -PAGE
        for step in (STEP, PAGE):
            while end - start < MOST and readable(read, end, step):
                end += step
        if end > start:
            found.append(Mapping(start, end))
    return found


def readable(read, address, size):
    """Whether there is memory."""
    try:
        return len(read(address, size)) == size
    except Exception:  # pylint: disable=broad-except
        # The debuggers have errors of their own.
        return False


def note(kind, content, name=b"CORE"):
    padded = content + b"\0" * (-len(content) % 4)
    return struct.pack("<III8s", len(name) + 1, len(content), kind, name) + padded


def machine_of(program):
    """The number of a program's machine."""
    with open(program, "rb") as file:
        number = struct.unpack("<H", file.read(20)[18:])[0]
    if number not in MACHINES:
        raise Failure("%s is for a machine that is not known (%d)" % (program, number))
    return number


def write_core(path, found, auxiliary, thread, number, registers, read):
    """Writes a core file of one thread. `found`: the process's memory. `number`: that of the machine. `read(address, size)`
    gives the memory's content. Where memory is not known, it is asked for."""
    machine = MACHINES[number]
    sp, tp = registers[machine.stack_pointer], registers[machine.thread_pointer[0]]
    files = [m for m in found if m.name.startswith("/")]

    def wanted(mapping):
        if mapping.name.startswith("/"):
            return mapping.written
        return sp in mapping or tp in mapping or mapping.name in ("[stack]", "[vdso]")

    segments = []
    for mapping in found:
        if not mapping.readable or not wanted(mapping):
            continue
        # Below the red zone there is nothing.
        start = max(mapping.start, (sp - machine.red_zone) & -PAGE) if sp in mapping else mapping.start
        segments.append((start, read(start, min(mapping.end - start, MOST))))

    # What the thread's block points to: the runtime keeps there how the thread was created.
    block = next((m for m in found if tp in m), None)
    if block:
        start, end = max(block.start, tp + machine.storage[0]), min(block.end, tp + machine.storage[1])
        words = read(start, (end - start) & -8)
        for word in sorted({word & -PAGE for (word,) in struct.iter_unpack("<Q", words)}):
            target = next((m for m in found if word in m), None)
            held = any(at <= word < at + len(content) for at, content in segments)
            if held or (target and (target.name or not target.readable)):
                continue
            if target:
                segments.append((word, read(word, min(2 * PAGE, target.end - word))))
            elif word and readable(read, word, PAGE):
                segments.append((word, read(word, 2 * PAGE if readable(read, word + PAGE, PAGE) else PAGE)))

    status = struct.pack("<32xi76x", thread) + b"".join(struct.pack("<Q", registers.get(r, 0)) for r in machine.registers)
    notes = note(NT_PRSTATUS, status + b"\0" * 8)
    if machine.thread_note:
        notes += note(machine.thread_note, struct.pack("<Q", tp), b"LINUX")
    notes += note(NT_AUXV, b"".join(struct.pack("<QQ", *pair) for pair in auxiliary.items()))
    table = struct.pack("<QQ", len(files), PAGE)
    table += b"".join(struct.pack("<QQQ", m.start, m.end, m.offset // PAGE) for m in files)
    names = b"".join(os.fsencode(m.name) + b"\0" for m in files)
    notes += note(NT_FILE, table + names)

    headers = 64 + 56 * (1 + len(segments))
    offset = headers + len(notes)
    with open(path, "wb") as core:
        core.write(b"\x7fELF\x02\x01\x01" + b"\0" * 9)
        core.write(struct.pack("<HHIQQQIHHHHHH", 4, number, 1, 0, 64, 0, 0, 64, 56, 1 + len(segments), 0, 0, 0))
        core.write(struct.pack("<IIQQQQQQ", 4, 4, headers, 0, 0, len(notes), 0, 4))
        for start, content in segments:
            core.write(struct.pack("<IIQQQQQQ", 1, 6, offset, start, 0, len(content), len(content), 1))
            offset += len(content)
        core.write(notes)
        for _, content in segments:
            core.write(content)


def registers_of(number, register):
    """The registers of a thread. `register(name)` gives the value of one, or None if there is none of the name."""
    machine = MACHINES[number]
    registers = {name: register(name) for name in machine.needed}
    values = (register(name) for name in machine.thread_pointer)
    pointer = next((value for value in values if value is not None), None)
    if pointer is None:
        raise Failure("the debugger has no register %s, by which contexts are found" % " or ".join(machine.thread_pointer))
    registers[machine.thread_pointer[0]] = pointer
    return registers


def backtrace(process, thread, register, read):
    """The context of a thread of a live process of this machine, as text."""
    program = os.path.realpath("/proc/%d/exe" % process)
    machine = machine_of("/proc/%d/exe" % process)
    with open("/proc/%d/auxv" % process, "rb") as auxv:
        auxiliary = dict(struct.iter_unpack("<QQ", auxv.read()))
    registers = registers_of(machine, register)
    return of_memory(program, machine, mappings(process), auxiliary, thread, registers, read)


def of_memory(program, machine, found, auxiliary, thread, registers, read):
    """The context of a thread, by its memory, as text."""
    with tempfile.TemporaryDirectory(prefix="pcce-") as folder:
        core = os.path.join(folder, "core")
        write_core(core, found, auxiliary, thread, machine, registers, read)
        return of_core(program, core, thread)


def of_core(program, core, thread):
    """The context of a thread of a core file, as text."""
    done = subprocess.run([pcce(), "core", program, core], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    text = done.stdout.decode("utf-8", "replace")
    lines, own = [], False
    for line in text.splitlines():
        if line.startswith("thread: "):
            own = line.split()[1] == str(thread)
        elif own and line.startswith("#"):
            lines.append(line)
    errors = done.stderr.decode("utf-8", "replace").strip()
    if not lines:
        raise Failure(errors or "`pcce core` knows no context of thread %d" % thread)
    return "\n".join(lines + errors.splitlines()) + "\n"


def without_parameters(name):
    """A C++ name as `bt` shows it, without the parameters at its end, whose values follow."""
    end = re.search(r"\)( const)?( volatile)?( &&?)?$", name)
    if not end:
        return name
    depth = 0
    for at in range(end.start(), -1, -1):
        depth += (name[at] == ")") - (name[at] == "(")
        if depth == 0:
            return name[:at]
    return name


def for_gdb(gdb):
    from gdb.FrameDecorator import FrameDecorator

    class Prefix(gdb.Command):
        """Calling contexts of programs that were compiled with the PCCE pass."""

        def __init__(self):
            super().__init__("pcce", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)

    class Backtrace(gdb.Command):
        """Print the calling context of the selected thread, inlined calls included, as its encoding has it."""

        def __init__(self):
            super().__init__("pcce bt", gdb.COMMAND_STACK)

        def invoke(self, _arguments, _from_tty):
            self.dont_repeat()
            thread = gdb.selected_thread()
            if thread is None:
                raise gdb.GdbError("pcce bt: no thread is selected; start the program, attach to it, or open a core file")
            try:
                gdb.write(self.text(thread))
            except (Failure, OSError, gdb.error) as error:
                raise gdb.GdbError("pcce bt: %s" % error) from error

        def text(self, thread):
            process, number, _ = thread.ptid
            inferior = gdb.selected_inferior()
            number = number or process
            for line in gdb.execute("info files", to_string=True).splitlines():
                if line.startswith("\t`") and ("core file" in line or "file type elf64-" in line):
                    core = line[2 : line.index("',")]
                    if self.is_core(core):
                        return of_core(gdb.current_progspace().filename, core, number)
            frame = gdb.newest_frame()

            def register(name):
                try:
                    return int(frame.read_register(name)) & (1 << 64) - 1
                except ValueError:
                    return None

            read = lambda address, size: bytes(inferior.read_memory(address, size))
            connection = getattr(inferior, "connection", None)
            if connection is None or connection.type not in ("remote", "extended-remote"):
                return backtrace(process, number, register, read)
            return self.elsewhere(number, register, read)

        @staticmethod
        def elsewhere(thread, register, read):
            """The context of a thread behind `target remote`."""
            program = gdb.current_progspace().filename
            if not program:
                raise Failure("gdb knows no program; name it: `file PROGRAM`")
            machine = machine_of(program)
            auxiliary = {}
            for line in gdb.execute("info auxv", to_string=True).splitlines():
                words = line.split()
                value = next((word for word in words[2:] if re.fullmatch("0x[0-9a-f]+|[0-9]+", word)), None)
                if value:
                    auxiliary[int(words[0])] = int(value, 0)
            libraries = []
            for line in gdb.execute("info sharedlibrary", to_string=True).splitlines():
                words = line.split(None, 3)
                if words and words[0].startswith("0x"):
                    path = words[3].removeprefix("(*)").strip().removeprefix("target:")
                    libraries.append((path, int(words[0], 16)))
            registers = registers_of(machine, register)
            names = MACHINES[machine]
            pointers = [registers[names.stack_pointer], registers[names.thread_pointer[0]]]
            found = mappings_elsewhere(program, auxiliary, libraries, pointers, read)
            return of_memory(program, machine, found, auxiliary, thread, registers, read)

        @staticmethod
        def is_core(path):
            with open(path, "rb") as file:
                return file.read(18)[16:] == b"\x04\0"

    class Shown(FrameDecorator):
        """A frame as `bt` shows it without filters: by its name where there is no debug information."""

        def __init__(self, base):
            super().__init__(base)
            self.is_signal = self.inferior_frame().type() == gdb.SIGTRAMP_FRAME

        def function(self):
            function = super().function()
            if isinstance(function, str):
                return function if self.is_signal else without_parameters(function)
            return RECORDING.sub("", self.inferior_frame().name() or "??")

        def address(self):
            return None if self.is_signal else super().address()

        def filename(self):
            return None if self.is_signal else super().filename()

    class Filter:
        """Leaves frames out that the pass and the runtime have added. `bt -no-filters` shows them."""

        name, priority, enabled = "pcce", 100, True

        def filter(self, frames):
            return (Shown(frame) for frame in frames if not ADDED.search(frame.inferior_frame().name() or ""))

    Prefix()
    Backtrace()
    gdb.frame_filters[Filter.name] = Filter()


def for_lldb(debugger):
    debugger.HandleCommand("command container add -h 'Calling contexts of programs that were compiled with the PCCE pass.' pcce")
    debugger.HandleCommand(
        "command script add -f %s.lldb_backtrace -h 'Print the calling context of the selected thread.' pcce bt" % __name__
    )


def is_process(number, program):
    """Whether a process of this machine has the number, and runs the program."""
    try:
        return os.path.samefile("/proc/%d/exe" % number, program)
    except OSError:
        return False


def lldb_elsewhere(target, program, thread, register, read):
    """The context of a thread behind lldb's `gdb-remote`."""
    AT_PHDR, AT_ENTRY = 3, 9
    machine = machine_of(program)
    texts = {}
    for module in target.module_iter():
        section = module.FindSection(".text")
        if section.IsValid():
            texts[module.GetFileSpec().fullpath] = section.GetLoadAddress(target)
    elf = Elf(program)
    bias = texts.pop(program) - elf.text
    auxiliary = {AT_PHDR: elf.table + bias, AT_ENTRY: elf.entry + bias}
    registers = registers_of(machine, register)
    names = MACHINES[machine]
    pointers = [registers[names.stack_pointer], registers[names.thread_pointer[0]]]
    found = mappings_elsewhere(program, auxiliary, list(texts.items()), pointers, read)
    return of_memory(program, machine, found, auxiliary, thread, registers, read)


def lldb_backtrace(_debugger, _command, context, result, _dictionary):
    import lldb

    process, thread = context.GetProcess(), context.GetThread()
    try:
        if not thread.IsValid():
            raise Failure("no thread is selected; start the program, or attach to it")
        if process.GetPluginName() == "elf-core":
            raise Failure("of a core file `pcce core PROGRAM CORE` prints the contexts of all threads")
        frame = thread.GetFrameAtIndex(0)

        def register(name):
            value = frame.FindRegister(name)
            return value.GetValueAsUnsigned() if value.IsValid() else None

        def read(address, size):
            error = lldb.SBError()
            content = process.ReadMemory(address, size, error)
            if error.Fail():
                raise Failure("%d bytes at %#x cannot be read: %s" % (size, address, error))
            return content

        number, program = process.GetProcessID(), process.GetTarget().GetExecutable().fullpath
        if is_process(number, program):
            text = backtrace(number, thread.GetThreadID(), register, read)
        else:
            text = lldb_elsewhere(process.GetTarget(), program, thread.GetThreadID(), register, read)
        result.AppendMessage(text.rstrip("\n"))
    except (Failure, OSError) as error:
        result.SetError("pcce bt: %s" % error)


def __lldb_init_module(debugger, _dictionary):
    for_lldb(debugger)


try:
    import gdb as _gdb
except ImportError:
    pass
else:
    for_gdb(_gdb)
