; Functions that calls reach which LLVM inserts behind the pass push at their entry, local ones as well. Calls that the pass can
; insert itself are seen: their functions do not. Nor do silent functions.
; PASSES: pcce<check>
; PASSES: pcce<check;hybrid>
; PASSES: pcce<check;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

declare void @llvm.ubsantrap(i8)
declare void @llvm.trap()
declare i64 @pcce_context()

define i128 @__divti3(i128 %a, i128 %b) nounwind {
; CHECK-LABEL: define i128 @__divti3(
; CHECK:         %pcce.entry = alloca
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK:         ret i128
  call i64 @pcce_context()
  ret i128 %a
}

define internal i128 @__modti3(i128 %a, i128 %b) nounwind {
; CHECK-LABEL: define internal i128 @__modti3(
; CHECK:         %pcce.entry = alloca
  call i64 @pcce_context()
  ret i128 %a
}

define void @__asan_report_load4(i64 %a) nounwind {
; CHECK-LABEL: define void @__asan_report_load4(
; CHECK:         %pcce.entry = alloca
  call i64 @pcce_context()
  ret void
}

define void @__asan_report_load8(i64 %a) nounwind {
; CHECK-LABEL: define void @__asan_report_load8(
; CHECK-NEXT:    ret void
  ret void
}

; Not the target's.
define void @__aeabi_idiv(i64 %a) nounwind {
; CHECK-LABEL: define void @__aeabi_idiv(
; CHECK-NOT:     %pcce.entry
; CHECK:         ret void
  ret void
}

define i32 @traps(i32 %n) nounwind {
; CHECK-LABEL: define i32 @traps(
; CHECK:         call void @traps.pcce_push(i8 7) #[[TRAP:[0-9]+]]
; CHECK-NEXT:    unreachable
  %bad = icmp slt i32 %n, 0
  br i1 %bad, label %trap, label %good
trap:
  call void @llvm.ubsantrap(i8 7) #0
  unreachable
good:
  ret i32 %n
}

; One without a function stays.
define void @stops() nounwind {
; CHECK-LABEL: define void @stops(){{.*}} {
; CHECK-NEXT:    call void @llvm.trap()
  call void @llvm.trap()
  unreachable
}

define i32 @hooked(i32 %n) nounwind #1 {
; CHECK-LABEL: define i32 @hooked(
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @__cyg_profile_func_enter(ptr @hooked, ptr %{{[0-9]+}})
  ret i32 %n
}

; CHECK-LABEL: define internal void @traps.pcce_push(i8 %0)
; CHECK:         call void @on_trap(i8 %0)
; CHECK-NOT: instrument-function-entry-inlined
; CHECK: attributes #[[TRAP]] = { noreturn nounwind }
attributes #0 = { noreturn nounwind "trap-func-name"="on_trap" }
attributes #1 = { "instrument-function-entry-inlined"="__cyg_profile_func_enter" }
