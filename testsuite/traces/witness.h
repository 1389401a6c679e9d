// The interface of `witness.c`, which records what a program did without the tracer.

// The thread has this number in all runs. Before anything else of it.
void witness_thread(int number);

// The functions of the program, up to a null pointer. The program defines it.
extern void *const witness_functions[];
