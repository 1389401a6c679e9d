; Functions that are not instrumented: calls of them push, they themselves stay as they are.
; PASSES: pcce<check;verify>
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

@dispatched = ifunc void (), ptr @resolver
declare void @external()

define void @assembly() naked nounwind {
; CHECK: define void @assembly() #[[#]] {
; CHECK-NEXT:    call void asm sideeffect "jmp external", ""()
; CHECK-NEXT:    unreachable
  call void asm sideeffect "jmp external", ""()
  unreachable
}

define available_externally void @copy() nounwind {
; CHECK-LABEL: define available_externally void @copy(){{.*}} {
; CHECK-NEXT:    call void @external()
; CHECK-NEXT:    ret void
  call void @external()
  ret void
}

; Runs before thread-local storage exists.
define ptr @resolver() nounwind {
; CHECK-LABEL: define ptr @resolver(){{.*}} {
; CHECK-NEXT:    call void @external()
; CHECK-NEXT:    ret ptr
  call void @external()
  ret ptr @copy
}

define void @caller() nounwind {
; CHECK-LABEL: define void @caller(){{.*}} {
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @assembly()
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @copy()
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @dispatched()
; VERIFY-LABEL: define void @caller(){{.*}} {
; VERIFY:         call void @__pcce_verify_enter(ptr %pcce.shadow, ptr @__pcce_functions)
; VERIFY:         store i64 0, ptr @__pcce_tls
; VERIFY-NEXT:    call void @assembly()
; VERIFY:         store ptr %pcce.shadow, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 16)
; VERIFY:         call void @__pcce_verify_return(ptr %pcce.shadow)
; VERIFY-NEXT:    ret void
  call void @assembly()
  call void @copy()
  call void @dispatched()
  ret void
}
