// The memory of one planned device: its pools, arenas and what lives in them.
#ifndef EBBTIDE_SRC_REPLAY_SPACE_H_
#define EBBTIDE_SRC_REPLAY_SPACE_H_

#include <cuda.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/memory/arena.h"
#include "src/memory/page_pool.h"
#include "src/replay/named_blocks.h"
#include "src/tier/managed.h"
#include "src/tier/swap.h"
#include "src/tier/trial.h"

namespace ebt::replay {

struct SpaceOptions {
  uint64_t warm_bytes = 0;
  bool uneven = false;       // of the plan: the warm part goes on into the dynamic one
  uint64_t slab_bytes = 0;   // of the plan; 0: it has no slabs
  uint64_t host_budget = 0;  // bytes of host memory for cold blocks
  int* (*guard)() = nullptr;
};

struct ColdOptions {
  uint64_t bytes = 0;
  bool managed = false;     // false: they stay on the device
  bool prefetches = false;  // the plan fetches some
};

// Thread-safe.
class Space {
 public:
  // For the device of the context that is current.
  static absl::StatusOr<std::unique_ptr<Space>> Create(const DriverApi& driver,
                                                       const SpaceOptions& options);

  // Parts for cold blocks, each added once, before anybody uses the space. Swapped blocks: on the
  // swap engine, with the offsets of the slabs' stays in the warm part.
  absl::Status AddSwapped(std::vector<uint64_t> stays);
  // The same blocks on trial (tier/trial.h).
  absl::Status AddTrial(uint64_t bytes, std::function<void(const tier::Fault&)> on_fault);
  // The others. When they cannot be had on the host they stay on the device and one line says so.
  absl::Status AddCold(const ColdOptions& options);

  CUcontext context() const { return context_; }
  bool primary() const { return primary_; }  // it is the device's primary context
  // Whether the address is in one of the parts, whoever has it there.
  bool Holds(CUdeviceptr address) const;
  CUdevice device() const { return pool_->device(); }

  // Planned parts, NULL when empty; cold blocks lie where ColdHomes says.
  memory::Arena* warm() { return warm_.get(); }
  const memory::Arena* swapped() const { return swapped_.get(); }
  memory::Arena* swapped() { return swapped_.get(); }
  memory::Arena* cold() { return cold_.get(); }
  // Behind swapped(): one of the two, or neither.
  tier::SwapEngine* swap() const { return swap_; }
  tier::Trial* trial() const { return trial_; }
  // The live blocks of swapped(); NULL without one.
  NamedBlocks* named() const { return named_.get(); }
  memory::Arena& dynamic() { return *dynamic_; }
  tier::Prefetcher* prefetcher() const { return prefetcher_.get(); }

  memory::StreamLedger& ledger() { return *ledger_; }
  // Everything that we hold of the device now, and at most so far.
  uint64_t device_bytes() const { return pool_->bytes(); }
  uint64_t peak_device_bytes() const { return pool_->peak_bytes(); }
  // Device bytes held that no block lives in.
  uint64_t idle_device_bytes() const;

  // The device's default stream-ordered pool, NULL where it has none.
  CUmemoryPool default_pool() const { return default_pool_; }
  bool cold_on_device() const { return cold_on_device_; }

  // Gives back the device memory that nobody uses; it comes again when it is needed. The device
  // is drained for it.
  void Trim();
  // Waits for everything that is queued in the space's context, whichever is current.
  CUresult Drain();
  // In between, by one thread: no thread of ours is in the driver.
  void HoldThreads() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void ResumeThreads() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // With the threads held. The context has ended, and its streams, events and managed memory with
  // it: none of them is named any more, also not by what destroys the space. Device memory of ours
  // is no context's.
  void ContextIsGone();
  // Lets another device reach what we hold of this one, now and later.
  void AddPeer(CUdevice peer);

 private:
  Space(const DriverApi& driver, CUcontext context) : driver_(driver), context_(context) {}
  absl::Status Build(CUdevice device, const SpaceOptions& options);
  absl::StatusOr<std::unique_ptr<memory::Arena>> OnDevice(uint64_t bytes, uint64_t chunk_bytes);
  // Whether host memory for so many more bytes may be used.
  absl::Status MayUseHost(uint64_t bytes) const;
  absl::Status AddManaged(const ColdOptions& options);

  struct Part {
    memory::Arena* arena;
    memory::MappedRange* range;
  };
  void Trim(const Part& part);

  DriverApi driver_;  // of this space alone: see ContextIsGone
  const CUcontext context_;
  bool primary_ = false;
  SpaceOptions options_;
  uint64_t host_bytes_ = 0;  // that cold parts have so far
  // In this order: what comes later uses what stands before.
  std::unique_ptr<memory::PagePool> pool_;
  std::unique_ptr<memory::StreamLedger> ledger_;
  std::unique_ptr<memory::Arena> warm_, cold_, dynamic_;
  memory::MappedRange* warm_range_ = nullptr;
  std::unique_ptr<memory::Arena> swapped_;
  tier::SwapEngine* swap_ = nullptr;
  tier::Trial* trial_ = nullptr;
  std::unique_ptr<NamedBlocks> named_;
  std::vector<Part> on_device_;  // the arenas that device memory stands behind
  CUmemoryPool default_pool_ = nullptr;
  bool cold_on_device_ = true;
  std::unique_ptr<tier::Prefetcher> prefetcher_;
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_SPACE_H_
