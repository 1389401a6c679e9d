; Members of std::string call back through copies of the library's own code only: calls of them push nothing. A template that
; the library does not export is not called by it.
; PASSES: pcce<check;whole-program;executable>
target triple = "x86_64-unknown-linux-gnu"

declare ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm(ptr, ptr, i64) nounwind
declare void @_ZSt20__throw_length_errorPKc(ptr) noreturn nounwind
declare ptr @_Znwm(i64) nounwind

; CHECK-LABEL: define void @user(
; CHECK-NEXT:     call ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm(
define void @user(ptr %text) {
  %appended = call ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm(ptr %text, ptr null, i64 0)
  ret void
}

define linkonce_odr ptr @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm(ptr %text, ptr %size, i64 %old) {
  %short = icmp ult i64 %old, 100
  br i1 %short, label %room, label %long
room:
  store i64 %old, ptr %size
  %memory = call ptr @_Znwm(i64 %old)
  ret ptr %memory
long:
  call void @_ZSt20__throw_length_errorPKc(ptr null)
  unreachable
}

define linkonce_odr void @_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC2IS3_EEPKcRKS3_(ptr %text, ptr %from, ptr %allocator) {
  call void @unknown()
  ret void
}
declare void @unknown() nounwind
