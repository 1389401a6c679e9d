typedef int Step(int);
Step *table(int number);
int enter(Step *step, int n);
