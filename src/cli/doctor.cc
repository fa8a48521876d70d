// `ebbtide doctor`: what is here, what would be hooked, and what to do about what is missing.
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "src/base/config.h"
#include "src/base/units.h"
#include "src/cli/child.h"
#include "src/cli/coverage.h"
#include "src/cli/gpu_survey.h"
#include "src/cli/measure.h"
#include "src/cli/options.h"
#include "src/cli/python_survey.h"

namespace ebt::cli {
namespace {

// What the look round found. A problem keeps Ebbtide from working; advice does not.
struct Findings {
  std::vector<std::string> problems;
  std::vector<std::string> advice;
};

const char* YesNo(bool value) { return value ? "yes" : "no"; }

void CheckDevice(const DeviceSurvey& device, Findings* findings) {
  fmt::print("device {}    {}, {}\n", device.ordinal, device.name, FormatSize(device.total_bytes));
  fmt::print("  virtual memory management  {}\n", YesNo(device.virtual_memory));
  fmt::print("  stream-ordered pools       {}\n", YesNo(device.memory_pools));
  fmt::print("  managed memory             {}\n", YesNo(device.managed_memory));
  fmt::print("  concurrent managed access  {}\n", YesNo(device.concurrent_managed_access));
  fmt::print("  pageable memory access     {}\n", YesNo(device.pageable_access));
  fmt::print("  host memory by NUMA node   {}", YesNo(device.host_numa_virtual_memory));
  if (device.host_numa_id >= 0) fmt::print(" (node {})", device.host_numa_id);
  fmt::print("\n");
  if (!device.virtual_memory) {
    findings->problems.push_back(fmt::format(
        "device {} has no virtual memory management: `ebbtide run` passes every call through "
        "there; `record` and `plan` work",
        device.ordinal));
  }
  if (!device.memory_pools) {
    findings->advice.push_back(fmt::format(
        "device {} has no stream-ordered pools: set EBBTIDE_TORCH_BACKEND=keep", device.ordinal));
  }
  if (!device.managed_memory || !device.concurrent_managed_access) {
    findings->advice.push_back(fmt::format(
        "device {} cannot keep cold blocks on the host: plan with a budget that holds everything, "
        "or run with --cold off",
        device.ordinal));
  }
}

void CheckGpus(Findings* findings) {
  const GpuSurvey gpus = SurveyGpus();
  if (gpus.driver_path.empty()) {
    fmt::print("driver      none\n");
  } else {
    fmt::print("driver      {}, CUDA {}.{}\n", gpus.driver_path, gpus.driver_version / 1000,
               gpus.driver_version % 1000 / 10);
  }
  for (const DeviceSurvey& device : gpus.devices) CheckDevice(device, findings);
  if (!gpus.coverage.empty()) {
    fmt::print("hooks       of each family: hooked entry points that this driver exports\n");
    for (const FamilyCoverage& family : gpus.coverage) {
      fmt::print("  {:<10} {} of {}\n", family.family, family.in_driver, family.hooked);
    }
  }
  if (!gpus.problem.empty()) {
    findings->problems.push_back(gpus.problem);
    findings->advice.push_back(
        gpus.driver_path.empty()
            ? "install NVIDIA's driver, or in a container mount it (docker run --gpus all); "
              "planning works without"
            : "look at `nvidia-smi` and CUDA_VISIBLE_DEVICES; planning works without a device");
  }
}

void CheckHost(Findings* findings) {
  const uint64_t available = AvailableHostMemory();
  fmt::print("host        {} free here (the node's and the cgroup's limits counted)\n",
             available == 0 ? "unknown" : FormatSize(available));
  const char* budget = getenv("EBBTIDE_HOST_BUDGET");
  if (budget == nullptr) return;
  const absl::StatusOr<uint64_t> bytes = ParseSize(budget);
  if (bytes.ok() && available != 0 && *bytes > available) {
    findings->advice.push_back(fmt::format(
        "EBBTIDE_HOST_BUDGET={} is more than the {} that are free", budget, FormatSize(available)));
  }
}

void CheckInstallation(Findings* findings) {
  const absl::StatusOr<std::string> library = FindLibrary();
  if (!library.ok()) {
    fmt::print("ebbtide     {}, library missing\n", EBBTIDE_VERSION);
    findings->problems.push_back(std::string(library.status().message()));
    return;
  }
  fmt::print("ebbtide     {}, {}\n", EBBTIDE_VERSION, *library);
  const auto core = std::filesystem::path(*library).parent_path() / "libebbtide-core.so";
  if (dlopen(core.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    findings->problems.push_back(fmt::format("the engine cannot be loaded: {}", dlerror()));
  }
}

void CheckFramework(const Package& package, Findings* findings) {
  const char* torch_conf = getenv("PYTORCH_CUDA_ALLOC_CONF");
  if (torch_conf == nullptr) torch_conf = getenv("PYTORCH_ALLOC_CONF");
  const char* jax_allocator = getenv("XLA_PYTHON_CLIENT_ALLOCATOR");
  if (package.name == "torch") {
    const bool hides_tensors =
        torch_conf != nullptr && !absl::StrContains(torch_conf, "cudaMallocAsync");
    fmt::print("  torch {}: {}\n", package.version,
               hides_tensors ? "hooked, segment by segment" : "hooked, tensor by tensor");
    if (hides_tensors) {
      findings->advice.push_back(
          fmt::format("your PyTorch allocator setting ({}) hides single tensors: unset it, or add "
                      "backend:cudaMallocAsync",
                      torch_conf));
    }
    findings->advice.push_back(
        "torch.compile(mode=\"reduce-overhead\") and sharing of CUDA tensors between processes "
        "need PyTorch's native allocator: EBBTIDE_TORCH_BACKEND=native");
  } else if (package.name == "jaxlib") {
    const bool hides_arrays =
        jax_allocator != nullptr && !absl::StrContains(jax_allocator, "cuda_async");
    fmt::print("  jaxlib {}: {}\n", package.version,
               hides_arrays ? "hooked, pool by pool" : "hooked, array by array");
    if (hides_arrays) {
      findings->advice.push_back(fmt::format(
          "XLA_PYTHON_CLIENT_ALLOCATOR={} hides single arrays: unset it", jax_allocator));
    }
  } else if (absl::StartsWith(package.name, "cupy")) {
    fmt::print("  {} {}: hooked, pool by pool\n", package.name, package.version);
    findings->advice.push_back(
        "cupy: cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc) shows every array");
  } else {
    fmt::print("  {} {}\n", package.name, package.version);
  }
}

void CheckFrameworks(Findings* findings) {
  const PythonSurvey python = SurveyPython();
  if (python.executable.empty()) {
    fmt::print("python      no python3 on PATH answered\n");
    return;
  }
  fmt::print("python      {}{}\n", python.executable,
             python.packages.empty() ? ", no GPU framework found" : "");
  for (const Package& package : python.packages) CheckFramework(package, findings);
}

void CheckEnvironment(Findings* findings) {
  std::vector<std::string> complaints;
  InheritedEnvironment(&complaints);
  for (std::string& complaint : complaints) findings->problems.push_back(std::move(complaint));
}

int Doctor() {
  Findings findings;
  CheckInstallation(&findings);
  CheckGpus(&findings);
  CheckHost(&findings);
  CheckFrameworks(&findings);
  CheckEnvironment(&findings);
  for (const std::string& problem : findings.problems) fmt::print("problem:    {}\n", problem);
  for (const std::string& advice : findings.advice) fmt::print("advice:     {}\n", advice);
  if (findings.problems.empty()) fmt::print("Nothing stands in the way.\n");
  return findings.problems.empty() ? 0 : kProblemFound;
}

}  // namespace

void AddDoctor(Invocation& invocation) {
  struct DoctorOptions {
    bool coverage = false;
    bool json = false;
    bool measure = false;
    std::string output;
  };
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor = invocation.app.add_subcommand(
      "doctor", "Show driver, devices, host memory, frameworks and hooks, and what to do");
  SetSynopsis(doctor, "[--measure [-o FILE] | --coverage [--json] -- CMD...]");
  CLI::Option* coverage = doctor->add_flag(
      "--coverage", options->coverage,
      "Run CMD as it is and print, for each of its processes, which of the driver's functions it "
      "called, how it had found them, and which libraries cannot be seen");
  doctor
      ->add_flag("--json", options->json,
                 "Print that as one JSON object; CMD's standard output goes to standard error")
      ->needs(coverage);
  CLI::Option* measure = doctor->add_flag(
      "--measure", options->measure,
      "Measure the first device and its link and write the description that `ebbtide plan "
      "--device` reads; takes at most a quarter of the free memory");
  measure->excludes(coverage);
  doctor->add_option("-o,--output", options->output, "Where to (default: standard output)")
      ->type_name("FILE")
      ->needs(measure);
  doctor->footer(
      "Exit code: 0, or 1 when something keeps Ebbtide from working here; with --coverage CMD's "
      "own.");
  doctor->callback([&invocation, doctor, options] {
    if (options->coverage) {
      RequireCommand(invocation, *doctor);
    } else if (invocation.has_command) {
      throw CLI::ExtrasError({"--"});
    }
    invocation.action = [&invocation, options] {
      if (options->measure) return MeasureAndWrite(options->output);
      return options->coverage ? ReportCoverage(invocation.command, options->json) : Doctor();
    };
  });
}

}  // namespace ebt::cli
