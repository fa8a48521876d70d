// The table as data, and the simulated driver's own witness in the process that calls it.
#ifndef EBBTIDE_TESTS_PRELOAD_FRONT_MATRIX_H_
#define EBBTIDE_TESTS_PRELOAD_FRONT_MATRIX_H_

#include <stdint.h>

#include <set>
#include <string>

namespace ebt::test {

struct TableRow {
  const char* symbol;
  const char* base;
  int since;
  const char* family;
};
inline constexpr TableRow kTable[] = {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) {#symbol, #base, since, #family},
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};

// The ends of what is asked for, and each version at which a row begins, and the one before.
inline std::set<int> VersionsOfTheTable() {
  std::set<int> versions = {11000, 13000};
  for (const TableRow& row : kTable) {
    if (row.since < 11000) continue;
    versions.insert(row.since);
    versions.insert(row.since - 1);
  }
  return versions;
}

inline bool IsInTable(const std::string& symbol) {
  for (const TableRow& row : kTable)
    if (symbol == row.symbol) return true;
  return false;
}

// What seeded calls return: a code that no hook of ours would think of.
inline constexpr int kSeeded = 801;

class Driver {
 public:
  Driver();
  bool is_there() const { return call_count_ != nullptr; }
  void* handle() const { return handle_; }

  // All but those of family resolve, and `more`.
  void FailEveryHookedFunction(const std::string& more = "") const;

  // Calls `function`, if there is one, and prints "REQUEST EXPORT RESULT FILE". EXPORT is the one
  // of the functions called `base` that the call reached, "-" if none was; FILE the library that
  // `function` is in.
  void CallAndPrint(const std::string& request, const std::string& base, void* function) const;

  // "= EXPORT CALLS" for each export of the table that has been called at all.
  void PrintTotals() const;

 private:
  std::string Reached(const std::string& base, void* function, const uint64_t* before,
                      uint64_t all_before) const;

  void* handle_;
  uint64_t (*call_count_)(const char* symbol) = nullptr;
  int (*set_faults_)(const char* list) = nullptr;
};

// Name of the file that an address is in, "-" where there is none.
std::string FileOf(const void* address);

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_PRELOAD_FRONT_MATRIX_H_
