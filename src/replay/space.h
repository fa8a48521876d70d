// The memory of one planned device: its pools, arenas and what lives in them.
#ifndef EBBTIDE_SRC_REPLAY_SPACE_H_
#define EBBTIDE_SRC_REPLAY_SPACE_H_

#include <cuda.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/memory/arena.h"
#include "src/memory/page_pool.h"
#include "src/tier/managed.h"

namespace ebt::replay {

struct SpaceOptions {
  uint64_t warm_bytes = 0;
  uint64_t cold_bytes = 0;
  bool cold_managed = false;  // false: cold blocks stay on the device
  bool prefetches = false;    // the plan fetches some
  uint64_t host_budget = 0;   // bytes of host memory for cold blocks
  int* (*guard)() = nullptr;
};

// Thread-safe.
class Space {
 public:
  // For the device of the context that is current. When the cold part cannot be had on the host
  // it stays on the device and one line says so.
  static absl::StatusOr<std::unique_ptr<Space>> Create(const DriverApi& driver,
                                                       const SpaceOptions& options);

  CUcontext context() const { return context_; }
  CUdevice device() const { return pool_->device(); }

  // Planned parts; the layout's offset minus the part's own start. NULL when the part is empty.
  memory::Arena* warm() { return warm_.get(); }
  memory::Arena* cold() { return cold_.get(); }
  memory::Arena& dynamic() { return *dynamic_; }
  tier::Prefetcher* prefetcher() { return prefetcher_.get(); }

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
  // Lets another device reach what we hold of this one, now and later.
  void AddPeer(CUdevice peer);

 private:
  Space(const DriverApi& driver, CUcontext context) : driver_(driver), context_(context) {}
  absl::Status Build(CUdevice device, const SpaceOptions& options);
  absl::Status BuildCold(const SpaceOptions& options);
  absl::StatusOr<std::unique_ptr<memory::Arena>> OnDevice(uint64_t bytes);

  struct Part {
    memory::Arena* arena;
    memory::MappedRange* range;
  };
  void Trim(const Part& part);

  const DriverApi& driver_;
  const CUcontext context_;
  // In this order: what comes later uses what stands before.
  std::unique_ptr<memory::PagePool> pool_;
  std::unique_ptr<memory::StreamLedger> ledger_;
  std::unique_ptr<memory::Arena> warm_, cold_, dynamic_;
  std::vector<Part> on_device_;  // the arenas that device memory stands behind
  CUmemoryPool default_pool_ = nullptr;
  bool cold_on_device_ = true;
  std::unique_ptr<tier::Prefetcher> prefetcher_;
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_SPACE_H_
