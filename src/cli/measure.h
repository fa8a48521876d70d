// What the GPU and its link can do, measured on the machine at hand, for `ebbtide doctor`.
#ifndef EBBTIDE_SRC_CLI_MEASURE_H_
#define EBBTIDE_SRC_CLI_MEASURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/driver/driver_api.h"
#include "src/plan/device.h"

namespace ebt::cli {

// Measures device `ordinal`, a second or two long, in its primary context. Takes at most a quarter
// of the memory that is free there, and that much of the host's. The error says what could not be
// measured and why.
absl::StatusOr<plan::DeviceDescription> MeasureDevice(const DriverApi& driver, int ordinal);

// Finds the driver, measures its first device and writes the description to `output` (empty:
// standard output). An exit code.
int MeasureAndWrite(const std::string& output);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_MEASURE_H_
