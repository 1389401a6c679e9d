/*===-- pcce/fmt.h - contexts in texts that {fmt} formats -----------------===*\
|* Part of PCCE for LLVM, under the Apache License v2.0 with LLVM Exceptions. *|
|* Usable from C++11, with {fmt} 8 or later, also the one that spdlog brings. *|
\*===----------------------------------------------------------------------===*/
#ifndef PCCE_FMT_H
#define PCCE_FMT_H

#include <pcce.h>
#ifndef FMT_VERSION
#include <fmt/format.h>
#endif

/* `fmt::print("two equal sizes {}\n", pcce::token())`: the context of this line. The token takes the
 * format specifications of texts, such as `{:>60}`. */
template <> struct fmt::formatter<pcce::token> : fmt::formatter<fmt::string_view> {
  template <class Context>
  auto format(const pcce::token &context, Context &out) const -> decltype(out.out()) {
    return fmt::formatter<fmt::string_view>::format(context.c_str(), out);
  }
};

#endif /* PCCE_FMT_H */
