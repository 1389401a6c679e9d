#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry { char *key; char *value; struct entry *next; };
static struct entry *entries;

static char *repeat(const char *text, int times) {
  size_t length = strlen(text);
  char *result = calloc(length * times + 1, 1);
  for (int i = 0; i < times; i++) memcpy(result + i * length, text, length);
  return result;
}
static void remember(const char *key, char *value) {
  struct entry *entry = malloc(sizeof *entry);
  *entry = (struct entry){strdup(key), value, entries};
  entries = entry;
}
static void load(int n) {
  char key[32];
  for (int i = 0; i < n; i++) {
    snprintf(key, sizeof key, "key %d", i);
    remember(key, repeat("value ", i % 50));
  }
}
static void forget(void) {
  while (entries) {
    struct entry *next = entries->next;
    free(entries->value);
    free(entries);               /* and the key? */
    entries = next;
  }
}
int main(void) {
  load(1000);
  forget();
  load(10);
  forget();
  return 0;
}
