/*===-- pcce/spdlog.h - contexts in the messages of spdlog ----------------===*\
|* Part of PCCE for LLVM, under the Apache License v2.0 with LLVM Exceptions. *|
|* Usable from C++11, with spdlog 1.5 or later.                               *|
\*===----------------------------------------------------------------------===*/
#ifndef PCCE_SPDLOG_H
#define PCCE_SPDLOG_H

#include <memory>
#include <string>
#include <utility>

#include <pcce.h>
#include <spdlog/spdlog.h>
#ifndef SPDLOG_USE_STD_FORMAT
/* `spdlog::warn("two equal sizes {}", pcce::token())`. */
#include <pcce/fmt.h>
#endif

namespace pcce {
namespace adapters {
/* A logger that adds the context to each message, and hands it to another one. */
class spdlog_logger : public ::spdlog::logger {
public:
  explicit spdlog_logger(std::shared_ptr<::spdlog::logger> target)
      : ::spdlog::logger(target->name(), target->sinks().begin(), target->sinks().end()), target_(std::move(target)) {
    /* This one decides what is logged, and when it is flushed. */
    set_level(target_->level());
    flush_on(target_->flush_level());
    target_->set_level(::spdlog::level::trace);
    target_->flush_on(::spdlog::level::off);
  }

  std::shared_ptr<::spdlog::logger> clone(std::string name) override {
    auto target = target_->clone(std::move(name));
    target->set_level(level());
    target->flush_on(flush_level());
    return std::make_shared<spdlog_logger>(std::move(target));
  }

protected:
  /* The caller's thread makes the message here, also of an asynchronous logger. */
  void sink_it_(const ::spdlog::details::log_msg &message) override {
    /* A message that was kept for `dump_backtrace` was made elsewhere. It has a copy of the logger's name. */
    if (message.logger_name.data() != name().data()) {
      target_->log(message.time, message.source, message.level, message.payload);
    } else {
      token context;
      std::string text(message.payload.data(), message.payload.size());
      text += ' ';
      text += context.c_str();
      target_->log(message.time, message.source, message.level, ::spdlog::string_view_t(text));
    }
    if (should_flush_(message)) flush_();
  }
  void flush_() override { target_->flush(); }

private:
  std::shared_ptr<::spdlog::logger> target_;
};
} // namespace adapters

/* A logger that writes the messages of `logger`, with the context of each message after its text. It replaces
 * `logger` where spdlog knows it by name, or as the default: one line at the start of a program,
 * `pcce::with_tokens(spdlog::default_logger())`, is enough.
 *
 * For an asynchronous logger, too, the context is that of the thread that logs. Messages that
 * `dump_backtrace` writes later have none. `logger` itself should not be used any more. */
inline std::shared_ptr<::spdlog::logger> with_tokens(std::shared_ptr<::spdlog::logger> logger) {
  const bool is_default = ::spdlog::default_logger() == logger;
  const bool is_known = ::spdlog::get(logger->name()) == logger;
  std::shared_ptr<::spdlog::logger> with = std::make_shared<adapters::spdlog_logger>(logger);
  if (is_default) {
    ::spdlog::set_default_logger(with);
  } else if (is_known) {
    ::spdlog::drop(logger->name());
    ::spdlog::register_logger(with);
  }
  return with;
}
} // namespace pcce

#endif /* PCCE_SPDLOG_H */
