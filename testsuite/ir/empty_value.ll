; PASSES: pcce<no-callback=>
; FAILS
; CHECK: error: pcce: a value is required for 'no-callback=<FILE>' but none was supplied
define void @f() nounwind {
  ret void
}
