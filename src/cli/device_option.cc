#include "src/cli/device_option.h"

#include "src/profile/metadata.h"

namespace ebt::cli {

void AddDeviceOption(CLI::App* command, std::string* device) {
  command
      ->add_option("--device", *device,
                   "Whose speeds times are predicted with: a name (h200) or a file that `ebbtide "
                   "doctor --measure` wrote (default: the recorded GPU's)")
      ->type_name("NAME|FILE");
}

absl::StatusOr<plan::DeviceModel> ChooseDevice(const std::string& device,
                                               const profile::Profile& profile, std::string* note) {
  if (!device.empty()) {
    const auto found = plan::FindDevice(device);
    if (!found.ok()) return found.status();
    return found->speeds;
  }
  return plan::DeviceOfGpu(profile::Text(profile, "gpu"), note).speeds;
}

}  // namespace ebt::cli
