#include <stdio.h>

struct Words { long words[5]; };
struct Scoped { ~Scoped(); };
Scoped::~Scoped() {}
extern "C" void entry();
extern "C" void other() {}
extern "C" void replaced(Words) { throw 1; }
int main() { try { entry(); } catch (int) { puts("caught"); } }
