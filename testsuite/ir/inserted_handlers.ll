; Functions whose addresses a program may hand to what inserted calls reach push at their entry.
; PASSES: pcce<check>
; PASSES: pcce<check;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

declare void @__xray_set_handler(ptr)
declare i64 @pcce_context()

define internal void @handler(i32 %id, i32 %event) nounwind {
; CHECK-LABEL: define internal void @handler(
; CHECK:         %pcce.entry = alloca
  call i64 @pcce_context()
  ret void
}

define void @sets_handler() nounwind {
  call void @__xray_set_handler(ptr @handler)
  ret void
}
