; A function whose callers do not push, by its name, pushes at its entry and pops where it returns.
; PASSES: pcce<check>
target triple = "x86_64-unknown-linux-gnu"

declare void @external()
declare i64 @pcce_context()
declare i32 @__gxx_personality_v0(...)

define i64 @strlen(ptr %s) personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define i64 @strlen(
; The entry frame is the outer one, and has the higher address.
; CHECK:         %pcce.frame = alloca { i64, i64, i64, i64, i64, i64, i64, i64 }, align 8
; CHECK-NEXT:    %[[ENTRY:[0-9]+]] = getelementptr inbounds i8, ptr %pcce.frame, i64 32
; CHECK:         store ptr %[[ENTRY]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK:         invoke void @external()
; CHECK:         load ptr, ptr %[[ENTRY]]
; CHECK:         store i64 %{{[0-9]+}}, ptr @__pcce_tls
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store ptr %{{[0-9]+}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    ret i64 1
; The landing pad stands on the entry frame.
; CHECK:         landingpad
; CHECK-NEXT:        catch ptr null
; CHECK-NEXT:    store ptr %[[ENTRY]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK:         load ptr, ptr %[[ENTRY]]
; CHECK:         ret i64 2
  invoke void @external() to label %done unwind label %pad
done:
  ret i64 1
pad:
  %e = landingpad { ptr, i32 } catch ptr null
  ret i64 2
}

; Known here, so it is an ordinary push.
define i64 @caller(ptr %s) nounwind {
; CHECK-LABEL: define i64 @caller(
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    %n = call i64 @strlen(ptr %s)
  %n = call i64 @strlen(ptr %s)
  ret i64 %n
}

; Internal functions of such a name are nobody else's.
define internal void @strcpy() nounwind {
; CHECK-LABEL: define internal void @strcpy(){{.*}} {
; CHECK-NEXT:    ret void
  ret void
}

define void @calls_own() nounwind {
; CHECK-LABEL: define void @calls_own(){{.*}} {
; CHECK-NEXT:    call void @strcpy()
; CHECK-NEXT:    ret void
  call void @strcpy()
  ret void
}

; The unwinder calls it, from wherever unwinding goes on.
define i32 @personality() {
; CHECK-LABEL: define i32 @personality(
; CHECK:         store ptr %pcce.entry, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK:         ret i32 0
  call i64 @pcce_context()
  ret i32 0
}

define void @unwinds() personality ptr @personality {
  ret void
}
