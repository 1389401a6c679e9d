; Calls of functions that do not call back and may allocate tell the runtime their site, in programs that record allocations.
; PASSES: pcce<publish>
; PASSES: pcce<>

declare noalias ptr @malloc(i64) nounwind memory(inaccessiblemem: readwrite)
declare i64 @strlen(ptr) nounwind
declare ptr @strdup(ptr) nounwind

; Functions that allocate read the thread's block.
; PUBLISH-NOT: inaccessiblemem
; A callee that is on the list of functions that do not call back may have been published by its caller.
; PUBLISH-LABEL: define ptr @realloc(
; PUBLISH: store ptr null, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 56)
define ptr @realloc(ptr %p, i64 %n) nounwind {
  %q = call ptr @malloc(i64 %n)
  ret ptr %q
}

; PUBLISH-LABEL: define ptr @f(
; PUBLISH: store ptr {{.*}}@__pcce_sites.{{.*}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 56)
; PUBLISH-NEXT: %p = call ptr @malloc(i64 8)
; PUBLISH-NEXT: store ptr null, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 56)
; No tail call: the runtime must be notified of the end. Functions that cannot allocate notify nothing.
; PUBLISH: store ptr {{.*}}@__pcce_sites.{{.*}}, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 56)
; PUBLISH-NEXT: %q = call ptr @strdup(ptr %p)
; PUBLISH-NEXT: store ptr null, ptr getelementptr inbounds (i8, ptr @__pcce_tls, i64 56)
; PUBLISH-NEXT: %{{.*}} = call i64 @strlen(ptr %q)
; PUBLISH-NEXT: ret ptr %q
; CHECK-LABEL: define ptr @f(
; CHECK-NEXT: %p = call ptr @malloc(i64 8)
; CHECK-NEXT: %q = call ptr @strdup(ptr %p)
; CHECK-NEXT: %{{.*}} = call i64 @strlen(ptr %q)
define ptr @f() nounwind {
  %p = call ptr @malloc(i64 8)
  %q = tail call ptr @strdup(ptr %p)
  call i64 @strlen(ptr %q)
  ret ptr %q
}
