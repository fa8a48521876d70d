// What libcuda.so.1 exports, read from its own symbol table: no look-up passes through dlsym, which
// a preloaded library may answer.
#ifndef EBBTIDE_TESTS_GPU_DRIVER_EXPORTS_H_
#define EBBTIDE_TESTS_GPU_DRIVER_EXPORTS_H_

#include <map>
#include <string>

namespace ebt::test {

class DriverExports {
 public:
  // handle: dlopen's of libcuda.so.1, which stays open.
  explicit DriverExports(void* handle);

  // The function's address in the driver, NULL if it exports none of that name.
  void* Of(const std::string& symbol) const;
  // Every exported function of the driver's API ("cuMemAlloc_v2"), by name.
  const std::map<std::string, void*>& functions() const { return functions_; }
  // Whether the address lies in the driver's own file.
  bool Holds(const void* address) const;

 private:
  std::map<std::string, void*> functions_;
  void* base_ = nullptr;  // as dladdr tells it
};

struct PointerCheck {
  int by_dlsym = 0, by_v1 = 0, by_v2 = 0;  // answers that were compared
  int exports = 0;                         // answers of the last two that are exported functions
  int other = 0;                           // answers that are not the driver's own
  std::string first_other;                 // how the first of them was asked for
};

// Asks for every export by dlsym, and by both signatures of cuGetProcAddress for every version and
// kind of stream, the way a program does, and compares with what the driver itself exports and
// answers.
PointerCheck ComparePointers(void* handle, const DriverExports& exports);

}  // namespace ebt::test

#endif  // EBBTIDE_TESTS_GPU_DRIVER_EXPORTS_H_
