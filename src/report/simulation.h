// What `ebbtide simulate` has to say: other allocators on one recording, and a plan played on it.
#ifndef EBBTIDE_SRC_REPORT_SIMULATION_H_
#define EBBTIDE_SRC_REPORT_SIMULATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/plan/baseline.h"
#include "src/plan/device.h"
#include "src/plan/play.h"
#include "src/profile/types.h"

namespace ebt::report {

struct Simulation {
  // The plan and what became of it.
  struct Played {
    std::string source;
    uint64_t from_step = 0;  // that figures begin with
    uint64_t planned_peak_bytes = 0;
    double native_step_ms = 0, predicted_step_ms = 0;
    plan::PlayedPlan figures;
    bool fits = true;  // within `capacity_bytes`
  };

  std::string source;  // the recording
  uint64_t events = 0, sites = 0, steps = 0;
  uint64_t native_peak_bytes = 0;  // of the recorded process
  uint64_t max_live_bytes = 0;     // of the framework and libraries together, rounded to 512 bytes
  uint64_t budget_bytes = 0;       // 0: none was given
  uint64_t capacity_bytes = 0;     // what the process may have of the device
  std::string device;              // empty: the recorded one
  std::vector<plan::Baseline> policies;
  std::optional<Played> plan;
};

// The figures of the recording itself; budget: bytes, 0: none.
Simulation DescribeRecording(const profile::Profile& profile, const std::string& source,
                             uint64_t budget);

// It runs on another device, on which as much is in use before it begins.
void SetDevice(const profile::Profile& profile, const plan::DeviceDescription& device,
               Simulation* simulation);

// For people: at most 100 columns wide, no colours, ends with a newline.
std::string SimulationTable(const Simulation& simulation);

// One JSON object. Its keys are those of `ebbtide plan --json` where they mean the same; null where
// nothing was simulated that could tell.
std::string SimulationJson(const Simulation& simulation);

}  // namespace ebt::report

#endif  // EBBTIDE_SRC_REPORT_SIMULATION_H_
