; A profile, not the order nor an estimate, says which calls are free: those of the caller that ran most often.
; PASSES: pcce<check;no-silent>
target triple = "x86_64-unknown-linux-gnu"

define internal void @leaf() nounwind {
  ret void
}

define void @seldom() nounwind !prof !0 {
; CHECK-LABEL: define void @seldom()
; CHECK:         add i64
; CHECK:         call void @leaf()
  call void @leaf()
  ret void
}

define void @often() nounwind !prof !1 {
; CHECK-LABEL: define void @often()
; CHECK-NOT:     add i64
; CHECK:         call void @leaf()
; CHECK-NEXT:    ret void
  call void @leaf()
  ret void
}

define i32 @main() nounwind {
  call void @seldom()
  call void @often()
  ret i32 0
}

!0 = !{!"function_entry_count", i64 1}
!1 = !{!"function_entry_count", i64 1000}
