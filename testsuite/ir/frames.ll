; Frames begin once on each way to a push: what all pushes of an activation have in common is written there.
; PASSES: pcce<check>
declare void @external()
declare void @pcce_fiber_restore(ptr)

; The second push finds the words that the first one has written.
define internal void @twice() nounwind {
; CHECK-LABEL: define internal void @twice()
; CHECK:         load i64, ptr @__pcce_tls
; CHECK:         call void @external()
; CHECK-NOT:     store ptr {{.*}}, ptr %pcce.frame,
; CHECK:         getelementptr inbounds i8, ptr %pcce.frame, i64 16
; CHECK-NEXT:    store ptr getelementptr inbounds (i8, ptr @__pcce_sites.{{[0-9a-f]+}}, i64 1)
; CHECK-NEXT:    fence
; CHECK-NEXT:    store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @external()
  call void @external()
  call void @external()
  ret void
}

; In front of a loop, on the way to it.
define internal void @loop(i1 %enter, i1 %again) nounwind {
; CHECK-LABEL: define internal void @loop(
; CHECK-NEXT:  entry:
; CHECK-NEXT:    %pcce.frame = alloca
; CHECK-NEXT:    br i1 %enter, label %[[FRONT:.+]], label %out
; CHECK:       [[FRONT]]:
; CHECK-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK:         store i64 %[[#ID]]
; CHECK:         store ptr {{.*}}@__pcce_sites.
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         br label %round
; CHECK:       round:
; Code without the pass may have left another state.
; CHECK-NEXT:    store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @external()
; CHECK-NEXT:    br i1 %again, label %round, label %[[BEHIND:.+]]
; CHECK:       [[BEHIND]]:
; CHECK:         store i64 %{{.+}}, ptr @__pcce_tls
; CHECK:         br label %out
entry:
  br i1 %enter, label %round, label %out
round:
  call void @external()
  br i1 %again, label %round, label %out
out:
  ret void
}

; On one of the ways only.
define internal void @branches(i1 %which) nounwind {
; CHECK-LABEL: define internal void @branches(
; CHECK:         br i1 %which
; CHECK:       first:
; CHECK:         %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK:         store i64 %[[#ID]]
; CHECK:         call void @external()
entry:
  br i1 %which, label %first, label %second
first:
  call void @external()
  ret void
second:
  ret void
}

; The state is another one after each switch of fibers.
define internal void @switches(ptr %fiber) nounwind {
; CHECK-LABEL: define internal void @switches(
; CHECK:         %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK:         store i64 %[[#ID]]
; CHECK:         call void @external()
; CHECK:         call void @pcce_fiber_restore(ptr %fiber)
; CHECK-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK:         store i64 %[[#ID]]
; CHECK:         call void @external()
  call void @external()
  call void @pcce_fiber_restore(ptr %fiber)
  call void @external()
  ret void
}

; The addition of a call does not last until the frame begins.
define internal void @between(i1 %again) personality ptr null {
; CHECK-LABEL: define internal void @between(
; CHECK:         call void @twice()
; CHECK:         call void @twice()
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], 1
; CHECK-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; CHECK-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    load i64, ptr @__pcce_tls
; CHECK:         %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], -2
; CHECK:         invoke void @twice()
  call void @twice()
  call void @twice()
  invoke void @twice() to label %round unwind label %pad
round:
  call void @external()
  br i1 %again, label %round, label %out
out:
  ret void
pad:
  %p = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %p
}

define internal void @only_here() {
  call void @external()
  ret void
}

; A call for which nothing is done gets no block of its own behind it.
define internal void @adds_nothing(i1 %calls) personality ptr null {
; CHECK-LABEL: define internal void @adds_nothing(
; CHECK:         invoke void @only_here()
; CHECK-NEXT:      to label %out unwind label %pad
entry:
  br i1 %calls, label %first, label %out
first:
  invoke void @only_here() to label %out unwind label %pad
out:
  ret void
pad:
  %caught = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %caught
}
