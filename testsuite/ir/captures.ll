; Captures are replaced by calls that know their site; what makes a number of the id too in a whole program, which is the
; start of the function's range (and no number without one). Where nothing was pushed, the sum of that and the id is the number.
; PASSES: pcce<check>
; PASSES: pcce<check;whole-program>
; PASSES: pcce<check;whole-program;shared>
target triple = "x86_64-unknown-linux-gnu"

declare i64 @pcce_context()
declare i64 @pcce_token(ptr, i64)
declare i32 @__gxx_personality_v0(...)

define i64 @number() nounwind {
; CHECK-LABEL: define i64 @number(){{.*}} {
; CHECK:         %[[R:[0-9]+]] = call i64 @__pcce_context(ptr @__pcce_sites.{{[0-9a-f]+}}, i64 -9223372036854775808)
; CHECK-NEXT:    ret i64 %[[R]]
; WHOLE-PROGRAM-LABEL: define i64 @number(){{.*}} {
; WHOLE-PROGRAM-NEXT:    %[[TOP:[0-9]+]] = load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; WHOLE-PROGRAM-NEXT:    %[[ID:[0-9]+]] = load i64, ptr @__pcce_tls
; WHOLE-PROGRAM-NEXT:    %[[N:[0-9]+]] = add i64 %[[ID]], 1
; WHOLE-PROGRAM-NEXT:    %[[PUSHED:[0-9]+]] = icmp ne ptr %[[TOP]], null
; WHOLE-PROGRAM-NEXT:    br i1 %[[PUSHED]], label %[[CALL:[0-9]+]], label %[[END:[0-9]+]]
; WHOLE-PROGRAM:       [[CALL]]:
; WHOLE-PROGRAM-NEXT:    %[[C:[0-9]+]] = call i64 @__pcce_context(ptr @__pcce_sites.{{[0-9a-f]+}}, i64 1)
; WHOLE-PROGRAM-NEXT:    br label %[[END]]
; WHOLE-PROGRAM:       [[END]]:
; WHOLE-PROGRAM-NEXT:    %[[R:[0-9]+]] = phi i64 [ %[[C]], %[[CALL]] ], [ %[[N]], %0 ]
; WHOLE-PROGRAM-NEXT:    ret i64 %[[R]]
; SHARED-LABEL: define i64 @number(){{.*}} {
; SHARED:         call i64 @__pcce_context(ptr @__pcce_sites.{{[0-9a-f]+}}, i64 -9223372036854775808)
  %n = call i64 @pcce_context()
  ret i64 %n
}

; Ranges do not overlap.
define i64 @second() nounwind {
; WHOLE-PROGRAM-LABEL: define i64 @second(){{.*}} {
; WHOLE-PROGRAM:         add i64 %{{[0-9]+}}, 2
; WHOLE-PROGRAM:         call i64 @__pcce_context({{.*}}, i64 2)
  %n = tail call i64 @pcce_context()
  ret i64 %n
}

define i64 @token(ptr %buffer) nounwind {
; CHECK-LABEL: define i64 @token(
; CHECK:         call i64 @__pcce_token(ptr %buffer, i64 64, ptr getelementptr inbounds (i8, ptr @__pcce_sites.{{[0-9a-f]+}}, i64 2))
  %n = call i64 @pcce_token(ptr %buffer, i64 64)
  ret i64 %n
}

; An invoked one cannot throw: it becomes a call.
define i64 @invoked() personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define i64 @invoked()
; CHECK:         call i64 @__pcce_context(
; CHECK-NOT:     invoke
; CHECK:         ret i64
  %n = invoke i64 @pcce_context() to label %done unwind label %pad
done:
  ret i64 %n
pad:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e
}

; Through a pointer, the runtime's own function answers: an ordinary call.
define i64 @pointer() nounwind {
; CHECK-LABEL: define i64 @pointer()
; CHECK:         store volatile ptr @pcce_context
  %p = alloca ptr
  store volatile ptr @pcce_context, ptr %p
  %f = load volatile ptr, ptr %p
  %n = call i64 %f()
  ret i64 %n
}
