// Values stay in vector registers between calls that write bits.
#include <stdio.h>

#define NOINLINE __attribute__((noinline))
#ifdef __aarch64__
#define IN_VECTOR "+w"
#else
#define IN_VECTOR "+x"
#endif

// Each has two ends, so that its return is an event.
NOINLINE static double scaled(double a, double b, long n) {
  __asm__ volatile("" : IN_VECTOR(a));
  if (n % 3 == 0)
    return a / b + n;
  return a * b - n;
}

NOINLINE static float small(float a, float b, float c, long n) {
  __asm__ volatile("" : IN_VECTOR(a));
  return n & 1 ? a - b : a + c;
}

NOINLINE static long double wide(long double a, long n) {
  return n % 5 ? a + 1 : a / 2;
}

int main(void) {
  double sum = 1, values[64];
  float part = 0;
  long double most = 3;
  for (int i = 0; i < 64; i++)
    values[i] = i * 0.75 + 1;
  for (long n = 0; n < 20000; n++) {
    double first = values[n % 64], second = values[n * 7 % 64];
    // Loaded in front of the branches that tell which call comes.
    if (n % 11 < 6)
      sum += scaled(first, second, n);
    else if (n % 11 < 9)
      part += small(first, second, sum > 0 ? 1.5f : 2.5f, n);
    else
      most += wide(first * second, n);
    sum *= first < second ? 0.5 : 0.25;
  }
  printf("%.17g %.9g %.21Lg\n", sum, part, most);
  return 0;
}
