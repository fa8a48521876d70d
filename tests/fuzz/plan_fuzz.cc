// A plan file is untrusted: whatever the bytes, reading it ends in a plan or in one error, and
// what was read and passes CheckPlan reads the same again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "src/plan/plan_file.h"
#include "src/plan/validator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = ebt::plan::PlanFromJson(text, "fuzz");
  if (!plan.ok()) {
    if (plan.status().message().empty()) abort();
    return 0;
  }
  if (!ebt::plan::CheckPlan(*plan).ok()) return 0;
  const std::string written = ebt::plan::PlanToJson(*plan);
  const auto again = ebt::plan::PlanFromJson(written, "again");
  if (!again.ok() || ebt::plan::PlanToJson(*again) != written) abort();
  return 0;
}
