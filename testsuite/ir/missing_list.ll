; PASSES: pcce<no-callback=/nonexistent/list>
; FAILS
; CHECK: error: pcce: cannot read /nonexistent/list, named by the option no-callback: No such file or directory
define void @f() nounwind {
  ret void
}
