// How a running process is asked what fills its memory: a Unix socket without a file, by the name
// of its process number, for its own user alone.
#ifndef EBBTIDE_SRC_BASE_LIVE_SOCKET_H_
#define EBBTIDE_SRC_BASE_LIVE_SOCKET_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace ebt {

// The answering side. Not thread-safe.
class LiveSocket {
 public:
  // Begins to listen. Where that is impossible (no sockets, the name is taken in another PID
  // namespace) nobody will be answered, and nothing else happens.
  LiveSocket();
  ~LiveSocket();
  LiveSocket(const LiveSocket&) = delete;
  LiveSocket& operator=(const LiveSocket&) = delete;

  // Sends `answer`'s text to everybody who has asked since the last call and is the process's own
  // user or root. Waits for nobody but for a slow reader, a fifth of a second. A few microseconds
  // where nobody asks.
  void Serve(const std::function<std::string()>& answer);

  // Listens no more. In the child of a fork, which is another process, too.
  void Close() noexcept;

 private:
  bool StillOurs() const;

  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// The asking side: the text that the process answers. Waits three seconds at most. The process must
// belong to the same user. Errors say what to do.
absl::StatusOr<std::string> AskLive(pid_t pid);

}  // namespace ebt

#endif  // EBBTIDE_SRC_BASE_LIVE_SOCKET_H_
