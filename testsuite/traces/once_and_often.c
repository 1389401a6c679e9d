#include <stdlib.h>
#define NEW __attribute__((noinline))
static volatile unsigned seen;
NEW static void once(int n)
{
  seen += n;
}
NEW static void often(int n)
{
  seen += n;
}
int main(int count, char **words)
{
  (void)count;
  once(1);
  for (int i = atoi(words[1]); i > 0; i--)
    often(i);
  return 0;
}
