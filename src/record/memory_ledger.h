// What is live of each site, and the last steps' peaks: kept along the events of a recording, so
// that it can be told at any moment what fills the memory.
#ifndef EBBTIDE_SRC_RECORD_MEMORY_LEDGER_H_
#define EBBTIDE_SRC_RECORD_MEMORY_LEDGER_H_

#include <cstdint>
#include <deque>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "src/profile/snapshot.h"
#include "src/profile/writer.h"
#include "src/record/address_ranges.h"
#include "src/record/step_clock.h"

namespace ebt::record {

// Takes a look-up an event and touched block, and at the end of a step one for each site that was
// live in it. Holds some 100 bytes a live block. Not thread-safe.
class MemoryLedger {
 public:
  // Events in order.
  void Add(const profile::EventRecord& event);
  // From here on launches come without saying what they launch and touch, `bytes` of them an event.
  void LaunchesBecomeBare() { bare_ = true; }

  // Sets what is known here of `device`: what is live, the steps, fragmentation. Reserved bytes are
  // set to the live ones, metadata and the driver's figures are left alone.
  void Fill(uint16_t device, profile::Snapshot& out) const;
  // Live bytes of `device` that lie in stream-ordered pools.
  uint64_t PoolBytes(uint16_t device) const;
  // The device with most live bytes.
  uint16_t FullestDevice() const;

 private:
  struct Block {
    uint64_t site = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;  // that it takes
    uint64_t born_step = 0;
    uint64_t last_touch = 0;  // launches of the process before it, its birth included
    uint16_t device = 0;
    profile::AllocKind kind = profile::AllocKind::kLinear;
    bool kept = false;
  };
  // What a site has now; and, where it has changed since the peak that is called `epoch`, what it
  // had then. So a peak costs nothing until it has passed.
  struct SiteUse {
    uint64_t bytes = 0, blocks = 0;
    uint64_t peak_bytes = 0, peak_blocks = 0;
    uint64_t epoch = 0;
  };
  struct Device {
    absl::flat_hash_map<uint64_t, SiteUse> sites;
    uint64_t bytes = 0, blocks = 0, pool_bytes = 0, managed_bytes = 0;
    uint64_t peak_bytes = 0, peak_blocks = 0;  // of the step
    uint64_t epoch = 1;                        // of that peak
    AddressRanges pool_ranges;
    std::deque<profile::SnapshotStep> steps;
  };

  void Allocated(const profile::EventRecord& event);
  void Freed(uint32_t block);
  void Touched(const profile::EventRecord& event);
  bool Launched(const profile::EventRecord& event);  // true: a step has ended before it
  uint64_t LaunchesOf(const profile::EventRecord& event) const;
  void EndStep(profile::StepsBy by, uint64_t launches);
  uint64_t AllBytes() const;
  profile::SnapshotStep StepOf(const Device& device, profile::StepsBy by, uint64_t launches) const;
  bool Persistent(const Block& block) const;
  bool Idle(const Block& block) const;
  static SiteUse& Changing(Device& device, uint64_t site);

  StepClock clock_;
  uint64_t step_ = 0;
  uint64_t first_known_step_ = 0;  // where clock_ tells steps
  uint64_t launches_ = 0;
  uint64_t last_step_launches_ = 0;  // of the last known step; 0: there was none
  bool bare_ = false;
  absl::flat_hash_map<uint32_t, Block> blocks_;
  std::map<uint16_t, Device> devices_;
};

}  // namespace ebt::record

#endif  // EBBTIDE_SRC_RECORD_MEMORY_LEDGER_H_
