; An executable that makes streams of its own: the calls push.
; PASSES: pcce<check;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

declare i32 @fputs(ptr, ptr) nounwind
declare void @abort() noreturn nounwind

; CHECK-LABEL: define void @print(
; CHECK:         alloca
; CHECK:         store ptr %{{.*}}, ptr getelementptr
; CHECK:         call i32 @fputs(
define void @print(ptr %text, ptr %stream) {
  %n = call i32 @fputs(ptr %text, ptr %stream)
  ret void
}

; CHECK-LABEL: define void @end(
; CHECK:         alloca
; CHECK:         call void @abort()
define void @end() {
  call void @abort()
  unreachable
}

declare ptr @fopencookie(ptr, ptr, ptr)
define ptr @make() {
  %stream = call ptr @fopencookie(ptr null, ptr null, ptr null)
  ret ptr %stream
}
