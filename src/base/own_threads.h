// The threads that Ebbtide runs in a program's process. They must not be what keeps the process
// alive: a program may end its first thread and leave the end of the process to its last one.
#ifndef EBBTIDE_SRC_BASE_OWN_THREADS_H_
#define EBBTIDE_SRC_BASE_OWN_THREADS_H_

#include <chrono>

namespace ebt {

// How often our threads look whether they are the last ones.
inline constexpr auto kLookForProgram = std::chrono::milliseconds(500);

// In scope for as long as the calling thread, which is one of ours, runs.
class OwnThread {
 public:
  OwnThread();
  ~OwnThread();
  OwnThread(const OwnThread&) = delete;
  OwnThread& operator=(const OwnThread&) = delete;
};

// True when the program's first thread has ended and there are none but ours any more: then each
// of ours must return, and the process ends with the last. Costs a few microseconds, ask rarely.
bool ProgramThreadsAreGone();

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_OWN_THREADS_H_
