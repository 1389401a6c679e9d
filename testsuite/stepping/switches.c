// Jump tables of several kinds, with calls in the cases: dense, with an offset, of all values of a few bits, in a loop.
#include "step.h"

static volatile int sum;

NOINLINE static int captured(int n) {
  char token[256];
  sum += n + (pcce_token(token, sizeof token) != 0);
  return sum;
}
NOINLINE static int leaf(int n) { sum ^= n; return sum + n; }

NOINLINE static int dense(unsigned n) {
  switch (n) {
    case 0: return captured(0) + 1;
    case 1: leaf(1); KEEP; return captured(1);
    case 2: return leaf(captured(2));
    case 3: leaf(3); KEEP; // and on
    case 4: captured(4); KEEP; break;
    case 5: for (int i = 0; i < 2; i++) { leaf(i); KEEP; } break;
    case 6: return captured(6) * 3;
    case 7: return leaf(captured(7)) - captured(8);
    case 8: return captured(9) & 5;
    case 9: return captured(leaf(9));
    case 10: return captured(10) % 3;
    case 11: return captured(11) | leaf(2);
    case 12: captured(12); KEEP; return captured(13);
    case 13: return leaf(13);
    default: return (int)n;
  }
  return captured(20) + (int)n;
}

NOINLINE static long above(long n, int x) {
  switch (n) {
    case 1000: x += captured(x); break;
    case 1001: x -= captured(1); break;
    case 1002: x ^= leaf(x); break;
    case 1003: x *= captured(3); break;
    case 1004: x |= captured(4); break;
    case 1005: x &= captured(5); break;
    case 1007: x = captured(x + leaf(1)); break;
    case 1008: x = captured(x + leaf(2)); break;
    case 1009: x = captured(x + leaf(3)); break;
    case 1010: x = captured(x) - leaf(4); break;
    case 1011: x = captured(x) / 3; break;
    case 1012: x = captured(x) << 2; break;
    case 1013: x = captured(x) >> 2; break;
    case 1014: x = captured(x) + captured(2); break;
    default: x = leaf(x);
  }
  return x + n;
}

NOINLINE static int bits(const unsigned char *from, int x) {
  switch (*from & 15) {
    case 0: x = captured(x); break;
    case 1: x = captured(x + 2) * 3; break;
    case 2: return leaf(captured(x));
    case 3: x = captured(x) - captured(3); break;
    case 4: x = captured(captured(x)); break;
    case 5: x = captured(x * 2); break;
    case 6: x = captured(x + 6) * 3; break;
    case 7: x = captured(x) / 17; break;
    case 8: x = captured(99); KEEP; // and on
    case 9: x = captured(x) % 27; break;
    case 10: x = captured(7); break;
    case 11: x = captured(9) - x; break;
    case 12: x = captured(1) * x; break;
    case 13: x = captured(x) & 7; break;
    case 14: x = captured(x + leaf(1)); break;
    case 15: x = x * leaf(x); break;
  }
  return captured(x + 1);
}

// The value is out of a table of constants, as the classes of characters in a scanner.
NOINLINE static int classes(const unsigned char *from, int x) {
  static const unsigned char of[16] = {0, 1, 2, 3, 4, 13, 6, 7, 8, 200, 10, 9, 11, 12, 6, 5};
  switch (of[*from & 15]) {
    case 0: x = captured(x + 1); break;
    case 1: x = captured(x) * 5; break;
    case 2: return leaf(captured(x));
    case 3: x = captured(x) - leaf(3); break;
    case 4: leaf(4); KEEP; // and on
    case 5: x = captured(x * 3); break;
    case 6: x = leaf(x) + captured(6); break;
    case 7: x = captured(leaf(7)); break;
    case 8: x = captured(x) / 3; break;
    case 9: x = captured(x) | 1; break;
    case 10: x = captured(x) & 3; break;
    case 11: x = captured(x) % 9; break;
    case 12: x = leaf(x) - captured(12); break;
    case 13: x = captured(13) ^ 1; break;
    default: x = leaf(x);
  }
  return captured(x - 1);
}

#define CASE(n) case n: x = leaf(x + n) ^ captured(n); x += leaf(n); x -= captured(x); x ^= leaf(x - n); break;
NOINLINE static int large(const unsigned char *code, int x) {
  for (;; code++) {
    switch (*code) {
      CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
      CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19)
      case 20: return captured(x);
      default: x++;
    }
  }
}

NOINLINE static void work(int n) {
  static const unsigned char code[] = {3, 19, 0, 7, 200, 12, 20};
  for (int i = 0; i < 16; i++) { sum += dense((unsigned)(i + n - 1)); KEEP; }
  for (long i = 999; i < 1016; i += 2) { sum += (int)above(i, n); KEEP; }
  for (unsigned char i = 0; i < 16; i += 3) { sum += bits(&i, n); KEEP; }
  for (unsigned char i = 0; i < 16; i += 5) { sum += classes(&i, n); KEEP; }
  sum += large(code, n);
  KEEP;
}

int main(int argc, char **argv) {
  (void)argv;
  step_begin();
  STEP_ON;
  work(argc);
  KEEP;
  STEP_OFF;
  step_end();
  return 0;
}
