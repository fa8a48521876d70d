// --device, of what predicts times.
#ifndef EBBTIDE_SRC_CLI_DEVICE_OPTION_H_
#define EBBTIDE_SRC_CLI_DEVICE_OPTION_H_

#include <string>

#include "absl/status/statusor.h"
#include "src/cli/command.h"
#include "src/plan/device.h"
#include "src/profile/types.h"

namespace ebt::cli {

void AddDeviceOption(CLI::App* command, std::string* device);

// What `device` names; where it is empty the profile's GPU, or else the H200: then `note` says so.
absl::StatusOr<plan::DeviceModel> ChooseDevice(const std::string& device,
                                               const profile::Profile& profile, std::string* note);

}  // namespace ebt::cli

#endif  // EBBTIDE_SRC_CLI_DEVICE_OPTION_H_
