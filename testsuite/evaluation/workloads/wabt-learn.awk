# awk -v functions=N: another module than that of wabt.awk: flat instructions, tables, data, jump tables, 64-bit integers
# and floating point.
BEGIN {
    print "(module"
    print "  (type $unary (func (param i64) (result i64)))\n  (import \"env\" \"print\" (func $print (param f64)))"
    print "  (memory (export \"memory\") 2 10)\n  (table $t " functions " funcref)"
    for (i = 0; i < functions / 4; i++) print "  (data (i32.const " i * 32 ") \"text " i " \\00\\ff\\n\")"
    for (i = 0; i < functions; i++) {
        print "  (func $g" i " (type $unary) (local $x i64) (local $y f64) (local $i i32)"
        print "    local.get 0\n    i64.const " i * 7919 "\n    i64.mul\n    local.tee $x\n    i64.const " i % 63 "\n    i64.shr_u"
        print "    f64.convert_i64_s\n    f64.const " i ".25\n    f64.div\n    f64.sqrt\n    local.set $y"
        print "    block $out"
        for (k = 0; k < 5; k++) print "    block $case" k
        print "    local.get $x\n    i32.wrap_i64\n    i32.const 5\n    i32.rem_u\n    br_table $case0 $case1 $case2 $case3 $case4 $out"
        for (k = 4; k >= 0; k--) {
            print "    end"
            print "    local.get $i\n    i32.const " k * i % 1000 "\n    i32.store16 offset=" k * 2
            print "    local.get $y\n    call $print\n    br $out"
        }
        print "    end"
        print "    loop $more\n    local.get $i\n    i32.const 1\n    i32.add\n    local.tee $i\n    i32.const " i % 9 "\n    i32.lt_u\n    br_if $more\n    end"
        print "    local.get $x\n    local.get $i\n    i64.extend_i32_u\n    i32.const " (i + 1) % functions "\n    call_indirect (type $unary)"
        print "    drop"
        print "  )"
    }
    printf "  (elem (i32.const 0)"
    for (i = 0; i < functions; i++) printf " $g%d", i
    print ")\n  (start $main)\n  (func $main (drop (call $g0 (i64.const 1))))\n)"
}
