// A signal at which a process says what fills its memory, where the user has named one.
#ifndef EBBTIDE_SRC_BASE_DUMP_SIGNAL_H_
#define EBBTIDE_SRC_BASE_DUMP_SIGNAL_H_

#include <optional>
#include <string_view>

namespace ebt {

// The number of "USR1", "SIGUSR2", "urg", "WINCH" or "RTMIN+3". Nothing for what is no such name: a
// signal that ends programs, stops them or tells of faults has another meaning.
std::optional<int> DumpSignalNumber(std::string_view name);
inline constexpr std::string_view kDumpSignalNames = "USR1, USR2, URG, WINCH, RTMIN+0 to RTMIN+30";

// Catches the signal from now on; what the program had put there is called behind. A handler that
// the program puts later replaces ours. Once a process.
void CatchDumpSignal(int number);

// Whether the signal has come since the last call. Any thread; a process that is forked has its
// own.
bool DumpSignalCame();

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_DUMP_SIGNAL_H_
