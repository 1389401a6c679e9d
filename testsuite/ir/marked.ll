; The marker of an instrumented module is in the module.
; PASSES: pcce<check>
; FAILS
; CHECK: error: pcce: {{.*}}marked.ll is instrumented already
define void @f() nounwind {
  ret void
}
!pcce.instrumented = !{}
