// What a trial run tells `ebbtide verify`: JSON lines in a file that the command watches.
//
//   {"pid":4711,"gpu":"NVIDIA H200","driver":13000}        first
//   {"pid":4711,"touched":["0x1a2b"]}                      sites that were named for the first time
//   {"pid":4711,"steps":3}                                 steps gone through so far
//   {"pid":4711,"fault":"access","launch":"ebt_chase","error":"CUDA_ERROR_ILLEGAL_ADDRESS"}
//   {"pid":4711,"fault":"captured","launch":"matmul","sites":["0x1a2b"]}
#ifndef EBBTIDE_SRC_REPLAY_TRIAL_OUTCOME_H_
#define EBBTIDE_SRC_REPLAY_TRIAL_OUTCOME_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ebt::replay {

// Thread-safe: each line is one write(2) at the file's end. Never fails: who cannot be told
// anything sees no steps. Silent in a child after a fork.
class TrialOutcome {
 public:
  // driver_version: as cuDriverGetVersion gives it.
  TrialOutcome(const std::string& path, std::string_view gpu, int driver_version);
  ~TrialOutcome();
  TrialOutcome(const TrialOutcome&) = delete;
  TrialOutcome& operator=(const TrialOutcome&) = delete;

  // Call each once a site is first named by work that has been queued, before the Steps of the
  // step that this happened in.
  void Touched(const std::vector<uint64_t>& sites);
  // `steps` steady steps lie behind. Call it once their work has been waited for, that is behind
  // the Trial::Begin of the first launch of the next step.
  void Steps(uint64_t steps);
  // kind, work, error: see tier::Fault; error may be empty. sites: those that are to blame, where
  // that is known.
  void Fault(std::string_view kind, std::string_view work, std::string_view error,
             const std::vector<uint64_t>& sites);

 private:
  void Write(std::string_view body) noexcept;

  int fd_ = -1;
  const pid_t pid_;
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_TRIAL_OUTCOME_H_
