// What tells what a program did without the tracer: `witness.c`.

// The thread has this number in all runs. Before anything else of it.
void witness_thread(int number);
