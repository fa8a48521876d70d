// Does the driver of this machine hand out the functions that the table of hooks expects?
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/gpu_device.h"

namespace ebt::test {
namespace {

enum Mode { kLegacy, kPerThread, kAny };

struct Row {
  const char* symbol;
  const char* base;
  int since;
  Mode mode;
};

constexpr Row kRows[] = {
#define EBT_HOOK(symbol, base, since, mode, family, body, service) {#symbol, #base, since, mode},
#include "hooks/cuda_hooks.def"
#undef EBT_HOOK
};

constexpr cuuint64_t kDefaultFlag = 0, kLegacyFlag = 1, kPerThreadFlag = 2;

std::vector<cuuint64_t> FlagsOf(Mode mode) {
  if (mode == kPerThread) return {kPerThreadFlag};
  if (mode == kLegacy) return {kDefaultFlag, kLegacyFlag};
  return {kDefaultFlag, kLegacyFlag, kPerThreadFlag};
}

class GpuResolution : public GpuTest {
 protected:
  using AskV1 = CUresult (*)(const char*, void**, int, cuuint64_t);
  using AskV2 = CUresult (*)(const char*, void**, int, cuuint64_t, void*);

  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ask_v1_ = reinterpret_cast<AskV1>(gpu_.Symbol("cuGetProcAddress"));
    ask_v2_ = reinterpret_cast<AskV2>(gpu_.Symbol("cuGetProcAddress_v2"));
    ASSERT_NE(ask_v2_, nullptr);
    ASSERT_EQ(gpu_.driver.fn_cuDriverGetVersion(&version_), CUDA_SUCCESS);
    for (const Row& row : kRows)
      if (void* function = gpu_.Symbol(row.symbol)) exports_.emplace(function, row.symbol);
  }

  void* AskBySecond(const char* base, int version, cuuint64_t flags) const {
    void* function = nullptr;
    ask_v2_(base, &function, version, flags, nullptr);
    return function;
  }
  void* AskByFirst(const char* base, int version, cuuint64_t flags) const {
    void* function = nullptr;
    ask_v1_(base, &function, version, flags);
    return function;
  }

  // The youngest version that should still be answered with `row`.
  int Until(const Row& row) const {
    int until = version_;
    for (const Row& other : kRows)
      if (strcmp(other.base, row.base) == 0 && other.mode == row.mode && other.since > row.since &&
          gpu_.Symbol(other.symbol) != nullptr)
        until = std::min(until, other.since - 1);
    return until;
  }

  // Whatever the driver answers must be the export of some row, since that is how the front knows
  // which ABI it is. Another row than the expected one is noted: its hook fits all the same.
  void CheckAnswer(const Row& row, int version, cuuint64_t flags, void* answer) {
    if (answer == gpu_.Symbol(row.symbol)) return;
    const std::string question = absl::StrCat(row.base, " for ", version, ", flags ", flags);
    if (answer == nullptr) {
      notes_.push_back(
          absl::StrCat(question, " is not answered, though ", row.symbol, " is there"));
      return;
    }
    const auto other = exports_.find(answer);
    if (other == exports_.end()) {
      ADD_FAILURE() << question << " is answered with a function that is no export in the table: "
                    << "it would pass the hook of " << row.symbol << " by";
      return;
    }
    notes_.push_back(absl::StrCat(question, " gives ", other->second, ", not ", row.symbol));
  }

  AskV1 ask_v1_ = nullptr;
  AskV2 ask_v2_ = nullptr;
  int version_ = 0;
  std::map<void*, const char*> exports_;
  std::vector<std::string> notes_;
};

TEST_F(GpuResolution, EveryAnswerIsAnExportOfTheTable) {
  size_t exported = 0;
  for (const Row& row : kRows) {
    if (gpu_.Symbol(row.symbol) == nullptr) {
      notes_.push_back(absl::StrCat(row.symbol, " is not exported"));
      continue;
    }
    ++exported;
    for (int version : {row.since, Until(row)}) {
      for (cuuint64_t flags : FlagsOf(row.mode)) {
        CheckAnswer(row, version, flags, AskBySecond(row.base, version, flags));
        if (ask_v1_ != nullptr)
          CheckAnswer(row, version, flags, AskByFirst(row.base, version, flags));
      }
    }
  }
  EXPECT_GT(exported, std::size(kRows) / 2);
  std::sort(notes_.begin(), notes_.end());
  notes_.erase(std::unique(notes_.begin(), notes_.end()), notes_.end());
  Say(absl::StrCat("driver ", version_, " exports ", exported, " of ", std::size(kRows),
                   " hooked symbols; ", notes_.size(), " notes"));
  for (const std::string& note : notes_) Say(note);
}

TEST_F(GpuResolution, NewestProgramsGetHookedFunctions) {
  for (const Row& row : kRows) {
    if (gpu_.Symbol(row.symbol) == nullptr) continue;
    for (cuuint64_t flags : FlagsOf(row.mode)) {
      void* answer = AskBySecond(row.base, version_, flags);
      EXPECT_TRUE(answer == nullptr || exports_.count(answer) > 0)
          << row.base << " has an ABI in driver " << version_ << " that the table lacks";
    }
  }
}

TEST_F(GpuResolution, ExportsWithoutASuffixAreTheOldAbiThatNobodyIsGiven) {
  for (const char* base : {"cuMemAlloc", "cuMemFree", "cuMemcpyHtoD", "cuMemcpyDtoH",
                           "cuMemcpyDtoD", "cuMemGetInfo", "cuMemsetD8", "cuMemGetAddressRange"}) {
    void* old = gpu_.Symbol(base);
    void* present = gpu_.Symbol(absl::StrCat(base, "_v2").c_str());
    ASSERT_NE(present, nullptr) << base;
    EXPECT_NE(old, present) << base;
    EXPECT_EQ(exports_.count(old), 0u) << base;
    EXPECT_EQ(AskBySecond(base, version_, kDefaultFlag), present) << base;
  }
}

TEST_F(GpuResolution, AnUnknownNameIsNotAnswered) {
  EXPECT_EQ(AskBySecond("cuNoSuchFunction", version_, kDefaultFlag), nullptr);
}

}  // namespace
}  // namespace ebt::test
