// Keeps to a plan: every allocation of the process gets its planned home, an unplanned one a
// place in the dynamic part, and what cannot be served goes to the driver as it came.
#ifndef EBBTIDE_SRC_REPLAY_REPLAYER_H_
#define EBBTIDE_SRC_REPLAY_REPLAYER_H_

#include <cuda.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "ebbtide/ebbtide.h"
#include "hooks/core_api.h"
#include "src/base/config.h"
#include "src/base/mutex.h"
#include "src/plan/plan.h"
#include "src/profile/snapshot_files.h"
#include "src/replay/cold_homes.h"
#include "src/replay/matcher.h"
#include "src/replay/points.h"
#include "src/replay/pools.h"
#include "src/replay/run_log.h"
#include "src/replay/space.h"
#include "src/replay/trial_outcome.h"

namespace ebt::replay {

struct ReplayOptions {
  Cold cold = Cold::kAuto;
  // `ebbtide verify`: where the outcome of a trial goes (trial_outcome.h), empty: no trial. In
  // one the blocks of the sites on trial are mapped only while they are named; no other moves.
  std::string trial_path;
  std::vector<uint64_t> trial_sites;
  std::string run_log_path;   // empty: none
  std::string plan_path;      // for the run log
  std::string dump_path;      // EBBTIDE_DUMP: where it goes what filled the memory
  uint64_t budget = 0;        // bytes of device memory the process is told it has; 0: all
  uint64_t host_budget = 0;   // bytes of host memory for cold blocks
  int* (*guard)() = nullptr;  // the calling thread's re-entrancy guard
};

// Thread-safe. Return values of the served functions are those of core_api.h.
class Replayer {
 public:
  // The driver must outlive the replayer. plan: has passed plan::CheckPlan.
  Replayer(const DriverApi& driver, plan::Plan plan, ReplayOptions options);

  bool Alloc(const ebt_alloc& request, CUdeviceptr* ptr, CUresult* result);
  bool Free(CUdeviceptr ptr, CUstream stream, bool ordered, CUresult* result);
  void Native(const ebt_alloc& request, CUdeviceptr ptr);  // the driver served it
  // The driver refused it: a file says what filled the memory (profile::SnapshotFiles), beside the
  // run log, else beside the plan.
  void Refused(const ebt_alloc& request, CUresult result);
  // Before the driver's call. True: Touched is to be called by the same thread right after it.
  bool Launch(const ebt_launch& launch);
  bool Copy(const ebt_copy& copy);
  // One piece of work on one stream: the copies of the indices below `count`.
  bool Copies(size_t count, absl::FunctionRef<ebt_copy(size_t)> copy_at);
  void Touched();
  void GraphLaunch(CUstream stream);  // before the driver's call
  // It goes into something opaque, which people call `what`.
  void AddressTaken(CUdeviceptr ptr, const char* what);
  // A graph's node is made or changed, before the driver's call.
  void NodeMade(const ebt_launch& launch);
  void NodeMade(const ebt_copy& copy);

  bool MemInfo(size_t* free_bytes, size_t* total_bytes, CUresult* result);
  bool AddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr ptr, CUresult* result);
  bool PointerAttribute(CUpointer_attribute attribute, void* value, CUdeviceptr ptr,
                        CUresult* result);
  bool SetPointerAttribute(CUpointer_attribute attribute, const void* value, CUdeviceptr ptr,
                           CUresult* result);
  bool Export(int way, CUdeviceptr ptr, CUresult* result);
  bool PoolGet(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, CUresult* result);
  bool PoolSet(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, CUresult* result);
  void PoolTrim();

  void PoolCreated(CUmemoryPool pool, const CUmemPoolProps& properties);
  void PoolDestroyed(CUmemoryPool pool);
  // The current context was let into the memory of `owner`; a device into that of a pool.
  void PeerEnabled(CUcontext owner);
  void PoolAccess(CUmemoryPool pool, const CUmemAccessDesc& access);
  void StreamDestroyed(CUstream stream);
  void ContextGone(CUcontext context);     // before the driver's call
  void DeviceReset(CUdevice device);       // before the driver's call
  void PrimaryReleasing(CUdevice device);  // before the driver's call, and by the same thread
  void PrimaryReleased(CUdevice device);   // after it
  void CaptureBegun(CUstream stream);
  void CaptureEnded(CUstream stream);  // also where no capture had begun

  ebbtide_statistics Statistics();
  RunSample Sample() ABSL_LOCKS_EXCLUDED(mutex_);
  // The process ends: nothing moves any more, the last work of a trial is looked at, the run log
  // gets its last line.
  void Finish();

 private:
  struct Block {
    memory::Arena* arena;
    uint64_t offset;
    uint64_t bytes;     // as requested
    CUmemoryPool pool;  // whose counters it is in; NULL: linear memory
    bool cold;
    uint64_t site;             // 0: not planned
    uint64_t id = 0;           // CU_POINTER_ATTRIBUTE_BUFFER_ID; 0: nobody has asked for it yet
    bool sync_memops = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
  };
  using Blocks = absl::flat_hash_map<CUdeviceptr, Block>;
  struct Untouched {
    uint64_t bytes = 0;
    uint64_t site = 0;
  };
  // The space of the current context, made on first use; nullptr: not ours to serve. Shared,
  // so that a context that goes away under a call takes nothing from under it.
  std::shared_ptr<Space> CurrentSpace();
  // The space whichever context is current, nullptr if there is none.
  std::shared_ptr<Space> AnySpace();
  // The space if some of its blocks move or are on trial.
  std::shared_ptr<Space> NamingSpace();
  absl::StatusOr<std::unique_ptr<Space>> MakeSpace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddColdParts(Space& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddMovingPart(Space& space, const absl::flat_hash_set<uint64_t>& sites)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The sites whose blocks move, or are on trial.
  std::vector<uint64_t> MovingSites() const;
  // gone: the context has ended already.
  void Forget(bool gone);
  bool IsPrimaryOf(CUdevice device);  // the space's context
  bool Capturing(CUstream stream);
  // The pool that the request takes from; false: a pool that we do not stand in for.
  bool PoolOf(const Space& space, const ebt_alloc& request, CUmemoryPool* pool);
  const plan::Slot* Match(const ebt_alloc& request);
  // left: what the step that ended has not reached.
  const plan::Slot* Follow(uint64_t bytes, uint64_t fingerprint, std::vector<const Point*>* left)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings what the calling thread's work names to where the work will find it.
  template <typename Name>
  bool Touch(std::shared_ptr<Space> space, CUstream stream, Name&& name);

  // Work may use `named` at any time from now on. In the space's context.
  void Keep(Space& space, const std::vector<tier::Extent>& named, const char* what);

  // What is told while the program runs (reports.cc).
  void OpenTrialOutcome();
  void OpenRunLog(const Space& space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteTouchedSites(const std::vector<tier::Extent>& extents);
  void TrialFaulted(const tier::Fault& fault) ABSL_LOCKS_EXCLUDED(mutex_);
  // A step is over, and the first work of the next one has begun.
  void ReportSteps();

  profile::Snapshot TakeSnapshot(Space& space) ABSL_LOCKS_EXCLUDED(mutex_);
  void Describe(profile::Snapshot& snapshot) const;

  void LaunchPoints(CUstream stream);
  void Perform(const std::vector<const Point*>& due, CUstream stream);
  bool PlaceAt(Space& space, const plan::Slot& slot, const ebt_alloc& request, Block* block);
  bool PlaceVariable(Space& space, const plan::Slot& slot, const ebt_alloc& request, Block* block);
  bool PlaceAnywhere(Space& space, const ebt_alloc& request, Block* block);
  void Register(const Space& space, CUdeviceptr address, const Block& block);
  // Takes the block at `ptr` off the books; false: not ours. space: keeps its arena.
  bool Unregister(CUdeviceptr ptr, Block* block, std::shared_ptr<Space>* space);
  bool IsOfOurRanges(CUdeviceptr ptr, CUresult* result);
  // Bytes of live cold blocks that lie on the host; bytes that the program's pools hold with us.
  uint64_t OnHost(const Space& space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Reserved(const Space& space) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a program reads as reserved by `pool`, beside the driver's own.
  uint64_t ReservedFor(CUmemoryPool pool);
  // The block that `ptr` lies in, end() if none of ours.
  Blocks::iterator Holding(CUdeviceptr ptr) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool BlockAttribute(CUpointer_attribute attribute, void* value, CUdeviceptr ptr,
                      Blocks::iterator at, CUresult* result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A copy or memset of a block that is to wait until such are done.
  bool Synchronizes(const ebt_copy& copy);
  void AddPeer(CUdevice owner, CUdevice peer);
  void Disable(const char* why);

  const DriverApi& driver_;
  const plan::Plan plan_;
  const ReplayOptions options_;
  Points points_;

  std::atomic<bool> disabled_;              // nothing is served (any more); by an empty plan never
  std::atomic<bool> context_ended_{false};  // and nothing has been said of it yet
  std::atomic<size_t> captures_{0};         // size of capturing_
  std::atomic<size_t> synchronized_blocks_{0};  // with sync_memops
  std::atomic<uint64_t> launches_{0}, planned_{0}, dynamic_{0}, native_{0};
  std::atomic<bool> in_step_{false};  // before that nothing moves: the state is only being made
  std::atomic<bool> naming_{false};   // some blocks move or are on trial
  std::atomic<uint64_t> steps_{0}, reported_steps_{0};

  Mutex mutex_;
  // Set together with space_ and never changed.
  std::unique_ptr<ColdHomes> homes_;
  std::string gpu_;
  int driver_version_ = 0;
  std::unique_ptr<TrialOutcome> outcome_;
  std::unique_ptr<RunLog> run_log_;
  std::atomic<bool> reporting_{false};  // one of the two is there
  std::shared_ptr<Space> space_ ABSL_GUARDED_BY(mutex_);
  bool space_tried_ ABSL_GUARDED_BY(mutex_) = false;
  bool export_refused_ ABSL_GUARDED_BY(mutex_) = false;  // and that has been said
  Matcher matcher_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<CUstream> capturing_ ABSL_GUARDED_BY(mutex_);
  // Devices that were let into another's memory: owner -> who.
  absl::flat_hash_map<CUdevice, absl::flat_hash_set<CUdevice>> peers_ ABSL_GUARDED_BY(mutex_);
  Blocks blocks_ ABSL_GUARDED_BY(mutex_);
  RunSample last_sample_ ABSL_GUARDED_BY(mutex_);  // of a space that is gone
  // Where addresses inside blocks were found last: some ask of the same ones at every launch.
  std::array<CUdeviceptr, 256> found_ ABSL_GUARDED_BY(mutex_) = {};
  // A trial's: the blocks on trial, by their offsets, until they have been seen touched.
  absl::btree_map<uint64_t, Untouched> untouched_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<uint64_t> touched_sites_ ABSL_GUARDED_BY(mutex_);
  // Bytes of served blocks.
  uint64_t cold_live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t cold_peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t warm_live_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t warm_peak_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  PoolCounters pools_;

  Mutex refusals_mutex_;
  std::unique_ptr<profile::SnapshotFiles> refusals_ ABSL_GUARDED_BY(refusals_mutex_);
};

}  // namespace ebt::replay

#endif  // EBBTIDE_SRC_REPLAY_REPLAYER_H_
