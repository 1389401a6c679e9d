// The interface of `witness.c`, which records what a program did without the tracer.

// The thread has this number in all runs. Before anything else of it.
void witness_thread(int number);
