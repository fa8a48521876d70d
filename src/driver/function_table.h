// What is known of each kernel function: its number, its name, and where its parameters end.
#ifndef EBBTIDE_SRC_DRIVER_FUNCTION_TABLE_H_
#define EBBTIDE_SRC_DRIVER_FUNCTION_TABLE_H_

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "src/driver/driver_api.h"

namespace ebt {

using ParamSizes = absl::InlinedVector<uint16_t, 8>;  // of the parameters, in bytes and in order

// Immutable.
struct FunctionLayout {
  uint32_t id = 0;
  ParamSizes sizes;
};

// Thread-safe. No lock is held while the driver is asked.
class FunctionTable {
 public:
  explicit FunctionTable(const DriverApi& driver);

  // The layout of a CUfunction or CUkernel, asked of the driver once. A handle can come back as
  // another function after its module was unloaded, and scanning by the old layout would read
  // past the caller's parameters: after HandlesMayEnd each is asked again, and one whose name or
  // layout differs is a new function. NULL only for a NULL handle. Valid as long as the table.
  const FunctionLayout* Find(void* function);

  // To be called before anything that may end handles: of all tables.
  static void HandlesMayEnd();

  // Appends the names of the functions whose numbers follow `from`, which is advanced.
  void NamesSince(uint32_t& from, std::vector<std::string>& names) const;

 private:
  struct Known {
    const FunctionLayout* layout = nullptr;
    uint64_t epoch = 0;  // when the driver was last asked
  };

  const FunctionLayout* FindShared(void* function, uint64_t epoch);
  bool ParamInfo(void* function, bool is_kernel, size_t index, size_t& size) const;
  std::unique_ptr<FunctionLayout> Ask(void* function) const;
  std::string Name(void* function) const;

  const DriverApi& driver_;
  const uint64_t serial_;  // tells tables apart
  mutable std::shared_mutex mutex_;
  absl::flat_hash_map<void*, Known> by_handle_;
  // Where one takes the place of another, what has been there before is what it was: functions that
  // are loaded in turn for ever are no more than they are.
  absl::flat_hash_map<std::pair<std::string, ParamSizes>, const FunctionLayout*> by_name_;
  std::vector<std::unique_ptr<FunctionLayout>> layouts_;  // by number; never shrinks
  std::vector<std::string> names_;
};

}  // namespace ebt

#endif  // EBBTIDE_SRC_DRIVER_FUNCTION_TABLE_H_
