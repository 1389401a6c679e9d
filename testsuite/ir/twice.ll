; A module that was instrumented already is refused.
; PASSES: pcce<check>,pcce<check>
; FAILS
; CHECK: error: pcce: {{.*}}twice.ll is instrumented already; give the plugin to the compiler (-fpass-plugin) or to the linker (--load-pass-plugin), not to both
define void @f() nounwind {
  ret void
}
