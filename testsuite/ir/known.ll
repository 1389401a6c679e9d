; A call through a pointer that would push is compared with the functions of its type whose address is taken, if they are few: those are
; called directly. What is left pushes.
; PASSES: pcce<check;whole-program;executable>
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

@handlers = global [2 x ptr] [ptr @one, ptr @other]
@others = global [4 x ptr] [ptr @a, ptr @b, ptr @c, ptr @d]

define i32 @main(ptr %f, ptr %g) nounwind {
  %r = call i32 @recursive(ptr %f, i32 5)
  %s = call i64 @many(ptr %g, i64 5)
  ret i32 %r
}

; EXECUTABLE-LABEL: define internal i32 @recursive(
; EXECUTABLE:         %[[#IS:]] = icmp eq ptr %f, @one
; EXECUTABLE-NEXT:    br i1 %[[#IS]]
; EXECUTABLE:         call i32 @one(
; EXECUTABLE:         icmp eq ptr %f, @other
; This one is silent.
; EXECUTABLE:       {{^if.true.*:}}
; EXECUTABLE-NEXT:    call i32 @other(
; EXECUTABLE:       {{^if.false.*:}}
; The push leaves the id alone: the link says that ids count from the one in the frame.
; EXECUTABLE:         %[[#LINK:]] = getelementptr inbounds i8, ptr %pcce.frame, i64 1{{$}}
; EXECUTABLE-NEXT:    store ptr %[[#LINK]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; EXECUTABLE-NEXT:    call i32 %f(
; EXECUTABLE-NEXT:    %[[#PREV:]] = load ptr, ptr %pcce.frame
; EXECUTABLE-NEXT:    store ptr %[[#PREV]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-LABEL: define internal i32 @recursive(
; CHECK-NOT:     icmp
; CHECK:         call i32 %f(
; CHECK:       }
define internal i32 @recursive(ptr %f, i32 %n) nounwind {
  %r = call i32 %f(ptr %f, i32 %n)
  %s = add i32 %r, %n
  ret i32 %s
}
define internal i32 @one(ptr %f, i32 %n) nounwind {
  %r = call i32 @recursive(ptr %f, i32 %n)
  ret i32 %r
}
define internal i32 @other(ptr %f, i32 %n) nounwind {
  ret i32 %n
}

; Too many.
; EXECUTABLE-LABEL: define internal i64 @many(
; EXECUTABLE-NOT:     icmp
; EXECUTABLE:         call i64 %f(
; EXECUTABLE:       }
define internal i64 @many(ptr %f, i64 %n) nounwind {
  %r = call i64 %f(ptr %f, i64 %n)
  ret i64 %r
}
define internal i64 @a(ptr %f, i64 %n) nounwind {
  %r = call i64 @many(ptr %f, i64 %n)
  ret i64 %r
}
define internal i64 @b(ptr %f, i64 %n) nounwind {
  ret i64 1
}
define internal i64 @c(ptr %f, i64 %n) nounwind {
  ret i64 2
}
define internal i64 @d(ptr %f, i64 %n) nounwind {
  ret i64 3
}
