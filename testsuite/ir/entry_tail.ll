; A function with an entry frame cannot make calls that must stay tail calls.
; PASSES: pcce<check>
; FAILS
; CHECK: error: pcce: function malloc is entered without a push {{.*}} and it makes calls that must stay tail calls
declare ptr @other(i64)
define ptr @malloc(i64 %n) nounwind {
  %p = musttail call ptr @other(i64 %n)
  ret ptr %p
}
