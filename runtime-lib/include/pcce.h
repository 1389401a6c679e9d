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

#ifdef __clang__
/* The optimiser must not merge two calls into one: each names its own place. */
#define PCCE_CAPTURE_ __attribute__((nomerge))
#else
#define PCCE_CAPTURE_
#endif

/* The current calling context as one number. Equal contexts of this build give
 * equal numbers, different contexts different ones.
 *
 * A number below 2^63 is the same in every run of the build, and `pcce decode`
 * takes it. A number from 2^63 on was given by this process, for contexts with
 * recursion, indirect calls or calls from other modules in them: it can be compared
 * within the process, and decoded later if there is a file of numbers (pcce_numbers()
 * below, or the environment variable PCCE_NUMBERS).
 *
 * 0: there is no context (the program was built without the pass, or there is
 * no memory left for a new number).
 *
 * Code without the pass may call this and pcce_token(), too. They then follow return
 * addresses up to instrumented code, which takes microseconds. */
PCCE_CAPTURE_ uint64_t pcce_context(void);

/* Records the meaning of numbers from 2^63 on in a file, so that `pcce decode
 * --numbers FILE` takes them when the process is over: 24 bytes for each new link of a
 * chain of calls, and nothing for links that were seen before. fd is open for reading and
 * writing; the file is empty, or was used for this before, by this program or others, now
 * or earlier: no two processes give the same number of a file. Nobody else should be able
 * to write to it, and nobody may make it shorter. Child processes of fork() go on with the
 * same file. The descriptor may be closed afterwards.
 *
 * Returns 0, or an error number: EBUSY if there is such a file already, EINVAL if it is
 * something else, EEXIST if it has been used and this process has given numbers already
 * (take an empty file, or call this earlier), or the system's error. If the file system is
 * full later, only numbers that are new from then on are lost; a line on standard error
 * says so. Not async-signal-safe. */
int pcce_numbers(int fd);

/* Writes the current calling context as printable text (one word; `pcce decode`
 * takes it) and a final zero byte into buf, which has room for size bytes.
 * Returns the length of the whole token without the zero byte, as snprintf does:
 * if that is size or more, buf holds a valid token that lacks the outermost
 * callers and says so, or an empty string if even that does not fit. 128 bytes
 * are plenty outside deep recursion. Returns 0 and writes an empty
 * string where there is no context. Async-signal-safe. */
PCCE_CAPTURE_ size_t pcce_token(char *buf, size_t size);

/* pcce_token() for the point at which this thread was interrupted: pc and sp are the
 * program counter and the stack pointer there, as a signal handler finds them in
 * its ucontext_t (REG_RIP, REG_RSP). The point may be any machine instruction.
 * Such a token is longer: 512 bytes are plenty. Async-signal-safe, and safe to call
 * when memory was damaged. */
size_t pcce_token_at(char *buf, size_t size, const void *pc, const void *sp);

/* Writes the context in which the calling thread was created, or in which the task that it
 * runs was submitted (pcce_task_run() below), as pcce_token() writes the current one. If
 * the creating thread was created by instrumented code as well, the token of its creation
 * follows after a `+`, and so on. `pcce decode
 * --across-threads` joins a token with its thread's token; the word
 * TOKEN+THREADTOKEN says the same.
 *
 * Returns the length of the whole text: if that is size or more, buf holds the
 * tokens that fit, and `+~` instead of the others, or an empty string. Returns 0
 * and writes an empty string in the main thread, and in threads that code without
 * the pass created. Async-signal-safe. */
size_t pcce_thread_token(char *buf, size_t size);

/* Writes the context in which this thread has thrown its last exception, as pcce_token() writes
 * the current one: to be called first in a catch block, or in a terminate handler. The calls
 * of the library that throws come first. `throw;` throws nothing new; std::rethrow_exception() does.
 *
 * Returns the length of the token: if that is size or more, buf holds an empty string. It is never
 * more than 1,023; a longer one lacks the outermost callers and says so. Returns 0 and writes an
 * empty string where the thread has thrown nothing.
 *
 * For dynamic executables that are linked with `--pcce-thrown`. They pay at each throw: some microseconds,
 * and more in deep recursion. Not for shared libraries, and not where the unwinder is linked statically. */
size_t pcce_thrown_token(char *buf, size_t size);

/* Work that moves between threads. Where work is submitted, pcce_task_capture() keeps the
 * current context in *task. The thread that does the work, whichever that is, calls
 * pcce_task_run(task, body, argument), which calls body(argument). Meanwhile
 * pcce_thread_token() gives the context in which the task was submitted, and after a `+`
 * the origin of the submitting thread in turn; a `@` before the token distinguishes it from
 * the creation of a thread. Crash reports and `pcce core` show it, too. Tasks may run tasks
 * and submit others. body may leave by an exception, by longjmp, or with the thread:
 * nothing has to be undone.
 *
 * *task is the program's memory and stays as it is until the body has ended. It may be run
 * several times, by several threads at once, or never; nothing has to be freed.
 * pcce_task_run() must be called by name, in instrumented code: elsewhere it only calls
 * body(argument). pcce_task_capture() is async-signal-safe. */
struct pcce_task {
  uint64_t state[64];
};
void pcce_task_capture(struct pcce_task *task);
void pcce_task_run(const struct pcce_task *task, void (*body)(void *), void *argument);

/* On SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL: writes one report to the file
 * descriptor fd, a few lines of text with the context of each thread (`pcce decode`
 * reads them), and then the program dies as it would have without, with core dump and
 * exit status; handlers that were installed before are called. Works with a damaged
 * heap, and with a full stack where the thread has an alternate one: the calling
 * thread gets it here, threads that instrumented code creates from here on have it.
 * Returns 0, or -1 if the handlers cannot be installed. A later call changes fd only,
 * unless the program has installed other handlers meanwhile. */
int pcce_install_crash_handler(int fd);

/* Fibers, coroutines with stacks, user-level threads: for programs that switch
 * stacks by themselves (swapcontext, or code of their own). Without these calls,
 * a context that is taken on a stack other than the thread's own ends at the innermost
 * frame that is known, with an explicit boundary.
 *
 * Each fiber, and each thread's own stack, has a struct pcce_fiber. The function that
 * switches calls both of
 *
 *     pcce_fiber_save(&mine);
 *     swapcontext(&my_context, &the_other);  (or another switch)
 *     pcce_fiber_restore(&mine);
 *
 * so that restore comes when the fiber runs again. A new fiber begins with
 * pcce_fiber_run(body, argument), on its own stack: it calls body(argument), whose context is
 * empty, as that of a thread's start function is. Code that runs on the stack before
 * it must not take contexts. Every switch of a thread must be announced, or none.
 *
 * A fiber may be resumed by another thread than the one that left it. An abandoned
 * fiber and its stack may be freed at any time. */
struct pcce_fiber {
  uint64_t state[8];
};
void pcce_fiber_save(struct pcce_fiber *fiber);
void pcce_fiber_restore(const struct pcce_fiber *fiber);
void pcce_fiber_run(void (*body)(void *), void *argument);

/* Traces of calls, in programs that are built with `--pcce-trace` and run with PCCE_TRACE: in
 * others these do nothing.
 *
 * pcce_trace_stop() stops recording, in all threads: their calls until then are in the trace, each
 * thread's up to its last word. pcce_trace_start() goes on, in each thread some dozens of calls later;
 * the calls that are active there are known. pcce_trace_mark() puts a mark with a value into the
 * calling thread's trace. pcce_trace_flush() writes the events that the calling thread has not yet
 * written (less than one word), so that the file has all events up to here, however the process ends.
 * Async-signal-safe. */
void pcce_trace_start(void);
void pcce_trace_stop(void);
void pcce_trace_mark(uint64_t value);
void pcce_trace_flush(void);

#ifdef __cplusplus
}
#endif

/* The token of the current context as a `const char *`, for a line of a log:
 *
 *     printf("two equal sizes %s\n", PCCE_TOKEN);
 *
 * In C the text lives until the end of the enclosing block, in C++ until the end of the full
 * expression (the call). It is cut as pcce_token() cuts it if it has more than 511 characters. In C++,
 * `<< pcce::token()` puts it into any stream. Both capture the context of the line on which they are
 * written, not of a function of this header. */
#define PCCE_TOKEN_SIZE 512
#ifdef __clang__
/* Inlined at -O0, too, and without lines of its own: it leaves no frame. */
#define PCCE_INLINE_ inline __attribute__((always_inline, nodebug))
#else
#define PCCE_INLINE_ inline
#endif

#ifdef __cplusplus
namespace pcce {
/* The context in which the object was made. */
class token {
public:
  PCCE_INLINE_ token() { pcce_token(text_, sizeof text_); }
  PCCE_INLINE_ const char *c_str() const { return text_; }

private:
  char text_[PCCE_TOKEN_SIZE];
};
#if __cplusplus >= 201103L
template <class Stream>
inline auto operator<<(Stream &&stream, const token &context) -> decltype(stream << context.c_str()) {
  return stream << context.c_str();
}
#else
template <class Stream> inline Stream &operator<<(Stream &stream, const token &context) {
  stream << context.c_str();
  return stream;
}
#endif
/* Work that is submitted where this is made. `task.run(body)` calls `body()`: see pcce_task_run(). */
class task {
public:
  PCCE_INLINE_ task() { pcce_task_capture(&task_); }
  template <class Body> PCCE_INLINE_ void run(Body body) const { pcce_task_run(&task_, call_<Body>, &body); }

private:
  template <class Body> static void call_(void *body) { (*static_cast<Body *>(body))(); }
  pcce_task task_;
};
} // namespace pcce
#define PCCE_TOKEN (::pcce::token().c_str())
#else
struct pcce_text_ {
  char text[PCCE_TOKEN_SIZE];
};
static PCCE_INLINE_ const char *pcce_text_(struct pcce_text_ *buffer) {
  pcce_token(buffer->text, sizeof buffer->text);
  return buffer->text;
}
#define PCCE_TOKEN (pcce_text_(&(struct pcce_text_){{0}}))
#endif

#endif /* PCCE_H */
