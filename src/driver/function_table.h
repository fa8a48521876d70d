// What is known of each kernel function: its number, its name, and where its parameters end.
#ifndef EBBTIDE_SRC_DRIVER_FUNCTION_TABLE_H_
#define EBBTIDE_SRC_DRIVER_FUNCTION_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/driver/driver_api.h"

namespace ebt {

// Parameter sizes of one function, in order. Immutable.
struct FunctionLayout {
  uint32_t id = 0;
  bool is_kernel = false;  // the handle is a CUkernel, not a CUfunction
  size_t last_offset = 0;  // of the last parameter, in bytes
  std::vector<size_t> sizes;
};

// Thread-safe. No lock is held while the driver is asked.
class FunctionTable {
 public:
  explicit FunctionTable(const DriverApi& driver);

  // The layout of a CUfunction or CUkernel, asked of the driver once. A handle can come back as
  // another function after its module was unloaded, and scanning by the old layout would read
  // past the caller's parameters; so the last parameter is compared with the driver's word at
  // every launch (one call) and a function that differs is a new one. NULL only for a NULL
  // handle. Valid as long as the table.
  const FunctionLayout* Find(void* function);

  // Appends the names of the functions whose numbers follow `from`, which is advanced.
  void NamesSince(uint32_t& from, std::vector<std::string>& names) const;

 private:
  const FunctionLayout* FindShared(void* function);
  bool ParamInfo(void* function, bool is_kernel, size_t index, size_t& offset, size_t& size) const;
  bool StillHolds(void* function, const FunctionLayout& layout) const;
  std::unique_ptr<FunctionLayout> Ask(void* function) const;
  std::string Name(void* function) const;

  const DriverApi& driver_;
  // Changes when a handle becomes another function; never that of another table.
  std::atomic<uint64_t> generation_;
  mutable std::shared_mutex mutex_;
  absl::flat_hash_map<void*, const FunctionLayout*> by_handle_;
  std::vector<std::unique_ptr<FunctionLayout>> layouts_;  // by number; never shrinks
  std::vector<std::string> names_;
};

}  // namespace ebt

#endif  // EBBTIDE_SRC_DRIVER_FUNCTION_TABLE_H_
