#include <pcce.h>
#include <syslog.h>

static void reload(int file) {
  if (file == 2) syslog(LOG_WARNING, "file %d is empty %s", file, PCCE_TOKEN);
}

int main(void) {
  openlog("reload", LOG_PERROR, LOG_USER); // LOG_PERROR: to standard error, too
  for (int file = 1; file <= 2; file++) reload(file);
  return 0;
}
