; An unknown option is an error that names it, and those that exist.
; PASSES: pcce<check;verfy>
; FAILS
; CHECK: error: pcce: unexpected argument 'verfy' found; tip: a similar argument exists: 'verify'
; CHECK-SAME: verify, verify-report, target, profile-generate, profile-use, id-bits, hybrid, number-lines, no-callback, crash-report, trace, trace-skip, trace-only, publish, capture, slice, whole-program, executable, shared, relocatable, basic, trace-baseline, no-pie, check, no-silent
define void @f() nounwind {
  ret void
}
