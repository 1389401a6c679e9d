// A plugin of events.c; NAME makes several of it.
typedef void function(int depth);
void plugin(function *back, int depth);

__attribute__((noinline)) static void NAME(function *back, int depth) {
  if (depth > 6) back(depth - 3);
  else back(depth - 1);
  __asm__ volatile("" ::: "memory");
}
void plugin(function *back, int depth) {
  if (depth % 3 == 0) NAME(back, depth - 1);
  else back(depth - 1);
  __asm__ volatile("" ::: "memory");
}
