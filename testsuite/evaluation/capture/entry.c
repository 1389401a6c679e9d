/* Captures a context at every CAPTURE_PERIOD-th entry of a function: clang puts a call of this at each entry
 * (-fsanitize-coverage=func,trace-pc), and it becomes a part of the function when the program is linked. */
#include "capture.h"

extern uint64_t capture_period, capture_countdown;

__attribute__((always_inline)) void __sanitizer_cov_trace_pc(void) {
    if (__builtin_expect(--capture_countdown == 0, 0)) {
        capture_countdown = capture_period;
        capture_record(capture_context());
    }
}
