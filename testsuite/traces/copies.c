#include <stdio.h>
static unsigned state = 5;
static inline unsigned next(void)
{
  state = state * 1103515245 + 12345;
  return (state >> 16) & 0x7fff;
}
int main(void)
{
  for (int i = 0; i < 10; i++)
  {
    unsigned x = next();
    unsigned y = next();
    if (next() % 3)
      puts("odd");
    printf("%u %u\n", x, y);
  }
  return 0;
}
