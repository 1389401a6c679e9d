// Blocks that have leaked, and blocks to which something leads in many ways. With an argument there are threads, and
// with `signal` one ends the program.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

struct Node {
  Node *next;
  char *text;
};

#define APART __attribute__((noinline)) static

// The compiler must not leave out what nobody reads.
#define KEPT __attribute__((used)) static

KEPT Node *list;
KEPT std::vector<std::string> *strings;
KEPT char *inside;
KEPT void **far;
KEPT thread_local char *of_thread;

/// Hides from the compiler that nobody uses a pointer.
static void use(void *volatile pointer) { (void)pointer; }

APART Node *node(const char *text, Node *next) {
  Node *made = (Node *)malloc(sizeof(Node));
  made->text = strdup(text);
  made->next = next;
  return made;
}
/// A list that nobody has: only its first node leaks by itself.
APART void lose(int count) {
  Node *first = nullptr;
  for (int i = 0; i < count; i++) first = node("lost", first);
  use(first);
}
APART void circle() {
  Node *first = node("one", nullptr);
  first->next = node("two", first);
  use(first);
}
/// The node is freed, and its memory still has the text's address.
APART void forget() { free(node("its node is gone", nullptr)); }
APART void keep(int count) {
  for (int i = 0; i < count; i++) list = node("kept", list);
  strings = new std::vector<std::string>(50, "a string that is longer than what fits into the object itself");
}
/// Only an address in the middle is kept, and one of a large block in another large one.
APART void point_inside() {
  inside = (char *)malloc(100) + 60;
  far = (void **)calloc(1, 1 << 20);
  far[100000] = malloc(1 << 20);
}
APART void of_this_thread() {
  of_thread = (char *)malloc(77);
  free(malloc(5000));
}
/// Writes over what the functions have left on the stack.
APART void clean() {
  char bytes[50000];
  memset(bytes, 0, sizeof bytes);
  asm volatile("" ::"r"(bytes) : "memory");
}

static pthread_barrier_t started;
static void *wait_for_ever(void *) {
  of_this_thread();
  // In a register, or on the stack.
  char *mine = (char *)malloc(333);
  asm volatile("" : "+r"(mine));
  pthread_barrier_wait(&started);
  for (;;) {
    pause();
    asm volatile("" ::"r"(mine));
  }
}
static void *lose_some(void *) {
  lose(3);
  clean();
  return nullptr;
}

int main(int count, char **words) {
  lose(40);
  circle();
  forget();
  keep(20);
  point_inside();
  of_this_thread();
  clean();
  try {
    throw std::runtime_error("an exception is allocated, and freed");
  } catch (const std::exception &) {
  }
  if (count > 1) {
    pthread_t threads[3];
    pthread_barrier_init(&started, nullptr, 3);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], nullptr, wait_for_ever, nullptr);
    pthread_create(&threads[2], nullptr, lose_some, nullptr);
    pthread_join(threads[2], nullptr);
    pthread_barrier_wait(&started);
    if (strcmp(words[1], "signal") == 0) raise(SIGTERM);
  }
  return 0;
}
