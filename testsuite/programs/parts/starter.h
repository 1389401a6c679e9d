// Runs the function in a thread of its own, and waits for its end.
void starter(void *(*start)(void *), void *argument);
