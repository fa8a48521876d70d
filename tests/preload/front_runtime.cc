// Lets the CUDA runtime look the driver up, then calls every function that it was given with
// nothing but zeros, and prints what front_matrix.h says. The driver's own log tells what the
// runtime asked for and where it keeps the answers.
//
//   front_runtime LIBCUDART       SIMCUDA_DEVICES=0, SIMCUDA_LOG
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/preload/front_matrix.h"

namespace {

using ebt::test::Driver;
using ebt::test::FileOf;

struct Request {
  std::string text, base;
  void** answer;  // the runtime's
};

// cuGetProcAddress_v2 BASE ADDRESS VERSION FLAGS STATUS, of which BASE may be empty.
std::vector<Request> Requests(const char* log, const std::string& runtime) {
  std::vector<Request> requests;
  std::ifstream stream(log);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string function, base, address, version, flags;
    words >> function >> base >> address >> version >> flags;
    const bool is_whole = function.rfind("cuGetProcAddress", 0) == 0 && !flags.empty();
    if (!is_whole || address.rfind("0x", 0) != 0) continue;
    const auto answer =
        reinterpret_cast<void**>(static_cast<uintptr_t>(strtoull(address.c_str(), nullptr, 16)));
    // The first question, of the driver's own cuGetProcAddress, is answered on the stack.
    if (FileOf(answer) != runtime) continue;
    requests.push_back({base + "@" + version + "/" + flags, base, answer});
  }
  return requests;
}

// What is not hooked must have no effect either.
std::string FaultsOf(const std::vector<Request>& requests) {
  std::set<std::string> exports;
  for (const Request& request : requests) {
    Dl_info info;
    if (*request.answer && dladdr(*request.answer, &info) && info.dli_sname &&
        std::string(info.dli_sname).rfind("cuGetProcAddress", 0) != 0 &&
        !ebt::test::IsInTable(info.dli_sname))
      exports.insert(info.dli_sname);
  }
  std::string list;
  for (const std::string& name : exports)
    list += (list.empty() ? "" : ",") + name + ":1+=" + std::to_string(ebt::test::kSeeded);
  return list;
}

}  // namespace

int main(int count, char** arguments) {
  const char* log = getenv("SIMCUDA_LOG");
  void* runtime = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!runtime || !log) return 97;
  const auto device_count = reinterpret_cast<int (*)(int*)>(dlsym(runtime, "cudaGetDeviceCount"));
  int devices = 0;
  constexpr int kNoDevice = 100;
  if (!device_count || device_count(&devices) != kNoDevice) return 96;
  const std::vector<Request> requests =
      Requests(log, FileOf(reinterpret_cast<void*>(device_count)));
  const Driver driver;
  if (!driver.is_there()) return 98;
  driver.FailEveryHookedFunction(FaultsOf(requests));
  for (const Request& request : requests)
    driver.CallAndPrint(request.text, request.base, *request.answer);
  driver.PrintTotals();
  return 0;
}
