; `asm goto`: with a call in it, it pushes, and the state is put back wherever control goes on.
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

define i32 @calls(ptr %f) {
; CHECK-LABEL: define i32 @calls(
; CHECK:         br i1
; CHECK:         [[ID:%[0-9]+]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    [[TOP:%[0-9]+]] = load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    callbr void asm
; CHECK:       stayed:
; CHECK-NEXT:    store ptr [[TOP]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 [[ID]], ptr @__pcce_tls
; CHECK-NEXT:    ret i32 0
; CHECK:       left:
; CHECK-NEXT:    store ptr [[TOP]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 [[ID]], ptr @__pcce_tls
; CHECK-NEXT:    ret i32 1
  callbr void asm sideeffect "call *$0; jmp ${1:l}", "r,!i,~{memory}"(ptr %f)
          to label %stayed [label %left]

stayed:
  ret i32 0

left:
  ret i32 1
}

define i32 @jumps() {
; CHECK-LABEL: define i32 @jumps()
; CHECK-NEXT:    callbr void asm
; CHECK-NOT:     __pcce_tls
; CHECK:         ret i32 1
  callbr void asm sideeffect "jmp ${0:l}", "!i"()
          to label %stayed [label %left]

stayed:
  ret i32 0

left:
  ret i32 1
}
