INNER int back(int n) { int r = show("back", n); KEEP; return r; }
INNER int up(int n) { if (n > 0) throw n; return n; }
template <class F> F *hidden(F *f) { __asm__ volatile("" : "+r"(f)); return f; }
int main() {
  Big big = {}; int r = one(1, back); r += hidden(one)(2, back);
  r += one(3, hidden(one) ? back : 0);
  r += logs(back, "byname", 4); r += hidden(logs)(back, "bypointer", 5);
  r += sums(1, 2, 3, 4, 5, 6, 7, big, back); r += hidden(sums)(1, 2, 3, 4, 5, 6, 7, big, back);
  r += choose(1)(6); r += hidden(choose)(1)(7); r += leaves(8, back); r += hidden(leaves)(9, back);
  for (int i = 0; i < 6; i++)
    try {
      if (i == 0) throws(1); if (i == 1) hidden(throws)(1); if (i == 2) passes(1, up);
      if (i == 3) hidden(passes)(1, up); if (i == 4) choose(0)(1); if (i == 5) hidden(leaves)(1, up);
    } catch (int) { show("caught", i); }
  one(1, back); return r == 0; }
