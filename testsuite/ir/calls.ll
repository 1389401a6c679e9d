; The instrumentation of each kind of call. (Ids of a module that is no whole program are not positive.)
; PASSES: pcce<check;no-silent>
; The site array has one byte for each site; objects of another version of the ABI do not link.
; CHECK-DAG: @__pcce_sites.[[#%x,]] = internal global [15 x i8] zeroinitializer
; CHECK-DAG: @__pcce_tls = external dso_local thread_local(initialexec) global [64 x i8], align 64
; CHECK-DAG: @__pcce_abi = internal constant ptr @__pcce_abi_v9
; CHECK-DAG: @llvm.used = appending global [1 x ptr] [ptr @__pcce_abi]
; CHECK-DAG: module asm ".pushsection .debug_pcce,\22\22,@progbits"
target triple = "x86_64-unknown-linux-gnu"

@weak_alias = weak alias void (), ptr @leaf
@local_alias = internal alias void (), ptr @leaf

declare void @external()
declare i64 @strlen(ptr)
declare void @quiet() nocallback

define internal void @leaf() nounwind {
  ret void
}

define internal void @unused() nounwind {
  ret void
}

define void @preemptible() nounwind {
  ret void
}

define dso_local void @not_preemptible() nounwind {
  ret void
}

define weak void @interposable() nounwind {
  ret void
}

define linkonce_odr void @odr() nounwind {
  ret void
}

define linkonce_odr void @odr_comdat() nounwind comdat {
  ret void
}
$odr_comdat = comdat any

; Nothing is called: nothing changes, but for the entry of a function that others may call.
; CHECK-LABEL: define internal void @unused(){{.*}} {
; CHECK-NEXT:    ret void

; leaf has the dummy in-edge with 0, since an alias leads to it, so each call is an addition.
define internal void @direct(ptr %s) nounwind {
; CHECK-LABEL: define internal void @direct(ptr %s){{.*}} {
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], -[[#FIRST:]]
; CHECK-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; CHECK-NEXT:    call void @leaf()
; CHECK-NEXT:    %n = call i64 @strlen(ptr %s)
; The addition of the first call stays, since nothing can look between the two.
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], -1
; CHECK-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; CHECK-NEXT:    tail call void @leaf()
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    %[[#SUM:]] = add i64 %[[#ID]], [[#FIRST+1]]
; CHECK-NEXT:    store i64 %[[#SUM]], ptr @__pcce_tls
; CHECK-NEXT:    ret void
  call void @leaf()
  %n = call i64 @strlen(ptr %s)
  tail call void @leaf()
  ret void
}

; A push, as it is written once in full here: the frame is {top, id, site}. The callee reaches the frame
; through the thread's block, so the call is no tail call any more.
define internal void @outside() nounwind {
; CHECK-LABEL: define internal void @outside(){{.*}} {
; CHECK-NEXT:    %pcce.frame = alloca { i64, i64, i64, i64 }, align 8
; CHECK-NEXT:    %[[#TOP:]] = load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr @__pcce_tls
; CHECK-NEXT:    store ptr %[[#TOP]], ptr %pcce.frame
; CHECK-NEXT:    %[[#AT:]] = getelementptr inbounds i8, ptr %pcce.frame, i64 8
; CHECK-NEXT:    store i64 %[[#ID]], ptr %[[#AT]]
; CHECK-NEXT:    %[[#AT:]] = getelementptr inbounds i8, ptr %pcce.frame, i64 16
; CHECK-NEXT:    store ptr getelementptr inbounds (i8, ptr @__pcce_sites.{{[0-9a-f]+}}, i64 2), ptr %[[#AT]]
; A signal handler finds a whole frame or none.
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    {{^ *}}call void @external()
; CHECK-NEXT:    %[[#TOP:]] = load ptr, ptr %pcce.frame
; CHECK-NEXT:    %[[#AT:]] = getelementptr inbounds i8, ptr %pcce.frame, i64 8
; CHECK-NEXT:    %[[#ID:]] = load i64, ptr %[[#AT]]
; CHECK-NEXT:    store i64 %[[#ID]], ptr @__pcce_tls
; CHECK-NEXT:    fence syncscope("singlethread") release
; CHECK-NEXT:    store ptr %[[#TOP]], ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK-NEXT:    ret void
  tail call void @external()
  ret void
}

; On the list of functions that do not call back.
define internal void @silent(ptr %s) nounwind {
; CHECK-LABEL: define internal void @silent(
; CHECK-NEXT:    %n = tail call i64 @strlen(ptr %s)
; CHECK-NEXT:    ret void
  %n = tail call i64 @strlen(ptr %s)
  ret void
}

; Marked so, which says nothing about a callee that another module defines and instruments.
define void @marked() nounwind {
; CHECK-LABEL: define void @marked(
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @quiet()
; CHECK:         ret void
  call void @quiet()
  ret void
}

define internal i32 @indirect(ptr %f, i32 %x) nounwind {
; CHECK-LABEL: define internal i32 @indirect(
; CHECK-NEXT:    %pcce.frame = alloca
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    {{^ *}}%r = call i32 %f(i32 %x)
; CHECK-NEXT:    load ptr, ptr %pcce.frame
  %r = tail call i32 %f(i32 %x)
  ret i32 %r
}

; One frame serves all pushes of a function.
define void @two_pushes(ptr %f) nounwind {
; CHECK-LABEL: define void @two_pushes(
; CHECK:         alloca
; CHECK-NOT:     alloca
; CHECK:         call void %f()
; CHECK-NOT:     alloca
; CHECK:         call void @external()
; CHECK-NOT:     alloca
; CHECK:         ret void
  call void %f()
  call void @external()
  ret void
}

; Another module's definition may be the one that runs: a weak function, a weak alias.
define void @replaceable() nounwind {
; CHECK-LABEL: define void @replaceable(){{.*}} {
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @interposable()
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @weak_alias()
  call void @interposable()
  call void @weak_alias()
  ret void
}

; An alias that nothing replaces is its aliasee.
define internal void @aliased() nounwind {
; CHECK-LABEL: define internal void @aliased(){{.*}} {
; CHECK-NOT:     alloca
; CHECK:         add i64 %{{[0-9]+}}, -[[#ADDED:]]
; CHECK:         call void @local_alias()
; CHECK:         add i64 %{{[0-9]+}}, [[#ADDED]]
  call void @local_alias()
  ret void
}

; Another definition can or cannot take the place of this one at load time.
define void @visible() nounwind {
; CHECK-LABEL: define void @visible(){{.*}} {
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @preemptible()
; CHECK-NOT:     store ptr %pcce.frame
; CHECK:         call void @not_preemptible()
; CHECK-NOT:     store ptr %pcce.frame
; CHECK:         ret void
  call void @preemptible()
  call void @not_preemptible()
  ret void
}

; Of equal definitions the linker keeps one, perhaps that of a module with other numbers.
define void @merged() nounwind {
; CHECK-LABEL: define void @merged(){{.*}} {
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @odr()
; CHECK:         store ptr %pcce.frame, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void @odr_comdat()
  call void @odr()
  call void @odr_comdat()
  ret void
}

; Inline assembly is left alone, unless it calls.
define internal void @assembly() nounwind {
; CHECK-LABEL: define internal void @assembly(){{.*}} {
; CHECK-NEXT:    %pcce.frame = alloca
; CHECK-NEXT:    call void asm sideeffect "nop", ""()
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void asm sideeffect "call *%rax", "~{memory}"()
; CHECK-NEXT:    load ptr, ptr %pcce.frame
  call void asm sideeffect "nop", ""()
  call void asm sideeffect "call *%rax", "~{memory}"()
  ret void
}

; CHECK: !pcce.instrumented = !{}
