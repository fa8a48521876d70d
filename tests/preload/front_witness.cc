#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <iterator>
#include <string>

#include "tests/preload/front_matrix.h"

namespace ebt::test {
namespace {

// Enough zeros for any function of the driver, those that take a structure by value included.
int CallWithZeros(void* function) {
  using Any = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  return reinterpret_cast<Any>(function)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

}  // namespace

Driver::Driver() : handle_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
  if (handle_ == nullptr) return;
  call_count_ = reinterpret_cast<uint64_t (*)(const char*)>(dlsym(handle_, "simcuda_call_count"));
  set_faults_ = reinterpret_cast<int (*)(const char*)>(dlsym(handle_, "simcuda_set_faults"));
}

void Driver::FailEveryHookedFunction(const std::string& more) const {
  std::string list = more;
  for (const TableRow& row : kTable) {
    if (strcmp(row.family, "resolve") == 0) continue;
    // The driver refuses a list with a name that it does not export.
    const std::string fault = std::string(row.symbol) + ":1+=" + std::to_string(kSeeded);
    if (set_faults_(fault.c_str())) list += (list.empty() ? "" : ",") + fault;
  }
  if (!set_faults_(list.c_str())) fprintf(stderr, "the faults cannot be seeded\n");
}

std::string Driver::Reached(const std::string& base, void* function, const uint64_t* before,
                            uint64_t all_before) const {
  if (call_count_((base + "*").c_str()) != all_before + 1) return "-";
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (base == kTable[i].base && call_count_(kTable[i].symbol) == before[i] + 1)
      return kTable[i].symbol;
  }
  // None of the table's: the driver's own, whose name the loader knows.
  Dl_info info;
  return dladdr(function, &info) && info.dli_sname ? info.dli_sname : "nameless";
}

void Driver::CallAndPrint(const std::string& request, const std::string& base,
                          void* function) const {
  if (function == nullptr) {
    printf("%s - - -\n", request.c_str());
    return;
  }
  uint64_t before[std::size(kTable)] = {};
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (base == kTable[i].base) before[i] = call_count_(kTable[i].symbol);
  }
  const uint64_t all_before = call_count_((base + "*").c_str());
  const int result = CallWithZeros(function);
  printf("%s %s %d %s\n", request.c_str(), Reached(base, function, before, all_before).c_str(),
         result, FileOf(function).c_str());
}

void Driver::PrintTotals() const {
  for (const TableRow& row : kTable) {
    if (const uint64_t calls = call_count_(row.symbol))
      printf("= %s %llu\n", row.symbol, static_cast<unsigned long long>(calls));
  }
}

std::string FileOf(const void* address) {
  Dl_info info;
  if (address == nullptr || !dladdr(address, &info) || !info.dli_fname) return "-";
  const char* slash = strrchr(info.dli_fname, '/');
  return slash ? slash + 1 : info.dli_fname;
}

}  // namespace ebt::test
