; Targeted mode: what reaches no target nor a capture is silent. The targets are a function that other modules define, and one
; by its name in the source; what calls through a pointer reaches no target unless one can be entered so.
; PASSES: pcce<check;whole-program;executable;target=log_write;target=app::Store::put>
; PASSES: pcce<check;whole-program;executable;target=log_write;target=entered>
; PASSES: pcce<check;target=log_write>
target triple = "x86_64-unknown-linux-gnu"

declare void @log_write()
declare void @other()
declare void @_ZN3app5Store3putEi(i32)
declare i64 @pcce_context()
declare i32 @setjmp(ptr) returns_twice

define internal void @logs() nounwind {
  call void @log_write()
  ret void
}

define internal void @calls_logs() nounwind {
; TARGET-APP--STORE--PUT-LABEL: define internal void @calls_logs(
; TARGET-APP--STORE--PUT:         call void @logs()
; TARGET-APP--STORE--PUT:         add i64
; TARGET-APP--STORE--PUT:         call void @logs()
; TARGET-APP--STORE--PUT:         ret void
  call void @logs()
  call void @logs()
  ret void
}

define internal void @puts() nounwind {
; TARGET-APP--STORE--PUT-LABEL: define internal void @puts(
; TARGET-APP--STORE--PUT:         store i64 0, ptr @__pcce_tls
; TARGET-APP--STORE--PUT-NEXT:    call void @_ZN3app5Store3putEi(i32 1)
  call void @_ZN3app5Store3putEi(i32 1)
  ret void
}

; Neither the call through a pointer nor the one of another function has an update.
define internal void @unknown(ptr %f) nounwind {
; TARGET-APP--STORE--PUT-LABEL: define internal void @unknown(
; TARGET-APP--STORE--PUT-NEXT:    call void %f()
; TARGET-APP--STORE--PUT-NEXT:    call void @other()
; TARGET-APP--STORE--PUT-NEXT:    ret void
; TARGET-ENTERED-LABEL: define internal void @unknown(
; TARGET-ENTERED:         add i64
; TARGET-ENTERED:         call void %f()
; TARGET-ENTERED:         store i64 0, ptr @__pcce_tls
; TARGET-ENTERED-NEXT:    call void @other()
; In a part of the program, the functions that another module reaches are not known.
; CHECK-LABEL: define internal void @unknown(
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void %f()
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @other()
  call void %f()
  call void @other()
  ret void
}

define internal void @entered() nounwind {
  ret void
}
@table = global ptr @entered

; A signal handler may reach the target, and jump.
define internal i32 @jumped_to(ptr %buffer) nounwind {
; TARGET-APP--STORE--PUT-LABEL: define internal i32 @jumped_to(
; TARGET-APP--STORE--PUT-NEXT:    load i64, ptr @__pcce_tls
; CHECK-LABEL: define internal i32 @jumped_to(
; CHECK-NEXT:    load i64, ptr @__pcce_tls
  %r = call i32 @setjmp(ptr %buffer) returns_twice
  ret i32 %r
}

; It calls nothing that is not known.
define internal void @reaches_none() nounwind {
; CHECK-LABEL: define internal void @reaches_none()
; CHECK-NEXT:    call void @entered()
; CHECK-NEXT:    call void @entered()
; CHECK-NEXT:    ret void
  call void @entered()
  call void @entered()
  ret void
}
