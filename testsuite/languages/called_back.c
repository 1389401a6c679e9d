// Shows the context in a callback from Rust.
#include <pcce.h>
#include <stdio.h>
int from_rust(void (*)(int), int);
static void callback(int n) { char t[256]; pcce_token(t, sizeof t); printf("%d\n", n); fprintf(stderr, "%s\n", t); }
int main(void) { printf("%d\n", from_rust(callback, 1)); return 0; }
