; The program has a member of std::string that may call back, and the library calls it: calls of strings push.
; PASSES: pcce<check;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

declare ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm(ptr, ptr, i64) nounwind
declare void @_ZSt20__throw_length_errorPKc(ptr) noreturn nounwind
declare ptr @_Znwm(i64) nounwind

; CHECK-LABEL: define void @user(
; CHECK:          alloca
; CHECK:     call ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm(
define void @user(ptr %text) {
  %appended = call ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm(ptr %text, ptr null, i64 0)
  ret void
}

define linkonce_odr ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm(ptr %text, ptr %size, i64 %old) {
  %short = icmp ult i64 %old, 100
  br i1 %short, label %room, label %long
room:
  call void @unknown()
  %memory = call ptr @_Znwm(i64 %old)
  ret ptr %memory
long:
  call void @_ZSt20__throw_length_errorPKc(ptr null)
  unreachable
}
declare void @unknown() nounwind
