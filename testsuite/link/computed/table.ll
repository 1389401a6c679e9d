target triple = "x86_64-pc-linux-gnu"
@rel = private constant [3 x i32] [i32 0, i32 1, i32 trunc (i64 sub (i64 ptrtoint (ptr @hidden to i64), i64 ptrtoint (ptr @rel to i64)) to i32)]
declare i32 @hidden(i32)
define i32 @table(i32 %n) {
  %at = getelementptr i32, ptr @rel, i32 2
  %distance = load volatile i32, ptr %at
  %function = getelementptr i8, ptr @rel, i32 %distance
  %r = call i32 %function(i32 %n)
  call void asm sideeffect "", "~{memory}"()
  ret i32 %r
}
