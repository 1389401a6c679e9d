// A program that has its own callbacks for coverage. The pass comes behind those that insert their calls.
//# Flags: -fsanitize-coverage=trace-pc-guard,indirect-calls -fno-sanitize-link-runtime
//# Chain edge: record < __sanitizer_cov_trace_pc_guard < leaf < middle < main
//# Chain pointer: record < __sanitizer_cov_trace_pc_indir < middle < main
//# Chain after: main
#include "parts/middle.h"
#include <stdint.h>

#define UNCOVERED __attribute__((no_sanitize("coverage"))) NOINLINE

static const char *volatile edge, *volatile pointer;

UNCOVERED static void record(const char *of) { SHOW(of); KEEP; }
UNCOVERED void __sanitizer_cov_trace_pc_guard(uint32_t *guard) {
  const char *of = edge;
  (void)guard;
  edge = 0;
  if (of) record(of);
}
UNCOVERED void __sanitizer_cov_trace_pc_indir(uintptr_t callee) {
  const char *of = pointer;
  (void)callee;
  pointer = 0;
  if (of) record(of);
}
UNCOVERED void __sanitizer_cov_trace_pc_guard_init(uint32_t *start, uint32_t *stop) { (void)start, (void)stop; }

static int (*volatile called)(int) = leaf;
NOINLINE static int middle(int n) {
  edge = "edge";
  n = leaf(n);
  KEEP;
  pointer = "pointer";
  n = called(n);
  KEEP;
  return n;
}
