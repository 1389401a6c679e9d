; Calls that create threads pass the site to the runtime; nothing is done around calls that save and restore the state of a fiber.
; PASSES: pcce<check>
; PASSES: pcce<check;verify>
target triple = "x86_64-unknown-linux-gnu"

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @thrd_create(ptr, ptr, ptr) nounwind
declare void @_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(ptr, ptr, ptr)
declare void @pcce_fiber_save(ptr)
declare void @pcce_fiber_restore(ptr)
declare void @pcce_fiber_run(ptr, ptr)
declare i32 @__gxx_personality_v0(...)

; Exceptions pass through neither.
define i32 @create(ptr %thread, ptr %start) personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define i32 @create(
; CHECK:         call i32 @__pcce_pthread_create(ptr %thread, ptr null, ptr %start, ptr null, ptr @__pcce_sites.{{[0-9a-f]+}})
; CHECK-NEXT:    br label %next
; CHECK:         call i32 @__pcce_thrd_create(ptr %thread, ptr %start, ptr null, ptr getelementptr inbounds (i8, ptr @__pcce_sites.{{[0-9a-f]+}}, i64 1))
; CHECK-NEXT:    %s = add
; VERIFY-LABEL: define i32 @create(
; VERIFY:         call i32 @__pcce_pthread_create(ptr %thread, ptr null, ptr %start, ptr null, ptr @__pcce_sites.{{[0-9a-f]+}})
; VERIFY:         call i32 @__pcce_thrd_create(
  %a = invoke i32 @pthread_create(ptr %thread, ptr null, ptr %start, ptr null) to label %next unwind label %pad
next:
  %b = call i32 @thrd_create(ptr %thread, ptr %start, ptr null)
  %s = add i32 %a, %b
  ret i32 %s
pad:
  %p = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %p
}

; The state is wrapped first, with the id as the function has it; the call itself pushes, and may throw.
define void @std_thread(ptr %thread, ptr %state) personality ptr @__gxx_personality_v0 {
; CHECK-LABEL: define void @std_thread(
; CHECK:         call void @__pcce_std_thread(ptr %state, ptr getelementptr inbounds (i8, ptr @__pcce_sites.{{[0-9a-f]+}}, i64 2))
; CHECK-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    invoke void @_ZNSt6thread15_M_start_thread
; VERIFY-LABEL: define void @std_thread(
; VERIFY:         call void @__pcce_std_thread(ptr %state, ptr getelementptr inbounds (i8, ptr @__pcce_sites.{{[0-9a-f]+}}, i64 2))
; VERIFY-NEXT:    %[[SHADOW:[0-9]+]] = getelementptr
; VERIFY-NEXT:    store ptr getelementptr inbounds (i8, ptr @__pcce_sites.{{[0-9a-f]+}}, i64 3), ptr %[[SHADOW]]
; VERIFY:         invoke void @_ZNSt6thread15_M_start_thread
  invoke void @_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(ptr %thread, ptr %state, ptr null) to label %next unwind label %pad
next:
  ret void
pad:
  %p = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %p
}

define void @switch(ptr %fiber) nounwind {
; CHECK-LABEL: define void @switch(ptr %fiber)
; CHECK:         call void @pcce_fiber_save(ptr %fiber)
; CHECK-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         call void asm sideeffect "jmp *%rax"
; CHECK:         call void @pcce_fiber_restore(ptr %fiber)
; CHECK-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
; CHECK:         store i64 0, ptr @__pcce_tls
; CHECK-NEXT:    call void @pcce_fiber_run(ptr null, ptr null)
; VERIFY-LABEL: define void @switch(ptr %fiber)
; VERIFY:         call void @pcce_fiber_restore(ptr %fiber)
; VERIFY-NEXT:    %[[NEXT:[0-9]+]] = getelementptr
; VERIFY-NEXT:    store ptr {{.*}}, ptr %[[NEXT]]
; VERIFY-NEXT:    %[[LEFT:[0-9]+]] = getelementptr
; VERIFY-NEXT:    store i64 0, ptr %[[LEFT]]
; VERIFY-NEXT:    load ptr, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 8)
  call void @pcce_fiber_save(ptr %fiber)
  call void asm sideeffect "jmp *%rax", "~{memory}"()
  call void @pcce_fiber_restore(ptr %fiber)
  call void @pcce_fiber_run(ptr null, ptr null)
  ret void
}
