; Ordinary tail calls that make a cycle stay tail calls, with a return of their own, and who makes them is entered by
; pushes only. Others are instrumented.
; PASSES: pcce<check;no-silent>
; PASSES: pcce<check;no-silent;verify>
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

define i32 @main(i32 %n) nounwind {
; CHECK-LABEL: define i32 @main(
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call i32 @even(
; CHECK-NEXT:    load ptr, ptr %pcce.frame
  %r = call i32 @even(i32 %n)
  ret i32 %r
}

define internal i32 @even(i32 %n) nounwind {
; CHECK-LABEL: define internal i32 @even(
; CHECK:       more:
; CHECK-NEXT:    %m = add
; CHECK:         or i64 %{{[0-9]+}}, 2
; CHECK-NEXT:    store i64 %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %r = tail call i32 @odd(i32 %m)
; CHECK-NEXT:    ret i32 %r
; VERIFY-LABEL: define internal i32 @even(
; VERIFY:         %m = add
; VERIFY-NEXT:    call void @__pcce_verify_leave(
; VERIFY:         or i64 %{{[0-9]+}}, 2
; VERIFY-NEXT:    store i64 %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; VERIFY-NEXT:    %r = tail call i32 @odd(i32 %m)
; VERIFY-NEXT:    ret i32 %r
  %zero = icmp eq i32 %n, 0
  br i1 %zero, label %end, label %more

more:
  %m = add i32 %n, -1
  %r = tail call i32 @odd(i32 %m)
  br label %end

end:
  %result = phi i32 [ 1, %0 ], [ %r, %more ]
  ret i32 %result
}

define internal i32 @odd(i32 %n) nounwind {
; CHECK-LABEL: define internal i32 @odd(
; CHECK:         %m = add
; CHECK:         or i64 %{{[0-9]+}}, 2
; CHECK-NEXT:    store i64 %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %r = tail call i32 @even(i32 %m)
; CHECK-NEXT:    ret i32 %r
  %m = add i32 %n, -1
  %r = tail call i32 @even(i32 %m)
  ret i32 %r
}

; The type of @step, whose address is taken.
@table = internal global ptr @step

define internal void @step(ptr %f, i64 %n) nounwind {
; CHECK-LABEL: define internal void @step(
; CHECK:         {{^  }}tail call void %f(ptr %f, i64 %n)
; CHECK-NEXT:    ret void
  tail call void %f(ptr %f, i64 %n)
  ret void
}

; No tail call leads here from a function of the type.
define void @start(ptr %f, i64 %n) nounwind {
; CHECK-LABEL: define void @start(
; CHECK:         store ptr %pcce.frame
; CHECK:         call void %f(ptr %f, i64 %n)
; CHECK-NEXT:    load ptr, ptr %pcce.frame
  tail call void %f(ptr %f, i64 %n)
  ret void
}

; Not marked as one that may be a tail call.
define internal i32 @marked(i32 %n) nounwind {
; CHECK-LABEL: define internal i32 @marked(
; CHECK:         store ptr %pcce.frame
  %r = tail call i32 @unmarked(i32 %n)
  ret i32 %r
}

define internal i32 @unmarked(i32 %n) nounwind {
  %r = call i32 @marked(i32 %n)
  ret i32 %r
}

; The caller returns something else.
define internal i32 @changed(i32 %n) nounwind {
; CHECK-LABEL: define internal i32 @changed(
; CHECK:         store ptr %pcce.frame
  %r = tail call i32 @changed(i32 %n)
  ret i32 7
}

; Arguments on the stack.
define internal void @seven(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f, i64 %g) nounwind {
; CHECK-LABEL: define internal void @seven(
; CHECK:         store ptr %pcce.frame
  tail call void @seven(i64 %b, i64 %c, i64 %d, i64 %e, i64 %f, i64 %g, i64 %a)
  ret void
}

define internal void @by_value(ptr %a) nounwind {
; CHECK-LABEL: define internal void @by_value(
; CHECK:         store ptr %pcce.frame
  tail call void @by_value(ptr byval(i64) %a)
  ret void
}

; -fno-optimize-sibling-calls
define internal void @disabled() nounwind "disable-tail-calls"="true" {
; CHECK-LABEL: define internal void @disabled()
; CHECK:         store ptr %pcce.frame
  tail call void @disabled()
  ret void
}

; It pushes at its entry, so it has to pop: its call is instrumented. Whom it calls reaches its frame, so that
; no call is marked `tail`.
define ptr @reallocarray(ptr %p, i64 %n, i64 %m) nounwind {
; CHECK-LABEL: define ptr @reallocarray(
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @once()
; VERIFY-LABEL: define ptr @reallocarray(
; VERIFY:        {{^  }}call void @once()
; CHECK:         %r = call ptr @reallocarray(
; CHECK:         load ptr, ptr %{{[0-9]+}}, align 8
; CHECK:         ret ptr %r
  tail call void @once()
  %r = tail call ptr @reallocarray(ptr %p, i64 %m, i64 %n)
  ret ptr %r
}

define internal void @once() nounwind {
  ret void
}
