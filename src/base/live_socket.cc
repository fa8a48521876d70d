#include "src/base/live_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>

namespace ebt {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kBacklog = 4;
constexpr int kMostAtOnce = 4;  // of those who ask: the caller has other work
constexpr timeval kSlowReader{.tv_sec = 0, .tv_usec = 200000};
constexpr auto kPatience = milliseconds(3000);      // of who asks
constexpr auto kSlowestAnswer = milliseconds(200);  // of who answers
constexpr size_t kMostText = size_t{16} << 20;

// An abstract name: nothing lies in the file system, and nothing stays behind.
socklen_t NameOf(pid_t pid, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("ebbtide-{}", pid);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

bool PeerIs(int fd, uid_t user, bool or_root) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == user || (or_root && peer.uid == 0));
}

void SendAll(int fd, const std::string& text) {
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kSlowReader, sizeof(kSlowReader));
  const auto start = steady_clock::now();
  size_t done = 0;
  while (done < text.size() && steady_clock::now() - start < kSlowestAnswer) {
    const ssize_t sent = send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    done += static_cast<size_t>(sent);
  }
}

struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;
};

// Everything until the other side closes.
absl::StatusOr<std::string> ReceiveAll(int fd, pid_t pid) {
  const auto end = steady_clock::now() + kPatience;
  std::string text;
  char piece[1 << 14];
  while (text.size() < kMostText) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now()).count();
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    const int polled = left <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left));
    if (polled < 0 && errno == EINTR) continue;
    if (polled <= 0) {
      return absl::DeadlineExceededError(fmt::format(
          "process {} does not answer: it is stopped, or its recorder is busy; try again", pid));
    }
    const ssize_t got = recv(fd, piece, sizeof(piece), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
  }
  if (text.empty())
    return absl::UnavailableError(fmt::format("process {} closed without an answer", pid));
  return text;
}

absl::Status NobodyAnswers(pid_t pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH)
    return absl::NotFoundError(fmt::format("there is no process {}", pid));
  return absl::NotFoundError(fmt::format(
      "process {} does not answer: it is not recorded (`ebbtide record`), or has allocated nothing "
      "on a GPU yet",
      pid));
}

}  // namespace

LiveSocket::LiveSocket() {
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t size = NameOf(getpid(), address);
  struct stat status {};
  if (fd_ >= 0 && bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      listen(fd_, kBacklog) == 0 && fstat(fd_, &status) == 0) {
    device_ = status.st_dev;
    inode_ = status.st_ino;
    return;
  }
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

LiveSocket::~LiveSocket() {
  if (StillOurs()) close(fd_);
}

// Programs close descriptors that they have not opened, and open others with those numbers.
bool LiveSocket::StillOurs() const {
  struct stat status {};
  return fd_ >= 0 && fstat(fd_, &status) == 0 && status.st_dev == device_ &&
         status.st_ino == inode_;
}

void LiveSocket::Serve(const std::function<std::string()>& answer) {
  if (!StillOurs()) return;
  for (int i = 0; i < kMostAtOnce; ++i) {
    const Descriptor asking(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
    if (asking.fd < 0) return;
    if (PeerIs(asking.fd, geteuid(), true)) SendAll(asking.fd, answer());
    // A child that is forked meanwhile holds the descriptor too.
    shutdown(asking.fd, SHUT_WR);
  }
}

void LiveSocket::Close() noexcept {
  if (StillOurs()) close(fd_);
  fd_ = -1;
}

absl::StatusOr<std::string> AskLive(pid_t pid) {
  const Descriptor asking(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (asking.fd < 0)
    return absl::UnavailableError(fmt::format("no socket can be opened: {}", strerror(errno)));
  sockaddr_un address;
  const socklen_t size = NameOf(pid, address);
  setsockopt(asking.fd, SOL_SOCKET, SO_SNDTIMEO, &kSlowReader, sizeof(kSlowReader));
  if (connect(asking.fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno != EAGAIN) return NobodyAnswers(pid);
    return absl::UnavailableError(
        fmt::format("process {} is being asked by others; try again", pid));
  }
  // A name is the network namespace's: another container's process of this number may have it.
  ucred peer{};
  socklen_t peer_size = sizeof(peer);
  if (getsockopt(asking.fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0 || peer.pid != pid)
    return NobodyAnswers(pid);
  // Anybody may bind a name; what another user says of the process is not believed.
  if (!PeerIs(asking.fd, geteuid(), false) && geteuid() != 0) {
    return absl::PermissionDeniedError(
        fmt::format("process {} belongs to another user: ask as that one, or as root", pid));
  }
  return ReceiveAll(asking.fd, pid);
}

}  // namespace ebt
