// Runs the steps, and returns how many have failed.
int interpret(void (*const *steps)(void));
// Ends the step that runs.
void fail(int value);
