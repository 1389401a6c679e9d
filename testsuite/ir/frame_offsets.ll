; How far the stack pointer is below the frame address at calls, where the unwind tables say so and it is the same at all of them.
; PASSES: print<pcce-frames>
; CHECK:      alloca: Unknown
; CHECK-NEXT: array: Fixed(112)
; CHECK-NEXT: four: Fixed(32)
; CHECK-NEXT: frame_pointer: Unknown
; CHECK-NEXT: no_tables: Unknown
; CHECK-NEXT: over_aligned: Unknown
; CHECK-NEXT: pushes_some: ByCall
; CHECK-NEXT: two_exits: Fixed(16)
; CHECK-NOT:  tail:
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-pc-linux-gnu"

declare i32 @f(ptr, ...)
declare void @g()
declare i64 @h(i64, i64, i64, i64, i64, i64, i64, i64, i64)

define void @array() uwtable {
  %a = alloca [100 x i8]
  %x = call i32 (ptr, ...) @f(ptr %a)
  call void @g()
  ret void
}

define i32 @two_exits(i1 %b) uwtable {
  br i1 %b, label %one, label %other
one:
  call void @g()
  call void @g()
  ret i32 1
other:
  call void @g()
  ret i32 2
}

; Two registers are saved.
define i64 @four(i64 %a, i64 %b) uwtable {
  call void @g()
  %s = add i64 %a, %b
  call void @g()
  %t = mul i64 %a, %s
  ret i64 %t
}

define void @alloca(i64 %n) uwtable {
  %a = alloca i8, i64 %n
  %x = call i32 (ptr, ...) @f(ptr %a)
  ret void
}

define void @over_aligned() uwtable {
  %a = alloca [64 x i8], align 64
  %x = call i32 (ptr, ...) @f(ptr %a)
  ret void
}

define void @frame_pointer() uwtable "frame-pointer"="all" {
  call void @g()
  call void @g()
  ret void
}

define void @pushes_some() uwtable minsize optsize {
  call void @g()
  %x = call i64 @h(i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8, i64 9)
  ret void
}

define void @no_tables() nounwind {
  call void @g()
  call void @g()
  ret void
}

; A jump.
define void @tail() uwtable {
  tail call void @g()
  ret void
}
