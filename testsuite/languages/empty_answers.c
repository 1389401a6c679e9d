// Without the pass each function of the interface answers that there is no context.
#include <pcce.h>
#include <stdio.h>
static void body(void *argument) {
  struct pcce_fiber fiber;
  pcce_fiber_save(&fiber);
  pcce_fiber_restore(&fiber);
  *(char *)argument = 0;
}
int main(void) {
  char buffer[128] = "untouched", other[128] = "untouched";
  size_t length = pcce_token(buffer, sizeof buffer);
  printf("%d '%s' %d %d\n", (int)length, buffer, (int)pcce_token(0, 0), (int)pcce_context());
  printf("%d", (int)pcce_thread_token(other, sizeof other));
  printf(" '%s' %d", other, (int)pcce_thread_token(0, 0));
  other[0] = 'x';
  pcce_fiber_run(body, other);
  struct pcce_task task;
  pcce_task_capture(&task);
  other[0] = 'x';
  pcce_task_run(&task, body, other);
  printf(" '%s'\n", other);
  return 0;
}
