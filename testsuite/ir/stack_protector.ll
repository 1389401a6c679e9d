; The pass's additions to a function's frame are no reason to guard it: a function keeps the stack protector only if it has one of its own.
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

declare void @elsewhere(ptr)

; CHECK-LABEL: define void @pushes() #[[#PLAIN:]]
; CHECK:         alloca { i64, i64, i64, i64 }
define void @pushes() sspstrong "own"="pushes" {
  call void @elsewhere(ptr null)
  ret void
}

; CHECK-LABEL: define void @weak() #[[#WEAK:]]
define void @weak() ssp "own"="weak" {
  call void @elsewhere(ptr null)
  ret void
}

; CHECK-LABEL: define void @escapes() #[[#ESCAPES:]]
define void @escapes() sspstrong "own"="escapes" {
  %p = alloca i32
  call void @elsewhere(ptr %p)
  ret void
}

; CHECK-LABEL: define void @array() #[[#ARRAY:]]
define void @array() ssp "own"="array" {
  %p = alloca [16 x i8]
  call void @elsewhere(ptr %p)
  ret void
}

; CHECK-LABEL: define void @always() #[[#ALWAYS:]]
define void @always() sspreq "own"="always" {
  call void @elsewhere(ptr null)
  ret void
}

; CHECK: attributes #[[#PLAIN]] = { noinline "nooutline" "own"="pushes" }
; CHECK: attributes #[[#WEAK]] = { noinline "nooutline" "own"="weak" }
; CHECK: attributes #[[#ESCAPES]] = { noinline sspstrong "nooutline" "own"="escapes" }
; CHECK: attributes #[[#ARRAY]] = { noinline ssp "nooutline" "own"="array" }
; CHECK: attributes #[[#ALWAYS]] = { noinline sspreq "nooutline" "own"="always" }
