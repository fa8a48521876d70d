#include "src/plan/device.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "fmt/format.h"
#include "src/plan/built_in_devices.h"

namespace ebt::plan {
namespace {

using nlohmann::json;

constexpr int kDeviceSchema = 1;
constexpr size_t kMostFileBytes = 64 * 1024;
constexpr double kGiga = 1e9;
// A figure beyond this is no measurement.
constexpr double kSaneGbps = 1e6;
constexpr double kSaneMicroseconds = 1e9;
constexpr uint64_t kSaneBytes = uint64_t{1} << 50;
constexpr size_t kLongestText = 4096;
constexpr std::string_view kDefaultDevice = "h200";

// Members of one object; the first problem of the whole file sticks.
class Members {
 public:
  Members(const json& object, std::string path, std::string& error)
      : object_(object), path_(std::move(path)), error_(error) {
    if (!object.is_object()) Fail("", "is not an object");
  }

  const json* Find(const char* key) {
    if (!error_.empty()) return nullptr;
    known_.push_back(key);
    auto found = object_.find(key);
    if (found == object_.end()) return Fail(key, "is missing"), nullptr;
    return &*found;
  }

  void Positive(const char* key, double scale, double most, double& out) {
    const json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_number()) return Fail(key, "is not a number");
    const double number = value->get<double>();
    if (!std::isfinite(number) || number <= 0 || number > most) {
      return Fail(key, fmt::format("is not above 0 and at most {:g}", most));
    }
    out = number * scale;
  }

  void Bytes(const char* key, uint64_t& out) {
    const json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_number_unsigned()) return Fail(key, "is not a number of bytes");
    out = value->get<uint64_t>();
    if (out == 0 || out > kSaneBytes) Fail(key, "is no size that a device has");
  }

  void Text(const char* key, std::string& out) {
    const json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(key, "is not text");
    out = value->get<std::string>();
    if (out.size() > kLongestText) Fail(key, "is too long");
  }

  void Flag(const char* key, bool& out) {
    const json* value = Find(key);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(key, "is not true or false");
    out = value->get<bool>();
  }

  void NoOthers() {
    if (!error_.empty()) return;
    for (const auto& [key, value] : object_.items()) {
      const bool known = std::find(known_.begin(), known_.end(), key) != known_.end();
      if (!known) return Fail(key.substr(0, 40).c_str(), "is not a key that is known here");
    }
  }

  void Fail(const char* key, std::string_view what) {
    if (!error_.empty()) return;
    std::string name = path_ + (path_.empty() || *key == '\0' ? "" : ".") + key;
    error_ = fmt::format("{} {}", name.empty() ? "the file" : name, what);
  }

  std::string PathOf(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  const json& object_;
  std::string path_;
  std::string& error_;
  std::vector<std::string> known_;
};

using Figures = std::initializer_list<std::pair<const char*, double*>>;

void ReadFigures(Members& members, const char* key, Figures figures, double scale, double most,
                 std::string& error) {
  const json* object = members.Find(key);
  if (object == nullptr) return;
  Members inner(*object, members.PathOf(key), error);
  for (const auto& [name, out] : figures) inner.Positive(name, scale, most, *out);
  inner.NoOthers();
}

void ReadCopies(Members& members, DeviceModel& speeds, std::string& error) {
  const json* list = members.Find("copies");
  if (list == nullptr) return;
  if (!list->is_array()) return members.Fail("copies", "is not a list");
  if (list->size() > speeds.copies.size()) {
    return members.Fail("copies", fmt::format("has more than {} sizes", speeds.copies.size()));
  }
  speeds.copies = {};
  for (size_t i = 0; i < list->size() && error.empty(); ++i) {
    Members copy((*list)[i], fmt::format("copies[{}]", i), error);
    copy.Bytes("bytes", speeds.copies[i].bytes);
    copy.Positive("gbps", kGiga, kSaneGbps, speeds.copies[i].rate);
    copy.NoOthers();
    if (i > 0 && speeds.copies[i].bytes <= speeds.copies[i - 1].bytes) {
      copy.Fail("bytes", "does not ascend");
    }
  }
}

void ReadAll(const json& root, DeviceDescription& device, std::string& error) {
  Members members(root, "", error);
  const json* schema = members.Find("schema");
  if (schema != nullptr && *schema != kDeviceSchema) {
    return members.Fail("schema", fmt::format("is not {}", kDeviceSchema));
  }
  members.Text("name", device.name);
  members.Text("driver", device.driver);
  members.Text("measured", device.measured);
  members.Text("conditions", device.conditions);
  members.Flag("simulated", device.simulated);
  members.Bytes("device_bytes", device.device_bytes);
  DeviceModel& s = device.speeds;
  members.Positive("hbm_gbps", kGiga, kSaneGbps, s.hbm);
  members.Positive("in_place_gbps", kGiga, kSaneGbps, s.in_place);
  ReadFigures(members, "link_gbps",
              {{"in", &s.link_in_alone},
               {"out", &s.link_out_alone},
               {"both_in", &s.link_in},
               {"both_out", &s.link_out}},
              kGiga, kSaneGbps, error);
  ReadFigures(members, "managed_gbps",
              {{"in", &s.managed_in},
               {"out", &s.managed_out},
               {"both_in", &s.managed_in_both},
               {"both_out", &s.managed_out_both}},
              kGiga, kSaneGbps, error);
  ReadFigures(members, "vmm_us",
              {{"create", &s.vmm.create},
               {"map", &s.vmm.map},
               {"set_access", &s.vmm.set_access},
               {"unmap", &s.vmm.unmap},
               {"release", &s.vmm.release}},
              1, kSaneMicroseconds, error);
  ReadCopies(members, s, error);
  members.NoOthers();
}

absl::StatusOr<DeviceDescription> ReadDeviceFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        fmt::format("--device {}: no such file can be read, and no device built in has that name "
                    "({})",
                    path, absl::StrJoin(BuiltInDevices(), ", ")));
  }
  std::string text(kMostFileBytes + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(file.gcount()));
  if (text.size() > kMostFileBytes) {
    return absl::InvalidArgumentError(fmt::format("{}: is too long for a device", path));
  }
  return DeviceFromJson(text, path);
}

DeviceDescription BuiltIn(std::string_view text, std::string_view name) {
  auto device = DeviceFromJson(text, name);  // a test reads each
  return device.ok() ? *std::move(device) : DeviceDescription{};
}

}  // namespace

double DeviceModel::CopyShare(uint64_t bytes) const {
  double best = 0;
  for (const CopySpeed& copy : copies) best = std::max(best, copy.rate);
  if (best <= 0 || bytes == 0) return 1;
  const CopySpeed* below = nullptr;
  for (const CopySpeed& copy : copies) {
    if (copy.bytes == 0) break;
    const double seconds = double(copy.bytes) / copy.rate;
    if (copy.bytes >= bytes) {
      if (below == nullptr) return double(bytes) / seconds / best;  // as long as the smallest takes
      const double before = double(below->bytes) / below->rate;
      const double part = double(bytes - below->bytes) / double(copy.bytes - below->bytes);
      return double(bytes) / (before + part * (seconds - before)) / best;
    }
    below = &copy;
  }
  return below->rate / best;
}

absl::StatusOr<DeviceDescription> DeviceFromJson(std::string_view text, std::string_view source) {
  const json root = json::parse(text, nullptr, false);
  if (root.is_discarded()) {
    return absl::InvalidArgumentError(fmt::format("{}: is no JSON", source));
  }
  DeviceDescription device;
  std::string error;
  ReadAll(root, device, error);
  if (!error.empty()) return absl::InvalidArgumentError(fmt::format("{}: {}", source, error));
  return device;
}

std::string DeviceJson(const DeviceDescription& device) {
  const DeviceModel& s = device.speeds;
  nlohmann::ordered_json out = {{"schema", kDeviceSchema},
                                {"name", device.name},
                                {"driver", device.driver},
                                {"measured", device.measured},
                                {"conditions", device.conditions},
                                {"simulated", device.simulated},
                                {"device_bytes", device.device_bytes},
                                {"hbm_gbps", s.hbm / kGiga},
                                {"link_gbps",
                                 {{"in", s.link_in_alone / kGiga},
                                  {"out", s.link_out_alone / kGiga},
                                  {"both_in", s.link_in / kGiga},
                                  {"both_out", s.link_out / kGiga}}},
                                {"in_place_gbps", s.in_place / kGiga},
                                {"managed_gbps",
                                 {{"in", s.managed_in / kGiga},
                                  {"out", s.managed_out / kGiga},
                                  {"both_in", s.managed_in_both / kGiga},
                                  {"both_out", s.managed_out_both / kGiga}}},
                                {"vmm_us",
                                 {{"create", s.vmm.create},
                                  {"map", s.vmm.map},
                                  {"set_access", s.vmm.set_access},
                                  {"unmap", s.vmm.unmap},
                                  {"release", s.vmm.release}}},
                                {"copies", nlohmann::ordered_json::array()}};
  for (const CopySpeed& copy : s.copies) {
    if (copy.bytes == 0) break;
    out["copies"].push_back({{"bytes", copy.bytes}, {"gbps", copy.rate / kGiga}});
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<std::string> BuiltInDevices() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kBuiltInDevices) names.emplace_back(name);
  return names;
}

absl::StatusOr<DeviceDescription> FindDevice(const std::string& name_or_file) {
  for (const auto& [name, text] : kBuiltInDevices) {
    DeviceDescription device = BuiltIn(text, name);
    if (absl::EqualsIgnoreCase(std::string(name), name_or_file) ||
        absl::EqualsIgnoreCase(device.name, name_or_file)) {
      return device;
    }
  }
  return ReadDeviceFile(name_or_file);
}

DeviceDescription DeviceOfGpu(const std::string& gpu, std::string* note) {
  note->clear();
  DeviceDescription otherwise;
  for (const auto& [name, text] : kBuiltInDevices) {
    DeviceDescription device = BuiltIn(text, name);
    // The simulated driver has the figures of the GPU that it is named after.
    if (absl::EqualsIgnoreCase(device.name, absl::StripSuffix(gpu, " (simulated)"))) return device;
    if (name == kDefaultDevice) otherwise = std::move(device);
  }
  *note = fmt::format(
      "no figures of {} are built in: times are for {} (another: --device, a file that `ebbtide "
      "doctor --measure` writes)",
      gpu.empty() ? "the recorded GPU" : gpu, otherwise.name);
  return otherwise;
}

}  // namespace ebt::plan
