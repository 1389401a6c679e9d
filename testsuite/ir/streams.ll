; stdio calls back through streams that a program makes itself only. An executable built as a whole that makes none pushes nothing.
; PASSES: pcce<check;whole-program;executable>
; PASSES: pcce<check;whole-program;shared>
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

declare i32 @fputs(ptr, ptr) nounwind
declare void @abort() noreturn nounwind
declare void @exit(i32) noreturn nounwind

; EXECUTABLE-LABEL: define void @print(
; EXECUTABLE-NEXT:    call i32 @fputs(
; EXECUTABLE-NEXT:    ret void
; CHECK-LABEL: define void @print(
; CHECK:         alloca
; CHECK:         store ptr %{{.*}}, ptr getelementptr
; CHECK:         call i32 @fputs(
define void @print(ptr %text, ptr %stream) {
  %n = call i32 @fputs(ptr %text, ptr %stream)
  ret void
}

; EXECUTABLE-LABEL: define void @end(
; EXECUTABLE-NEXT:    call void @abort()
; EXECUTABLE-NEXT:    unreachable
; CHECK-LABEL: define void @end(
; CHECK:         alloca
; CHECK:         call void @abort()
define void @end() {
  call void @abort()
  unreachable
}

; Handlers run.
; EXECUTABLE-LABEL: define void @leave(
; EXECUTABLE:         alloca
; EXECUTABLE:         call void @exit(
define void @leave() {
  call void @exit(i32 0)
  unreachable
}
