; In a whole program, the definition of a comdat group is the one that was kept.
; PASSES: pcce<check;whole-program>
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

$kept = comdat any

define dso_local void @kept() nounwind comdat {
  ret void
}

define void @caller() nounwind {
; CHECK-LABEL: define void @caller(){{.*}} {
; CHECK:         store ptr %pcce.frame
; CHECK:         call void @kept()
; WHOLE-PROGRAM-LABEL: define void @caller(){{.*}} {
; WHOLE-PROGRAM-NOT:     alloca
; WHOLE-PROGRAM:         call void @kept()
; WHOLE-PROGRAM:         ret void
  call void @kept()
  ret void
}
