; MMX's type, of which LLVM has made a plain vector since. As `opaque_types.ll`.
; LLVM: 19
; PASSES: pcce<check>
; PASSES: pcce<check;whole-program;executable>
; PASSES: pcce<check;verify>
target triple = "x86_64-unknown-linux-gnu"

define void @mmx(ptr %p) nounwind {
; CHECK-LABEL: define void @mmx(
; CHECK:         store ptr %pcce.frame, ptr getelementptr
; CHECK:         call x86_mmx @takes_mmx(x86_mmx
; CHECK:         ret void
  %v = load x86_mmx, ptr %p
  %r = call x86_mmx @takes_mmx(x86_mmx %v)
  store x86_mmx %r, ptr %p
  ret void
}
declare x86_mmx @takes_mmx(x86_mmx)
