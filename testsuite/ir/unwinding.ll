; Calls that may unwind, return twice, or not return.
; PASSES: pcce<check;no-silent>
target triple = "x86_64-unknown-linux-gnu"

declare i32 @__gxx_personality_v0(...)
declare i32 @setjmp(ptr) returns_twice
declare void @stop() noreturn
declare void @external()

define internal void @leaf() nounwind {
  ret void
}

define internal void @other_leaf() nounwind {
  ret void
}

; Both invokes go on in one block: each edge to it gets a block of its own for the work after the call. The
; landing pad stores what the function found at its entry, which is written down in front of each invoke.
define void @invokes(i1 %c) personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define void @invokes(
; CHECK:       one:
; CHECK-NEXT:    %[[ID1:[0-9]+]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[TOP1:[0-9]+]] = load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    store ptr %[[TOP1]], ptr %pcce.found
; CHECK-NEXT:    %[[AT1:[0-9]+]] = getelementptr inbounds i8, ptr %pcce.found, i64 8
; CHECK-NEXT:    store i64 %[[ID1]], ptr %[[AT1]]
; CHECK-NEXT:    invoke void @leaf()
; CHECK-NEXT:        to label %[[NEXT:[a-z0-9._]+]] unwind label %pad
; CHECK:       two:
; CHECK-NEXT:    %[[ID2:[0-9]+]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[TOP2:[0-9]+]] = load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    store ptr %[[TOP2]], ptr %pcce.found
; CHECK-NEXT:    %[[AT2:[0-9]+]] = getelementptr inbounds i8, ptr %pcce.found, i64 8
; CHECK-NEXT:    store i64 %[[ID2]], ptr %[[AT2]]
; CHECK:         add i64 %{{[0-9]+}}, -1
; CHECK:         invoke void @leaf()
; CHECK-NEXT:        to label %[[SPLIT:[a-z0-9._]+]] unwind label %pad
; CHECK:       [[SPLIT]]:
; CHECK-NEXT:    load i64, ptr @__pcce_tls
; CHECK-NEXT:    add i64 %{{[0-9]+}}, 1
; CHECK-NEXT:    store i64
; CHECK-NEXT:    br label %done
; CHECK:       done:
; CHECK-NEXT:    ret void
; CHECK:       pad:
; CHECK-NEXT:    landingpad { ptr, i32 }
; CHECK-NEXT:        cleanup
; CHECK-NEXT:    %[[WORD:[0-9]+]] = getelementptr inbounds i8, ptr %pcce.found, i64 8
; CHECK-NEXT:    %[[ID:[0-9]+]] = load i64, ptr %[[WORD]]
; CHECK-NEXT:    %[[TOP:[0-9]+]] = load ptr, ptr %pcce.found
; CHECK-NEXT:    store ptr %[[TOP]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 %[[ID]], ptr @__pcce_tls
; CHECK-NEXT:    resume
  br i1 %c, label %one, label %two
one:
  invoke void @leaf() to label %done unwind label %pad
two:
  invoke void @leaf() to label %done unwind label %pad
done:
  ret void
pad:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e
}

; If that is often, the state is kept from the entry on.
define void @often(i1 %c) personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define void @often(
; CHECK:         br i1
; CHECK:         %[[ID:[0-9]+]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[TOP:[0-9]+]] = load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:       again:
; CHECK-NOT:     pcce.found
; CHECK:         invoke void @other_leaf()
; CHECK:       pad:
; CHECK-NEXT:    landingpad { ptr, i32 }
; CHECK-NEXT:        cleanup
; CHECK-NEXT:    store ptr %[[TOP]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 %[[ID]], ptr @__pcce_tls
  br label %again
again:
  invoke void @other_leaf() to label %next unwind label %pad
next:
  br i1 %c, label %again, label %done
done:
  ret void
pad:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e
}

; The second return of setjmp comes without the work after any call.
define i32 @jumped_to(ptr %buffer) nounwind {
; CHECK-LABEL: define i32 @jumped_to(
; CHECK:         br i1
; CHECK:            %[[ID:[0-9]+]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[TOP:[0-9]+]] = load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %r = call i32 @setjmp(ptr %buffer)
; CHECK-NEXT:    store ptr %[[TOP]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 %[[ID]], ptr @__pcce_tls
; CHECK-NEXT:    ret i32 %r
  %r = call i32 @setjmp(ptr %buffer) returns_twice
  ret i32 %r
}

; Nothing is done after a call that does not return.
define void @ends() nounwind {
; CHECK-LABEL: define void @ends(){{.*}} {
; CHECK:         call void @stop()
; CHECK-NEXT:    unreachable
  call void @stop()
  unreachable
}

; The code that catches may be uninstrumented, and calls on: an exception that leaves a function that such code can
; call leaves the state as it was found. The frame of a push has it.
define void @restores() {
; CHECK-LABEL: define void @restores(){{.*}} personality ptr @__gcc_personality_v0 {
; CHECK:         br i1
; CHECK-NOT:     pcce.found
; CHECK:         invoke void @external()
; CHECK-NEXT:        to label %{{.*}} unwind label %pcce.unwind
; CHECK:       pcce.unwind:
; CHECK-NEXT:    landingpad { ptr, i32 }
; CHECK-NEXT:        cleanup
; CHECK-NEXT:    %[[WORD:[0-9]+]] = getelementptr inbounds i8, ptr %pcce.frame, i64 8
; CHECK-NEXT:    %[[ID:[0-9]+]] = load i64, ptr %[[WORD]]
; CHECK-NEXT:    %[[TOP:[0-9]+]] = load ptr, ptr %pcce.frame
; CHECK-NEXT:    store ptr %[[TOP]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 %[[ID]], ptr @__pcce_tls
; CHECK-NEXT:    resume
  call void @external()
  ret void
}

; A function that only functions of the module call leaves that to them.
define internal void @passes_on() {
; CHECK-LABEL: define internal void @passes_on() {
; CHECK-NEXT:    %pcce.frame = alloca { i64, i64, i64, i64 }, align 8
; CHECK-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @external()
  call void @external()
  ret void
}
