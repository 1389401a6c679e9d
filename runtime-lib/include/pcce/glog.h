/*===-- pcce/glog.h - contexts in the messages of glog --------------------===*\
|* Part of PCCE for LLVM, under the Apache License v2.0 with LLVM Exceptions. *|
|* Usable from C++11, with glog 0.5 and 0.6 that were built with custom       *|
|* prefixes, as Debian's is.                                                  *|
\*===----------------------------------------------------------------------===*/
#ifndef PCCE_GLOG_H
#define PCCE_GLOG_H

/* Without this macro, glog's header has no custom prefixes. */
#ifndef GLOG_CUSTOM_PREFIX_SUPPORT
#ifdef COMPACT_GOOGLE_LOG_INFO
#error "include <pcce/glog.h> before <glog/logging.h>, or compile with -DGLOG_CUSTOM_PREFIX_SUPPORT"
#endif
#define GLOG_CUSTOM_PREFIX_SUPPORT
#endif

#include <cstdio>
#include <ostream>

#include <glog/logging.h>
#include <pcce.h>

namespace pcce {
namespace adapters {
/* glog's own prefix, followed by the context of the message. */
inline void glog_prefix(std::ostream &out, const google::LogMessageInfo &message, void *) {
  const google::LogMessageTime &time = message.time;
  char moment[64];
  std::snprintf(moment, sizeof moment, "%c%04d%02d%02d %02d:%02d:%02d.%06d %5d ", message.severity[0],
                1900 + time.year(), 1 + time.month(), time.day(), time.hour(), time.min(), time.sec(),
                static_cast<int>(time.usec()), static_cast<int>(message.thread_id));
  out << moment << message.filename << ':' << message.line_number << "] " << token();
}
} // namespace adapters

/* Replaces `google::InitGoogleLogging`, and puts the context of each message between its prefix and its text.
 * With `FLAGS_log_prefix = false` messages have neither. */
inline void init_google_logging(const char *program) {
  google::InitGoogleLogging(program, adapters::glog_prefix);
}
} // namespace pcce

#endif /* PCCE_GLOG_H */
