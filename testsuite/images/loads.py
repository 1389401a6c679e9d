# usage: loads.py IN.ll OUT.ll none|tables|epochs
# What it costs if additions inside an image take their values from a table (docs/images.md): changes the code of a link in lto mode,
# as lld's --save-temps leaves it in front of code generation. A call's value is kept for its reversal within a block. So perl was counted,
# in the folder of an encoded build, with its compiler as $CC:
#
#   $CC -no-pie -Wl,-E -Wl,--save-temps -o perl-link perlmain.o DynaLoader.o libperl.a $LIBS
#   llvm-dis-19 perl-link.0.5.precodegen.bc -o link.ll
#   python3 loads.py link.ll tables.ll tables
#   llc-19 -O2 -filetype=obj -relocation-model=static -function-sections -data-sections tables.ll -o tables.o
#   $CC -no-pie -Wl,-E -o perl-tables tables.o $LIBS
import re
import sys

source, output, mode = sys.argv[1:4]
load = re.compile(r"^  (%[\w.]+) = load i64, ptr @__pcce_tls, align 8")
add = re.compile(r"^  (%[\w.]+) = add i64 (%[\w.]+), (-?\d+)")
lines = open(source).read().split("\n")
result, values, kept = [], [], {}
at = 0
while at < len(lines):
    line = lines[at]
    if re.match(r"^[\w.-]+:", line) or line.startswith("define") or line == "}":
        kept = {}
    loaded = load.match(line) if mode != "none" and at + 2 < len(lines) else None
    added = loaded and add.match(lines[at + 1])
    if not (added and added[2] == loaded[1] and lines[at + 2].startswith(f"  store i64 {added[1]}, ptr @__pcce_tls,")):
        result.append(line)
        at += 1
        continue
    result.append(line)
    value = int(added[3])
    if value < 0 and -value in kept:
        result.append(f"  {added[1]} = sub i64 {loaded[1]}, {kept.pop(-value)}")
    else:
        number = len(values)
        values.append(value)
        place = f"getelementptr inbounds (i8, ptr @pcce_value_table, i64 {8 * number})"
        if mode == "epochs":
            result.append(f"  %tb{number} = load ptr, ptr @pcce_epoch_table, align 8")
            result.append(f"  %tp{number} = getelementptr i8, ptr %tb{number}, i64 {8 * number}")
            place = f"%tp{number}"
        result.append(f"  %tv{number} = load i64, ptr {place}, align 8")
        result.append(f"  {added[1]} = add i64 {loaded[1]}, %tv{number}")
        if value > 0:
            kept[value] = f"%tv{number}"
    result.append(lines[at + 2])
    at += 3
if mode != "none":
    table = ", ".join(f"i64 {value}" for value in values)
    tables = [f"@pcce_value_table = dso_local global [{len(values)} x i64] [{table}], align 16"]
    if mode == "epochs":
        tables.append("@pcce_epoch_table = dso_local thread_local(localexec) global ptr @pcce_value_table, align 8")
    first = next(number for number, line in enumerate(result) if line.startswith("@"))
    result[first:first] = tables
open(output, "w").write("\n".join(result))
