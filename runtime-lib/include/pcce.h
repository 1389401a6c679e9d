/*===-- pcce.h - calling contexts of the running program ------------------===*\
|* Part of PCCE for LLVM, under the Apache License v2.0 with LLVM Exceptions. *|
|* Usable from C11 and C++11.                                                 *|
\*===----------------------------------------------------------------------===*/
#ifndef PCCE_H
#define PCCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The current calling context as one number. Equal contexts of this build give
 * equal numbers, different contexts different ones.
 *
 * A number below 2^63 is the same in every run of the build, and `pcce decode`
 * takes it. One from 2^63 on was given out by this process, for contexts with
 * recursion, indirect calls or calls from other modules in them: it can be compared
 * within the process; write pcce_token() where it is to be decoded later.
 *
 * 0: there is no context (the program was built without the pass, or there is
 * no memory left for a new number). */
uint64_t pcce_context(void);

/* Writes the current calling context as printable text (one word; `pcce decode`
 * takes it) and a final zero byte into buf, which has room for size bytes.
 * Returns the length of the whole token without the zero byte, as snprintf does:
 * if that is size or more, buf holds a valid token that lacks the outermost
 * callers and says so, or an empty string if even that does not fit. 128 bytes
 * are plenty outside deep recursion. Returns 0 and writes an empty
 * string where there is no context. Async-signal-safe. */
size_t pcce_token(char *buf, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* PCCE_H */
