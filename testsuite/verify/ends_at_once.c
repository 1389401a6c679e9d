// Processes that end without handlers: _exit and _Exit, below fork and vfork.
int main(void) {
  middle(1);
  fflush(stdout);
  if (fork() == 0) { leaf(3); _exit(4); }
  int status = status_of_child();
  if (vfork() == 0) _Exit(2);
  _Exit(status * 10 + status_of_child());
}
