// ebbtide-demo-trainer: trains for some steps and says what came out, how long a step took and
// how much device memory that needed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "driver.h"
#include "nvml.h"
#include "trainer.h"

namespace {

struct Setting {
  demo::Options trainer;
  demo::Via via = demo::Via::kProcAddress;
  bool json = false;
  bool nvml = false;
};

struct Report {
  std::string device;
  bool simulated = false;
  demo::Outcome outcome;
  std::optional<uint64_t> peak_bytes;
};

std::string Hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(value));
  return text;
}

float Median(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

uint64_t ChecksumOf(const std::vector<uint64_t>& values) {
  uint64_t total = 0;
  for (uint64_t value : values) total = total * 0x9E3779B97F4A7C15u + value;
  return total;
}

// The default pool keeps its memory between steps, as frameworks ask it to.
void KeepPoolMemory(const demo::Driver& driver, CUdevice device) {
  CUmemoryPool pool = nullptr;
  cuuint64_t threshold = UINT64_MAX;
  driver.Check(driver.fn_cuDeviceGetDefaultMemPool(&pool, device), "cuDeviceGetDefaultMemPool");
  driver.Check(driver.fn_cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
               "cuMemPoolSetAttribute");
}

Report Train(const Setting& setting) {
  std::optional<demo::DeviceMemory> memory;
  uint64_t used_before = 0, used_most = 0;
  if (setting.nvml) {
    memory.emplace(0);
    used_before = memory->Used();
  }
  demo::Driver driver = demo::LoadDriver(setting.via);
  driver.Check(driver.fn_cuInit(0), "cuInit");
  CUdevice device = 0;
  CUcontext context = nullptr;
  char name[128] = "";
  driver.Check(driver.fn_cuDeviceGet(&device, 0), "cuDeviceGet");
  driver.Check(driver.fn_cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  driver.Check(driver.fn_cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  driver.Check(driver.fn_cuCtxSetCurrent(context), "cuCtxSetCurrent");
  KeepPoolMemory(driver, device);

  Report report;
  report.device = name;
  report.simulated = driver.peak_bytes != nullptr;
  demo::Trainer trainer(&driver, setting.trainer);
  report.outcome = trainer.Run([&] {
    if (memory) used_most = std::max(used_most, memory->Used());
  });
  if (report.simulated) {
    report.peak_bytes = driver.peak_bytes(0);
  } else if (memory) {
    report.peak_bytes = used_most > used_before ? used_most - used_before : 0;
  }
  return report;
}

void PrintJson(const Report& report) {
  nlohmann::ordered_json out;
  out["device"] = report.device;
  out["simulated"] = report.simulated;
  out["steps"] = report.outcome.losses.size();
  for (uint64_t loss : report.outcome.losses) out["losses"].push_back(Hex(loss));
  out["losses_checksum"] = Hex(ChecksumOf(report.outcome.losses));
  out["parameters_checksum"] = Hex(report.outcome.parameters_checksum);
  out["median_step_ms"] = Median(report.outcome.step_ms);
  out["step_ms"] = report.outcome.step_ms;
  out["peak_bytes"] = nullptr;
  if (report.peak_bytes) out["peak_bytes"] = *report.peak_bytes;
  printf("%s\n", out.dump(2).c_str());
}

void PrintLines(const Report& report) {
  const char* clock = report.simulated ? " (virtual)" : "";
  printf("device               %s\n", report.device.c_str());
  printf("steps                %zu\n", report.outcome.losses.size());
  printf("losses checksum      %s\n", Hex(ChecksumOf(report.outcome.losses)).c_str());
  printf("parameters checksum  %s\n", Hex(report.outcome.parameters_checksum).c_str());
  printf("median step          %.3f ms%s\n", Median(report.outcome.step_ms), clock);
  if (report.peak_bytes) {
    printf("peak device memory   %.1f MiB%s\n", static_cast<double>(*report.peak_bytes) / (1 << 20),
           report.simulated ? " (simulated)" : "");
  } else {
    printf("peak device memory   not measured; --nvml samples it\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  Setting setting;
  CLI::App app("A small training loop on the CUDA driver API.", "ebbtide-demo-trainer");
  app.add_option("--layers", setting.trainer.layers, "layers, two weights each")
      ->capture_default_str();
  app.add_option("--hidden", setting.trainer.hidden, "elements of a weight")->capture_default_str();
  app.add_option("--batch", setting.trainer.batch, "activations are batch x hidden elements")
      ->capture_default_str();
  app.add_option("--steps", setting.trainer.steps, "steps to train")->capture_default_str();
  app.add_option("--item", setting.trainer.item, "1: the host waits for the loss in every step")
      ->capture_default_str();
  app.add_option("--via", setting.via, "how driver functions are found")
      ->transform(CLI::CheckedTransformer(std::map<std::string, demo::Via>{
          {"proc-address", demo::Via::kProcAddress}, {"dlsym", demo::Via::kDlsym}}));
  app.add_option("--handles", setting.trainer.handles, "what launches name")
      ->transform(CLI::CheckedTransformer(std::map<std::string, demo::Handles>{
          {"module", demo::Handles::kModule}, {"library", demo::Handles::kLibrary}}));
  app.add_flag("--json", setting.json, "one JSON object instead of lines");
  app.add_flag("--nvml", setting.nvml, "sample device memory through NVML (real GPUs)");
  CLI11_PARSE(app, argc, argv);
  try {
    const Report report = Train(setting);
    setting.json ? PrintJson(report) : PrintLines(report);
  } catch (const std::exception& error) {
    fprintf(stderr, "ebbtide-demo-trainer: %s\n", error.what());
    return 1;
  }
  return 0;
}
