; Functions whose first block has a token of convergence: the block is not split, nor is the token handed on. They push
; at their entry, as variadic functions do.
; PASSES: pcce<check>
; PASSES: pcce<check;verify>
target triple = "x86_64-unknown-linux-gnu"

declare void @external() convergent
declare token @llvm.experimental.convergence.entry() convergent

define void @visible() convergent {
; CHECK-LABEL: define void @visible()
; CHECK:         %[[ENTRY:[0-9]+]] = getelementptr inbounds i8, ptr %pcce.frame, i64 32
; CHECK:         store ptr null, ptr
; CHECK:         store ptr %[[ENTRY]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         %token = call token @llvm.experimental.convergence.entry()
; CHECK:         invoke void @external() [ "convergencectrl"(token %token) ]
  %token = call token @llvm.experimental.convergence.entry()
  call void @external() [ "convergencectrl"(token %token) ]
  ret void
}

define void @caller() convergent {
; CHECK-LABEL: define void @caller()
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK:         invoke void @visible() [ "convergencectrl"(token %token) ]
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK:         invoke void @visible() [ "convergencectrl"(token %token) ]
  %token = call token @llvm.experimental.convergence.entry()
  call void @visible() [ "convergencectrl"(token %token) ]
  call void @visible() [ "convergencectrl"(token %token) ]
  ret void
}

; A function without a token is diverted as ever.
define void @plain() nounwind {
; CHECK-LABEL: define void @plain()
; CHECK:         musttail call void @plain.pcce_open()
  call void @visible()
  ret void
}
