; Silent functions: nothing below them can take a context, push, or call back. Neither they nor calls of them change the
; id.
; PASSES: pcce<check;no-silent>
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

declare void @external()
declare i64 @pcce_context()
declare i64 @strlen(ptr)
declare i32 @setjmp(ptr) returns_twice

define internal void @leaf(ptr %s) nounwind {
; CHECK-LABEL: define internal void @leaf(
; CHECK-NEXT:    call i64 @strlen(ptr %s)
; CHECK-NEXT:    ret void
  %n = call i64 @strlen(ptr %s)
  ret void
}

define internal void @above(ptr %s) nounwind {
; CHECK-LABEL: define internal void @above(
; CHECK-NEXT:    call void @leaf(ptr %s)
; CHECK-NEXT:    call void @leaf(ptr %s)
; CHECK-NEXT:    ret void
  call void @leaf(ptr %s)
  call void @leaf(ptr %s)
  ret void
}

; Two calls above the leaves.
define void @twice(ptr %s) nounwind {
; CHECK-LABEL: define void @twice(
; CHECK-NEXT:    call void @above(ptr %s)
; CHECK-NEXT:    call void @above(ptr %s)
; CHECK-NEXT:    ret void
; NO-SILENT-LABEL: define void @twice(
; NO-SILENT:         musttail call void @twice.pcce_open(
  call void @above(ptr %s)
  call void @above(ptr %s)
  ret void
}

; Cycles, too.
define internal void @recursive() nounwind {
; CHECK-LABEL: define internal void @recursive()
; CHECK-NEXT:    call void @mutual()
; CHECK-NEXT:    call void @leaf(ptr null)
; CHECK-NEXT:    ret void
  call void @mutual()
  call void @leaf(ptr null)
  ret void
}

define internal void @mutual() nounwind {
; CHECK-LABEL: define internal void @mutual()
; CHECK-NEXT:    call void @recursive()
; CHECK-NEXT:    call void @mutual()
; CHECK-NEXT:    ret void
  call void @recursive()
  call void @mutual()
  ret void
}

; Each of these keeps its function, and those that call it, from being silent: it looks at who calls.
define void @calls_external() nounwind {
; CHECK-LABEL: define void @calls_external()
; CHECK:         musttail call void @calls_external.pcce_open()
  call void @external()
  ret void
}

define i64 @captures() nounwind {
; CHECK-LABEL: define i64 @captures()
; CHECK:         musttail call i64 @captures.pcce_open()
  %n = call i64 @pcce_context()
  ret i64 %n
}

define i64 @above_a_capture() nounwind {
; CHECK-LABEL: define i64 @above_a_capture()
; CHECK:         musttail call i64 @above_a_capture.pcce_open()
  %n = call i64 @captures()
  ret i64 %n
}

define i32 @jumped_to(ptr %buffer) nounwind {
; CHECK-LABEL: define i32 @jumped_to(
; CHECK:         musttail call i32 @jumped_to.pcce_open(
  %r = call i32 @setjmp(ptr %buffer) returns_twice
  ret i32 %r
}

define void @recursive_and_out() nounwind {
; CHECK-LABEL: define void @recursive_and_out()
; CHECK:         musttail call void @recursive_and_out.pcce_open()
  call void @recursive_and_out()
  call void @calls_external()
  ret void
}
