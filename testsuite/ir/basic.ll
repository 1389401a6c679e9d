; The paper's basic encoding, to compare with: calls of functions near the leaves change the id, too, and it is the number itself.
; PASSES: pcce<check;whole-program;executable>
; PASSES: pcce<check;whole-program;executable;basic>
target triple = "x86_64-unknown-linux-gnu"

@seen = global i32 0

define internal void @leaf() noinline nounwind {
  store volatile i32 1, ptr @seen
  ret void
}

; The hottest call of each function adds 0.
define i32 @main() nounwind {
; CHECK-LABEL: define i32 @main(
; CHECK-NOT:     add i64
; CHECK:         ret i32
; BASIC-LABEL: define i32 @main(
; BASIC-NEXT:    call void @leaf()
; BASIC:         add i64 %{{.*}}, 1
; BASIC-NEXT:    store
; BASIC-NEXT:    call void @leaf()
; BASIC:         add i64 %{{.*}}, -1
; BASIC-NEXT:    store
; BASIC-NEXT:    ret i32
  call void @leaf()
  call void @leaf()
  ret i32 0
}
