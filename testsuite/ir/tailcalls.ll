; Calls that must stay tail calls mark the frame that was pushed for the function; who makes them is entered by pushes
; only. Between silent functions nothing is done.
; PASSES: pcce<check>
; PASSES: pcce<check;verify>
target triple = "x86_64-unknown-linux-gnu"

declare void @external()

define internal void @leaf() nounwind {
  call void @external()
  ret void
}

; Nobody looks below it, and it leaves the state alone.
define internal void @silent_leaf() nounwind {
  ret void
}

define internal void @silent_relay() nounwind {
; CHECK-LABEL: define internal void @silent_relay(){{.*}} {
; CHECK-NEXT:    musttail call void @silent_leaf()
; CHECK-NEXT:    ret void
  musttail call void @silent_leaf()
  ret void
}

define void @calls_silent_relay() nounwind {
; CHECK-LABEL: define void @calls_silent_relay(){{.*}} {
; CHECK-NOT:     store
; CHECK:         call void @silent_relay()
; CHECK-NEXT:    ret void
  call void @silent_relay()
  ret void
}

define internal void @relay() nounwind {
; CHECK-LABEL: define internal void @relay(){{.*}} {
; CHECK-NEXT:    [[TOP:%[0-9]+]] = load i64, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8), align 8
; CHECK-NEXT:    [[LEFT:%[0-9]+]] = or i64 [[TOP]], 2
; CHECK-NEXT:    store i64 [[LEFT]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8), align 8
; CHECK-NEXT:    musttail call void @leaf()
; CHECK-NEXT:    ret void
; VERIFY-LABEL: define internal void @relay(){{.*}} {
; VERIFY:         call void @__pcce_verify_enter(
; VERIFY:         call void @__pcce_verify_leave(
; VERIFY:         or i64 %{{[0-9]+}}, 2
; VERIFY-NEXT:    store i64 %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; VERIFY-NEXT:    musttail call void @leaf()
; VERIFY-NEXT:    ret void
  musttail call void @leaf()
  ret void
}

define void @through_pointer(ptr %f) nounwind {
; CHECK-LABEL: define void @through_pointer(
; CHECK-NOT:     store
; CHECK:         or i64 %{{[0-9]+}}, 2
; CHECK-NEXT:    store i64 %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    musttail call void %f(ptr %f)
; CHECK-NEXT:    ret void
  musttail call void %f(ptr %f)
  ret void
}

define void @calls_relay() nounwind {
; CHECK-LABEL: define void @calls_relay(){{.*}} {
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @relay()
; CHECK-NEXT:    load ptr, ptr %pcce.frame
  call void @relay()
  ret void
}

; A call before the tail call is over by then.
define void @mixed(ptr %f) nounwind {
; CHECK-LABEL: define void @mixed(
; CHECK:         call void @external()
; CHECK:         store i64 %{{[0-9]+}}, ptr @__pcce_tls
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store ptr %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         or i64 %{{[0-9]+}}, 2
; CHECK-NEXT:    store i64 %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    musttail call void %f(ptr %f)
; CHECK-NEXT:    ret void
  call void @external()
  musttail call void %f(ptr %f)
  ret void
}
