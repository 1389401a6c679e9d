; Operands and results of types that few tools know. Calls of them are instrumented as others are, a call that becomes one
; of the runtime included.
; PASSES: pcce<check>
; PASSES: pcce<check;whole-program;executable>
; PASSES: pcce<check;verify>
; PASSES: pcce<check;publish>
target triple = "x86_64-unknown-linux-gnu"

; Tiles of AMX, which only intrinsics take and return.
define void @amx(ptr %p) nounwind {
; CHECK-LABEL: define void @amx(
; CHECK:         %tile = call x86_amx @llvm.x86.tilezero.internal(
; CHECK:         store ptr %pcce.frame, ptr getelementptr
; CHECK:         call ptr @takes_address(
; CHECK:         call void @llvm.x86.tilestored64.internal(i16 1, i16 8, ptr %p, i64 64, x86_amx %tile)
; CHECK:         ret void
  %tile = call x86_amx @llvm.x86.tilezero.internal(i16 1, i16 8)
  %r = call ptr @takes_address(ptr %p)
  call void @llvm.x86.tilestored64.internal(i16 1, i16 8, ptr %p, i64 64, x86_amx %tile)
  ret void
}
declare x86_amx @llvm.x86.tilezero.internal(i16, i16)
declare void @llvm.x86.tilestored64.internal(i16, i16, ptr, i64, x86_amx)

; Target extension types. So may be the arguments of calls that the runtime takes over.
define void @extension(target("spirv.Event") %e) nounwind {
; CHECK-LABEL: define void @extension(
; CHECK:         call target("spirv.Event") @takes_extension(target("spirv.Event")
; CHECK:         call target("spirv.Event") @__pcce_token(target("spirv.Event") %{{.*}}, i64 0, ptr
; CHECK-NOT:     @pcce_token(
; CHECK:         ret void
  %r = call target("spirv.Event") @takes_extension(target("spirv.Event") %e)
  %n = call target("spirv.Event") @pcce_token(target("spirv.Event") %r, i64 0)
  %m = call target("spirv.Event") @takes_extension(target("spirv.Event") %n)
  ret void
}
declare target("spirv.Event") @takes_extension(target("spirv.Event"))
declare target("spirv.Event") @pcce_token(target("spirv.Event"), i64)

; Tokens, and bundles of operands that are tokens.
define void @tokens() nounwind {
; CHECK-LABEL: define void @tokens(
; CHECK:         %t = call token @llvm.call.preallocated.setup(i32 1)
; CHECK:         store ptr %pcce.frame, ptr getelementptr
; CHECK:         call void @takes_preallocated(ptr preallocated(i32) %a) {{.*}}[ "preallocated"(token %t) ]
; CHECK:         ret void
  %t = call token @llvm.call.preallocated.setup(i32 1)
  %a = call ptr @llvm.call.preallocated.arg(token %t, i32 0) preallocated(i32)
  call void @takes_preallocated(ptr preallocated(i32) %a) [ "preallocated"(token %t) ]
  ret void
}
declare token @llvm.call.preallocated.setup(i32)
declare ptr @llvm.call.preallocated.arg(token, i32)
declare void @takes_preallocated(ptr preallocated(i32))

; Labels: of assembly that may jump, and of blocks whose addresses are taken.
define i32 @labels(i32 %x) nounwind {
; CHECK-LABEL: define i32 @labels(
; CHECK:         callbr void asm sideeffect "call f; jmp ${1:l}", "r,!i,~{memory}"(i32 %x)
; CHECK:         indirectbr ptr %{{.*}}, [label %{{.*}}, label %{{.*}}]
entry:
  callbr void asm sideeffect "call f; jmp ${1:l}", "r,!i,~{memory}"(i32 %x)
          to label %next [label %other]
next:
  %target = call ptr @takes_address(ptr blockaddress(@labels, %other))
  indirectbr ptr %target, [label %other, label %end]
other:
  ret i32 1
end:
  ret i32 0
}
declare ptr @takes_address(ptr)

; Metadata.
define i64 @metadata() nounwind {
; CHECK-LABEL: define i64 @metadata(
; CHECK:         call i64 @llvm.read_register.i64(metadata
; CHECK:         store ptr %pcce.frame, ptr getelementptr
; CHECK:         call i64 @takes_word(i64
; CHECK:         ret i64
  %sp = call i64 @llvm.read_register.i64(metadata !0)
  %r = call i64 @takes_word(i64 %sp)
  ret i64 %r
}
declare i64 @llvm.read_register.i64(metadata)
declare i64 @takes_word(i64)
!0 = !{!"rsp"}

; Through pointers.
define void @pointer(ptr %f, target("spirv.Event") %e) nounwind {
; CHECK-LABEL: define void @pointer(
; CHECK:         call target("spirv.Event") %f(target("spirv.Event") %e)
; CHECK:         ret void
  %r = call target("spirv.Event") %f(target("spirv.Event") %e)
  ret void
}
define target("spirv.Event") @pointed_to(target("spirv.Event") %e) nounwind {
  %r = call target("spirv.Event") @takes_extension(target("spirv.Event") %e)
  ret target("spirv.Event") %r
}
@table = global ptr @pointed_to
