; An unknown option is an error that names it, and those that exist.
; PASSES: pcce<check;verfy>
; FAILS
; CHECK: error: pcce: unknown pass option 'verfy'
; CHECK-SAME: verify, publish, whole-program, executable, shared, relocatable, hybrid, basic, no-pie, check, leaf-depth=N, id-bits=N (8 to 63), target=NAME, no-callback=FILE
define void @f() nounwind {
  ret void
}
