; Functions and calls lose promises about memory that are no longer true; others stay.
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

declare i32 @outside(i32) memory(none) nounwind
declare i32 @abs(i32) memory(none)

; CHECK: declare i32 @outside(i32) #[[OUTSIDE:[0-9]+]]
; CHECK: declare i32 @abs(i32) #[[ABS:[0-9]+]]

; CHECK: define i32 @constant(i32 %x) #[[CONSTANT:[0-9]+]]
define i32 @constant(i32 %x) memory(none) speculatable willreturn nounwind {
  ret i32 %x
}

define i32 @caller(i32 %x) memory(read) nounwind {
; CHECK-LABEL: define i32 @caller(i32 %x){{.*}} {
; CHECK:         %a = call i32 @constant(i32 %x){{$}}
; CHECK:         %b = call i32 @outside(i32 %x) #[[OUTSIDE]]
; CHECK:         %c = call i32 @abs(i32 %x)
  %a = call i32 @constant(i32 %x) memory(none)
  %b = call i32 @outside(i32 %x) memory(none) nounwind
  %c = call i32 @abs(i32 %x)
  %d = add i32 %a, %b
  %e = add i32 %d, %c
  ret i32 %e
}

; CHECK-DAG: attributes #[[OUTSIDE]] = { nounwind }
; CHECK-DAG: attributes #[[ABS]] = { memory(none) }
; CHECK-DAG: attributes #[[CONSTANT]] = { nounwind willreturn }
