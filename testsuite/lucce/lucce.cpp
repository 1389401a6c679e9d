// Lucce's Algorithm 1 (lucce.txt §5), over the calls that a program executes: how often its graph gets a new version,
// how many records its log has, and how many bits its numbers need. For a comparison with interned chains.
//
// clang puts calls of the two functions below at each entry and exit (-finstrument-functions-after-inlining): the same
// walk as that of an encoded program. A function entry is an edge <caller, callee, call site>. The graph is
// <E, numCC, lv>; wherever the algorithm assigns, and the value changes, the version goes up by one and one record is
// written. The numbers grow beyond any machine word: changes are found modulo a prime of 61 bits, sizes are kept as
// logarithms. One thread is followed, the first one.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#define PLAIN __attribute__((no_instrument_function))

namespace {
constexpr uint64_t prime = (1ull << 61) - 1;

PLAIN uint64_t sum(uint64_t a, uint64_t b) { return (a + b) % prime; }
// log2(2^a + 2^b); minus infinity stands for 0.
PLAIN double log_sum(double a, double b) {
  if (a < b) { double c = a; a = b; b = c; }
  return std::isinf(b) ? a : a + std::log2(1 + std::exp2(b - a));
}

struct Edge { uint32_t caller; uintptr_t site; };
struct Node {
  uint64_t num_cc = 1;     // modulo the prime
  double log_num_cc = 0;   // log2
  uint64_t lv = 0;         // lv(p): the version when it was entered last, by a call of which it makes calls
  uint64_t graph = 0;      // what `graph` was when num_cc was computed
  std::vector<Edge> in;
};
struct Activation { void *function, *site, *frame; uint32_t node; double log_id; uint64_t version; };

struct State {
  std::unordered_map<uintptr_t, uint32_t> nodes;
  std::vector<Node> graph_nodes = std::vector<Node>(1); // 0: the root
  std::vector<Activation> stack;
  uint64_t version = 0, graph = 0, entries = 0;
  uint64_t edges = 0, counts = 0, backups = 0;
  double most_bits = 0, most_count = 0, deepest = 0;
};
State *state;
__thread bool is_first, asked;

PLAIN uint32_t node_of(void *function) {
  auto [found, fresh] = state->nodes.try_emplace((uintptr_t)function, (uint32_t)state->graph_nodes.size());
  if (fresh) {
    state->graph_nodes.emplace_back();
    state->graph_nodes.back().num_cc = 0;
    state->graph_nodes.back().log_num_cc = -INFINITY;
  }
  return found->second;
}

PLAIN void report() {
  fprintf(stderr,
          "lucce: %llu entries; %zu functions, %llu edges; versions %llu: %llu new edges, %llu changes of numCC, %llu of lv; "
          "numbers of %.0f bits and versions of %.0f; deepest stack %.0f\n",
          (unsigned long long)state->entries, state->nodes.size(), (unsigned long long)state->edges,
          (unsigned long long)state->version, (unsigned long long)state->edges, (unsigned long long)state->counts,
          (unsigned long long)state->backups, std::floor(state->most_bits) + 1,
          std::floor(std::log2((double)(state->version | 1))) + 1, state->deepest);
}

// UPDATE(<p, n, l>, <c, v>): returns log2 of the new number, and its version.
PLAIN Activation update(uint32_t p, uint32_t n, uintptr_t site, double log_id, uint64_t v) {
  State &s = *state;
  if (s.graph_nodes[p].lv != v) { // lv(p) <- v
    s.graph_nodes[p].lv = v;
    s.version++, s.backups++;
  }
  Node &node = s.graph_nodes[n];
  size_t at = 0;
  while (at < node.in.size() && (node.in[at].caller != p || node.in[at].site != site)) at++;
  if (at == node.in.size()) { // E <- E + e
    node.in.push_back({p, site});
    s.version++, s.edges++, s.graph++;
  }
  if (node.graph != s.graph) { // numCC(n) <- sum over the in-edges
    uint64_t count = 0;
    double log_count = -INFINITY;
    for (const Edge &edge : node.in) {
      count = sum(count, s.graph_nodes[edge.caller].num_cc);
      log_count = log_sum(log_count, s.graph_nodes[edge.caller].log_num_cc);
    }
    if (count != node.num_cc) {
      node.num_cc = count, node.log_num_cc = log_count;
      s.version++, s.counts++, s.graph++;
    }
    node.graph = s.graph;
    if (log_count > s.most_count) s.most_count = log_count;
  }
  double value = -INFINITY; // av(e): the callers in front of it
  for (size_t i = 0; i < at; i++) value = log_sum(value, s.graph_nodes[node.in[i].caller].log_num_cc);
  Activation made{};
  made.node = n, made.log_id = log_sum(log_id, value), made.version = s.version;
  if (made.log_id > s.most_bits) s.most_bits = made.log_id;
  return made;
}
} // namespace

extern "C" PLAIN void __cyg_profile_func_enter(void *function, void *site) {
  if (!asked) {
    asked = true;
    if (!state) { state = new State, is_first = true; atexit(report); }
  }
  if (!is_first) return;
  State &s = *state;
  void *frame = __builtin_frame_address(0);
  // Calls that longjmp or an exception has left.
  while (!s.stack.empty() && s.stack.back().frame <= frame) s.stack.pop_back();
  s.entries++;
  uint32_t caller = s.stack.empty() ? 0 : s.stack.back().node;
  double id = s.stack.empty() ? -INFINITY : s.stack.back().log_id;
  uint64_t version = s.stack.empty() ? 0 : s.stack.back().version;
  Activation made = update(caller, node_of(function), (uintptr_t)site, id, version);
  made.function = function, made.site = site, made.frame = frame;
  s.stack.push_back(made);
  if ((double)s.stack.size() > s.deepest) s.deepest = (double)s.stack.size();
}
extern "C" PLAIN void __cyg_profile_func_exit(void *function, void *) {
  if (!is_first) return;
  State &s = *state;
  while (!s.stack.empty()) {
    bool it = s.stack.back().function == function;
    s.stack.pop_back();
    if (it) break;
  }
}
