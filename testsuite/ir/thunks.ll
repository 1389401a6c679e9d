; A function that seldom pushes lets thunks do it: they get the arguments, and the pointer where one is called. Nothing is added
; at their calls. A function that often pushes does it itself, and so do calls that cannot be handed on.
; PASSES: pcce<check;no-silent;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

@table = global ptr @through
@cells = global i64 0

declare i32 @elsewhere(i32)
declare i32 @__gxx_personality_v0(...)
declare ptr @llvm.returnaddress(i32)

define i32 @main(ptr %f, i32 %n) {
  %a = call i32 @seldom(i32 %n)
  %b = call signext i8 @through(ptr %f, i8 signext 1, i1 true)
  %c = call i32 @catches(i32 %n)
  %d = call i32 @often(i32 %n)
  %e = call i32 @looks(i32 %n)
  %g = call i32 (i32, ...) @variadic(i32 %n, i32 2)
  ret i32 %a
}

; CHECK-LABEL: define internal i32 @seldom(
; CHECK-NOT:     pcce.frame
; CHECK-NOT:     store
; CHECK:         call fastcc i32 @seldom.pcce_push(i32 %n)
; CHECK-NOT:     store
; CHECK:         call i32 @seldom.pcce_push.[[#ELSEWHERE:]](i32 %n)
; CHECK-NOT:     store
; CHECK:       }
define internal i32 @seldom(i32 %n) {
  %is = icmp eq i32 %n, 1234567
  br i1 %is, label %rare, label %end, !prof !0
rare:
  %r = call fastcc i32 @recursive(i32 %n)
  %s = call i32 @elsewhere(i32 %n)
  br label %end
end:
  ret i32 %n
}
define internal fastcc i32 @recursive(i32 %n) {
  %r = call i32 @seldom(i32 %n)
  ret i32 %r
}

; The extension of arguments and result stays. The pointer is compared with the only function of its type whose address is taken.
; CHECK-LABEL: define internal signext i8 @through(
; CHECK-NOT:     pcce.frame
; CHECK:         call signext i8 @through.pcce_push(ptr %f, i8 signext %c, i1 zeroext %b)
; CHECK:         call signext i8 @through.pcce_push.[[#POINTER:]](ptr %f, i8 signext %c, i1 zeroext %b, ptr nest %f)
; CHECK:       }
define internal signext i8 @through(ptr %f, i8 signext %c, i1 %b) nounwind {
  %is = icmp eq i8 %c, 77
  br i1 %is, label %rare, label %end, !prof !0
rare:
  %r = call signext i8 @pointer(ptr %f, i8 signext %c, i1 %b)
  %s = call signext i8 %f(ptr %f, i8 signext %c, i1 zeroext %b)
  br label %end
end:
  ret i8 %c
}
define internal signext i8 @pointer(ptr %f, i8 signext %c, i1 %b) {
  ret i8 %c
}

; Exceptions find their handler.
; CHECK-LABEL: define internal i32 @catches(
; CHECK:         invoke i32 @catches.pcce_push(i32 %n)
; CHECK-NEXT:    to label %{{.*}} unwind label
; CHECK:       }
define internal i32 @catches(i32 %n) personality ptr @__gxx_personality_v0 {
  %is = icmp eq i32 %n, 1234567
  br i1 %is, label %rare, label %end, !prof !0
rare:
  %r = invoke i32 @elsewhere(i32 %n) to label %end unwind label %pad
pad:
  %p = landingpad { ptr, i32 } catch ptr null
  br label %end
end:
  ret i32 %n
}

; CHECK-LABEL: define internal i32 @often(
; CHECK:         %pcce.frame = alloca
; CHECK:         call i32 @elsewhere(
; CHECK:       }
define internal i32 @often(i32 %n) {
  %r = call i32 @elsewhere(i32 %n)
  ret i32 %r
}

; The callee would see the thunk.
; CHECK-LABEL: define internal i32 @looks(
; CHECK:         call i32 @looked_at(
; CHECK:       }
define internal i32 @looks(i32 %n) {
  %is = icmp eq i32 %n, 1234567
  br i1 %is, label %rare, label %end, !prof !0
rare:
  %r = call i32 @looked_at(i32 %n)
  br label %end
end:
  ret i32 %n
}
define internal i32 @looked_at(i32 %n) {
  %a = call ptr @llvm.returnaddress(i32 0)
  store ptr %a, ptr @cells
  %r = call i32 @looks(i32 %n)
  ret i32 %r
}

; Arguments of this call, not parameters of the function.
; CHECK-LABEL: define internal i32 @variadic(
; CHECK:         call i32 @variadic.pcce_push(i32 %n, double 1.000000e+00)
; CHECK:       }
define internal i32 @variadic(i32 %n, ...) {
  %is = icmp eq i32 %n, 1234567
  br i1 %is, label %rare, label %end, !prof !0
rare:
  %r = call i32 (i32, ...) @variadic(i32 %n, double 1.000000e+00)
  br label %end
end:
  ret i32 %n
}

; CHECK:       define internal fastcc i32 @seldom.pcce_push(i32 %0) #[[#COLD:]]
; CHECK-NEXT:    %pcce.frame = alloca
; CHECK:         call fastcc i32 @recursive(i32 %0)
; CHECK:         ret i32
; CHECK:       define internal i32 @seldom.pcce_push.[[#ELSEWHERE]](i32 %0)
; CHECK:         call i32 @elsewhere(i32 %0)
; CHECK:       define internal signext i8 @through.pcce_push(ptr %0, i8 signext %1, i1 zeroext %2)
; CHECK:         call signext i8 @through(ptr %0, i8 signext %1, i1 zeroext %2)
; CHECK:       define internal signext i8 @through.pcce_push.[[#POINTER]](ptr %0, i8 signext %1, i1 zeroext %2, ptr nest %3)
; CHECK:         call signext i8 %3(ptr %0, i8 signext %1, i1 zeroext %2)
; CHECK:       define internal i32 @variadic.pcce_push(i32 %0, double %1)
; CHECK:         call i32 (i32, ...) @variadic(i32 %0, double %1)
; CHECK:       attributes #[[#COLD]] = { cold noinline

!0 = !{!"branch_weights", i32 1, i32 100000}
