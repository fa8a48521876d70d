// What is loaded where, and what each of it is called independently of where it is loaded.
#ifndef EBBTIDE_SRC_CALLSITE_MODULES_H_
#define EBBTIDE_SRC_CALLSITE_MODULES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace ebt::callsite {

struct Module {
  std::string identity;  // build-id in hex, else the base name of the file
  std::string path;      // of the file; of the program for the main executable
  uint64_t bias = 0;     // load address minus file address
  bool ours = false;     // part of Ebbtide: its frames say nothing about who allocates
};

// Not thread-safe: the caller serializes.
class ModuleTable {
 public:
  // Reads the loader's list again if anything was loaded or unloaded since the last call, and
  // says whether it did. May allocate; throws std::bad_alloc.
  bool Refresh();

  // The module whose code holds the address, or nullptr: code made at run time, or a module
  // loaded since the last Refresh. Valid until the next Refresh.
  const Module* Find(uint64_t pc) const noexcept;

  const std::vector<Module>& modules() const noexcept { return modules_; }
  // How many modules have ever been unloaded, as of the last Refresh.
  uint64_t unloads() const noexcept { return unloads_; }

  // The same count as of now, from the loader. Costs a lock and no allocation.
  static uint64_t UnloadsNow() noexcept;

 private:
  struct CodeRange {
    uint64_t begin, end;  // half-open
    uint32_t module;
  };
  struct Reading;

  std::vector<Module> modules_;
  std::vector<CodeRange> code_;  // sorted by begin
  uint64_t loads_ = 0, unloads_ = 0;
};

// The code of the module that holds an address, as one half-open range; {0, 0} if none does.
struct AddressRange {
  uint64_t begin = 0, end = 0;
  bool Holds(uint64_t address) const noexcept { return address - begin < end - begin; }
};
AddressRange CodeAround(const void* address) noexcept;

}  // namespace ebt::callsite

#endif  // EBBTIDE_SRC_CALLSITE_MODULES_H_
