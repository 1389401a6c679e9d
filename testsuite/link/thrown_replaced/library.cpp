#include <pcce.h>

struct Words { long words[5]; };
struct Scoped { ~Scoped(); };

extern "C" void other();
// Its arguments are on the stack. It does not throw, but one in its place does.
extern "C" __attribute__((noinline)) void replaced(Words all) { static volatile long sink; sink = all.words[0]; }
extern "C" void entry() {
    { Scoped scoped; other(); }
    replaced(Words{{512}});
    other();
}
extern "C" void takes() { char token[99]; pcce_token(token, 99); other(); }
