// Records what a program did, without the tracer: a hash of all calls and returns of each thread, as clang's
// -finstrument-functions tells them, goes to the file that WITNESS names. Compiled without the pass.
#include "witness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 16 };
// The linker's.
extern char __executable_start[], etext[];

static unsigned long sums[THREADS];
static _Thread_local int thread;

// The address in the file, wherever it is loaded. What is in other images is of no importance: an inlined getchar, what
// called main.
static unsigned long in_file(void *address) {
  char *at = address;
  return at >= __executable_start && at < etext ? (unsigned long)(at - __executable_start) : 0;
}

// Programs that were made differently of one source have the same functions at other addresses: with WITNESS_NUMBERS,
// a function is its number in the program's list, and the place of a call does not count.
static int numbers;
__attribute__((constructor)) static void choose(void) { numbers = getenv("WITNESS_NUMBERS") != NULL; }

static unsigned long number_of(void *function) {
  unsigned long number = 0;
  while (witness_functions[number] && witness_functions[number] != function)
    number++;
  return number;
}

static void add(unsigned long kind, void *function, void *site) {
  unsigned long sum = sums[thread];
  sum = (sum ^ (numbers ? number_of(function) : in_file(function))) * 0xff51afd7ed558ccdUL;
  sum = ((sum ^ sum >> 29) + (numbers ? 0 : in_file(site) * 4) + kind) * 0xc4ceb9fe1a85ec53UL;
  sums[thread] = sum ^ sum >> 32;
}

void witness_thread(int number) { thread = number; }

void __cyg_profile_func_enter(void *function, void *site) { add(1, function, site); }

void __cyg_profile_func_exit(void *function, void *site) { add(2, function, site); }

__attribute__((destructor)) static void tell(void) {
  const char *name = getenv("WITNESS");
  int file = name ? open(name, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
  if (file < 0)
    return;
  for (int i = 0; i < THREADS; i++)
    dprintf(file, "%016lx\n", sums[i]);
  close(file);
}
