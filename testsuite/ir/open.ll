; A call through a pointer adds in an executable built as a whole, to the id of the open node, and pushes elsewhere: in a
; module, in a shared library.
; PASSES: pcce<check>
; PASSES: pcce<check;whole-program;shared>
; PASSES: pcce<check;whole-program>
; PASSES: pcce<check;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

declare void @external()

define void @main(ptr %f) nounwind {
; CHECK-LABEL: define void @main(
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void %f()
; The next push is whole, so nothing is popped in front of it.
; CHECK-NEXT:    getelementptr inbounds i8, ptr %pcce.frame, i64 16
; CHECK-NOT:     load
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void %f()
; CHECK-NEXT:    load ptr, ptr %pcce.frame
; SHARED-LABEL: define void @main(
; SHARED:         store i64 0, ptr @__pcce_tls
; SHARED-NEXT:    call void %f()
; Compiled with -fPIC, it may be for a shared library, unless the wrapper knows better.
; WHOLE-PROGRAM-LABEL: define void @main(
; WHOLE-PROGRAM:         store i64 0, ptr @__pcce_tls
; WHOLE-PROGRAM-NEXT:    call void %f()
; Other modules' functions know an open call's id by its sign: it is positive.
; EXECUTABLE-LABEL: define void @main(
; EXECUTABLE-NOT:     alloca
; EXECUTABLE:         %[[#ID:]] = load i64, ptr @__pcce_tls
; EXECUTABLE-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], [[#FIRST:]]
; EXECUTABLE-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; EXECUTABLE-NEXT:    call void %f()
; EXECUTABLE-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; EXECUTABLE-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], 1
; EXECUTABLE-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; EXECUTABLE-NEXT:    call void %f()
  tail call void %f()
  call void %f()
  ret void
}

; A call that leaves the program by its name pushes: it may be a switch of stacks.
define void @leaves() nounwind {
; EXECUTABLE-LABEL: define void @leaves(
; EXECUTABLE:         store i64 0, ptr @__pcce_tls
; EXECUTABLE-NEXT:    call void @external()
  call void @external()
  ret void
}

; No function of an executable looks who enters it.
; EXECUTABLE-NOT: pcce_open

!llvm.module.flags = !{!0}
!0 = !{i32 8, !"PIC Level", i32 2}
