/* The cost of one capture by the depth of the stack. Prints lines: kind of stack, depth, nanoseconds for a capture,
 * nanoseconds for a capture that is recorded.
 *
 *   chain      different functions call each other: no recursion
 *   recursion  one function calls itself; the contexts were seen before
 */
#include <stdio.h>
#include <time.h>

#include "capture.h"

namespace {

double now() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

template <typename Work> double cost(Work work) {
    double best = 1e99;
    for (int repeat = 0; repeat < 5; repeat++) {
        long times = 0, batch = 16;
        double start = now(), end;
        do {
            for (long i = 0; i < batch; i++) {
                work();
            }
            times += batch;
            batch *= 2;
            end = now();
        } while (end - start < 4e6);
        if ((end - start) / times < best) {
            best = (end - start) / times;
        }
    }
    return best;
}

double captured, recorded;

__attribute__((noinline)) void innermost() {
    captured = cost([]() __attribute__((always_inline)) {
        uint64_t context = capture_context();
        asm volatile("" : : "r"(context));
    });
    recorded = cost([]() __attribute__((always_inline)) { capture_record(capture_context()); });
}

template <int N> __attribute__((noinline)) void chain(int left) {
    if (left == 0) {
        innermost();
    } else if constexpr (N < 1000) {
        chain<N + 1>(left - 1);
    }
    asm volatile("" : : : "memory");
}

__attribute__((noinline)) void recursion(int left) {
    if (left == 0) {
        innermost();
    } else {
        recursion(left - 1);
    }
    asm volatile("" : : : "memory");
}

} // namespace

int main() {
    const int depths[] = {5, 10, 20, 50, 100, 1000};
    for (int depth : depths) {
        /* The innermost function, its caller's, and main are a part of the stack. */
        chain<0>(depth - 3);
        printf("chain %d %.2f %.2f\n", depth, captured, recorded);
        recursion(depth - 3);
        printf("recursion %d %.2f %.2f\n", depth, captured, recorded);
    }
}
