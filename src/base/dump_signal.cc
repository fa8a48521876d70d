#include "src/base/dump_signal.h"

#include <signal.h>

#include <atomic>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace ebt {
namespace {

std::atomic<bool> came{false};
static_assert(std::atomic<bool>::is_always_lock_free);
// Written before the handler is there.
struct sigaction before;

// Both handlers are one field, and "default" and "ignored" mean the same in it whatever the flags.
bool Handles(const struct sigaction& action) {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

void Catch(int number, siginfo_t* info, void* context) {
  came.store(true, std::memory_order_relaxed);
  if (!Handles(before)) return;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else {
    before.sa_handler(number);
  }
}

}  // namespace

std::optional<int> DumpSignalNumber(std::string_view name) {
  std::string upper = absl::AsciiStrToUpper(absl::string_view(name.data(), name.size()));
  absl::string_view word = absl::StripPrefix(upper, "SIG");
  if (word == "USR1") return SIGUSR1;
  if (word == "USR2") return SIGUSR2;
  if (word == "URG") return SIGURG;
  if (word == "WINCH") return SIGWINCH;
  int offset = 0;
  if (!absl::ConsumePrefix(&word, "RTMIN")) return std::nullopt;
  if (word.empty()) return SIGRTMIN;
  if (!absl::ConsumePrefix(&word, "+") || word.empty() || !absl::ascii_isdigit(word.front()) ||
      !absl::SimpleAtoi(word, &offset) || SIGRTMIN + offset > SIGRTMAX) {
    return std::nullopt;
  }
  return SIGRTMIN + offset;
}

void CatchDumpSignal(int number) {
  static std::atomic<bool> caught{false};
  if (caught.exchange(true) || sigaction(number, nullptr, &before) != 0) return;
  struct sigaction ours {};
  const bool theirs = Handles(before);
  ours.sa_sigaction = &Catch;
  ours.sa_mask = before.sa_mask;
  // A program's own handler keeps what it was promised: its stack, interrupted calls. Once only is
  // what it cannot be.
  ours.sa_flags =
      SA_SIGINFO | (theirs ? before.sa_flags & ~static_cast<int>(SA_RESETHAND) : SA_RESTART);
  sigaction(number, &ours, nullptr);
}

bool DumpSignalCame() {
  return came.load(std::memory_order_relaxed) && came.exchange(false, std::memory_order_relaxed);
}

}  // namespace ebt
