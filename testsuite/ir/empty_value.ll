; PASSES: pcce<no-callback=>
; FAILS
; CHECK: error: pcce: unknown pass option 'no-callback='
define void @f() nounwind {
  ret void
}
