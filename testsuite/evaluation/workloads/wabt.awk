# awk -v functions=N: a module of N functions, of nested expressions, branches, loops and calls.
function random(n) { state = (state * 1103515245 + 12345) % 2147483648; return int(state / 65536) % n }
function expression(depth,    kind) {
    kind = random(depth > 0 ? 9 : 2)
    if (kind == 0) return "(i32.const " random(100000) ")"
    if (kind == 1) return "(local.get $" substr("abcd", 1 + random(4), 1) ")"
    if (kind <= 5) return "(i32." operators[random(8)] " " expression(depth - 1) " " expression(depth - 1) ")"
    if (kind == 6) return "(if (result i32) " expression(depth - 1) " (then " expression(depth - 1) ") (else " expression(depth - 1) "))"
    if (kind == 7) return "(call $f" random(functions) " " expression(depth - 1) " " expression(depth - 1) ")"
    return "(block $l" depth " (result i32) (br_if $l" depth " " expression(depth - 1) " " expression(depth - 1) "))"
}
BEGIN {
    state = 5
    split("add sub mul and or xor shl rotl", words, " ")
    for (i = 1; i <= 8; i++) operators[i - 1] = words[i]
    print "(module\n  (memory 1)\n  (global $g (mut i32) (i32.const 1))"
    for (i = 0; i < functions; i++) {
        print "  (func $f" i " (export \"function" i "\") (param $a i32) (param $b i32) (result i32) (local $c i32) (local $d i32)"
        print "    (local.set $c " expression(5) ")"
        print "    (loop $again (local.set $d (i32.add (local.get $d) (i32.const 1)))"
        print "      (i32.store offset=" random(64) " (i32.const 16) " expression(3) ")"
        print "      (br_if $again (i32.lt_s (local.get $d) (i32.const " 1 + random(20) "))))"
        print "    (global.set $g " expression(4) ")"
        print "    " expression(6) ")"
    }
    print ")"
}
