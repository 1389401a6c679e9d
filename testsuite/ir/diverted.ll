; Functions that an executable's open call may reach, in a module that is no whole program: they look at their entry for
; its id, which is positive, or a link of the executable's whose ids count from a frame, and let a function of their own push.
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

declare void @external()

; The frame has no site. It is off the chain where an exception leaves, too: who catches may be code that is not
; instrumented.
define i32 @visible(i32 %x, ptr %y) {
; CHECK-LABEL: define i32 @visible(i32 %x, ptr %y)
; CHECK-NEXT:    %pcce.frame = alloca
; CHECK-NEXT:    %[[ID:[0-9]+]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[POSITIVE:[0-9]+]] = icmp sgt i64 %[[ID]], 0
; CHECK-NEXT:    br i1 %[[POSITIVE]], label %[[DIVERT:[0-9]+]], label %[[NEXT:[0-9]+]]
; CHECK:       [[DIVERT]]:
; CHECK-NEXT:    %[[R:[0-9]+]] = musttail call i32 @visible.pcce_open(i32 %x, ptr %y)
; CHECK-NEXT:    ret i32 %[[R]]
; CHECK:       [[NEXT]]:
; CHECK-NEXT:    %[[TOP:[0-9]+]] = load i8, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %[[BIT:[0-9]+]] = and i8 %[[TOP]], 1
; CHECK-NEXT:    %[[RELATIVE:[0-9]+]] = icmp ne i8 %[[BIT]], 0
; CHECK-NEXT:    br i1 %[[RELATIVE]], label %[[DIVERT]], label %{{.*}}
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    invoke void @external()
  call void @external()
  ret i32 %x
}

; Arguments on the stack cannot be handed on by a tail call: the function pushes at its entry.
define i32 @by_value(ptr byval(i64) %y) nounwind {
; CHECK-LABEL: define i32 @by_value(
; CHECK-NOT:     musttail
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK:         call void @external()
  call void @external()
  ret i32 0
}

@table = global ptr @taken

define internal void @taken() nounwind {
; CHECK-LABEL: define internal void @taken()
; CHECK:         musttail call void @taken.pcce_open()
  call void @external()
  ret void
}

; Only calls of this module reach it.
define internal void @local() nounwind {
; CHECK-LABEL: define internal void @local()
; CHECK-NOT:     icmp
; CHECK:         call void @external()
  call void @external()
  ret void
}

define void @calls() nounwind {
  call void @local()
  ret void
}

; Nothing can pass on the arguments of a variadic function: it pushes at its entry, whoever calls, and its callers in the
; module push as well, so that the frame at the entry has an open call's id or 0.
define internal i32 @variadic(i32 %n, ...) nounwind {
; CHECK-LABEL: define internal i32 @variadic(i32 %n, ...)
; CHECK:         %[[ENTRY:[0-9]+]] = getelementptr inbounds i8, ptr %pcce.frame, i64 32
; CHECK:         store ptr null, ptr
; CHECK:         store ptr %[[ENTRY]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @external()
; CHECK:         ret i32
  call void @external()
  ret i32 %n
}

@variadic_table = global ptr @variadic

define void @calls_variadic() nounwind {
; CHECK-LABEL: define void @calls_variadic()
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call i32 (i32, ...) @variadic(i32 0)
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call i32 (i32, ...) @variadic(i32 1)
  %a = call i32 (i32, ...) @variadic(i32 0)
  %b = call i32 (i32, ...) @variadic(i32 1)
  ret void
}

; CHECK-LABEL: define internal i32 @visible.pcce_open(
; CHECK:         store ptr null, ptr %{{[0-9]+}}
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    %[[R:[0-9]+]] = invoke i32 @visible.pcce_open.own(i32 %0, ptr %1)
; CHECK:         store i64 %{{[0-9]+}}, ptr @__pcce_tls
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store ptr %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    ret i32 %[[R]]
; CHECK:       pcce.unwind:
; CHECK:         store i64 %{{[0-9]+}}, ptr @__pcce_tls
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store ptr %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    resume
