; If a pointer is loaded for one call only, the work for the call goes in front of the load, so that the machine's call can load the pointer.
; PASSES: pcce<check;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

declare void @external()
declare i32 @setjmp(ptr) returns_twice

define void @main(ptr %p) nounwind {
  call void @loads(ptr %p)
  call void @loads_before(ptr %p)
  call void @loads_behind(ptr %p)
  call void @pushes(ptr %p)
  ret void
}

; CHECK-LABEL: define internal void @loads(
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], [[#]]
; CHECK-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; CHECK-NEXT:    %f = load ptr, ptr %p
; CHECK-NEXT:    store i32 0, ptr %p
; CHECK-NEXT:    call void %f()
define internal void @loads(ptr %p) nounwind {
  %f = load ptr, ptr %p
  store i32 0, ptr %p
  call void %f()
  ret void
}

; Not where the pointer has other uses, and not across a call.
; CHECK-LABEL: define internal void @loads_before(
; CHECK:         %f = load ptr, ptr %p
; CHECK-NEXT:    load i64, ptr @__pcce_tls
; CHECK:         call void %f()
; CHECK:         %g = load ptr, ptr %p
; CHECK:         call void @external()
; CHECK:         store i64 %[[#]], ptr @__pcce_tls
; CHECK:         store i64 %[[#]], ptr @__pcce_tls
; CHECK:         call void %g()
define internal void @loads_before(ptr %p) nounwind {
  %f = load ptr, ptr %p
  call void %f()
  %g = load ptr, ptr %p
  call void @external()
  call void %g()
  store ptr %f, ptr %p
  ret void
}

; A function restores the state first when a jump has come back to it.
; CHECK-LABEL: define internal void @loads_behind(
; CHECK:         call i32 @setjmp(
; CHECK:         store i64 %{{.*}}, ptr @__pcce_tls
; CHECK-NEXT:    %f = load ptr, ptr %p
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[#SUM:]] = add i64 %[[#ID]]
; CHECK-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; CHECK-NEXT:    call void %f()
define internal void @loads_behind(ptr %p) nounwind {
  %r = call i32 @setjmp(ptr %p)
  %f = load ptr, ptr %p
  call void %f()
  ret void
}

; CHECK-LABEL: define internal void @pushes(
; CHECK:         store ptr %{{.*}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %f = load ptr, ptr %p
; CHECK-NEXT:    call void %f(ptr %p)
define internal void @pushes(ptr %p) nounwind {
  %f = load ptr, ptr %p
  call void %f(ptr %p)
  ret void
}
; Calls of these, and they of it.
define void @a(ptr %p) nounwind {
  call void @pushes(ptr %p)
  ret void
}
define void @b(ptr %p) nounwind {
  call void @pushes(ptr %p)
  ret void
}
define void @c(ptr %p) nounwind {
  call void @pushes(ptr %p)
  ret void
}
define void @d(ptr %p) nounwind {
  call void @pushes(ptr %p)
  ret void
}
