// PlanFromJson: every field is checked for type and range; the first damage found is the error.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "src/plan/plan_file.h"

namespace ebt::plan {
namespace {

using nlohmann::json;

// No plan nests deeper; without a bound a hostile file makes the parser build millions of levels.
constexpr int kMaxDepth = 8;
// A value quoted in an error is cut here.
constexpr size_t kQuoteLength = 40;
constexpr size_t kComplaintLength = 120;

// Where in the file, written out only when something is wrong there.
struct Where {
  const char* list = nullptr;                  // nullptr: the outermost object
  std::optional<size_t> index = std::nullopt;  // nothing: `list` is an object
};

constexpr const char* kTierWords[] = {"hot", "warm", "cold", "native"};

// One JSON object's members. The first problem of the whole file sticks.
class Fields {
 public:
  Fields(const json& object, Where where, std::string& error)
      : object_(object), where_(where), error_(error) {
    if (!object.is_object()) Fail("", "is not an object");
  }

  // Refuses what none of the calls before asked for.
  void NoOthers() {
    if (!error_.empty() || asked_ == object_.size()) return;
    for (const auto& [key, value] : object_.items()) {
      if (std::find(keys_, keys_ + key_count_, key) == keys_ + key_count_) {
        return Fail(key.substr(0, kQuoteLength), "is not a key that is known here");
      }
    }
  }

  template <typename T>
  void Number(const char* key, T& out, bool required) {
    const json* value = Find(key, required);
    if (value == nullptr) return;
    if (!value->is_number_integer()) return Fail(key, Is(*value, "not an integer"));
    constexpr auto most = uint64_t(std::numeric_limits<T>::max());
    if (!value->is_number_unsigned()) {
      const int64_t number = value->get<int64_t>();
      if (number < int64_t(std::numeric_limits<T>::min())) {
        return Fail(key, Is(*value, "out of range"));
      }
      out = T(number);
      return;
    }
    const uint64_t number = value->get<uint64_t>();
    if (number > most) return Fail(key, Is(*value, "out of range"));
    out = T(number);
  }

  void Id(const char* key, uint64_t& out, bool required) {
    const json* value = Find(key, required);
    if (value != nullptr && !ParseId(*value, out)) Fail(key, Is(*value, kNoId));
  }

  void Ids(const char* key, std::vector<uint64_t>& out, uint64_t most) {
    const json* list = List(key, most);
    if (list == nullptr) return;
    for (const json& value : *list) {
      if (!ParseId(value, out.emplace_back())) return Fail(key, Is(value, kNoId));
    }
  }

  void String(const char* key, std::string& out) {
    const json* value = Find(key, true);
    if (value == nullptr) return;
    if (!value->is_string()) return Fail(key, Is(*value, "not text"));
    out = value->get<std::string>();
  }

  void Flag(const char* key, bool& out) {
    const json* value = Find(key, false);
    if (value == nullptr) return;
    if (!value->is_boolean()) return Fail(key, Is(*value, "not true or false"));
    out = value->get<bool>();
  }

  void Real(const char* key, double& out) {
    const json* value = Find(key, true);
    if (value == nullptr) return;
    if (!value->is_number()) return Fail(key, Is(*value, "not a number"));
    out = value->get<double>() + 0.0;  // -0 would be written as an integer
  }

  void Milliseconds(const char* key, double& out) {
    Real(key, out);
    if (!ok() || (std::isfinite(out) && out >= 0)) return;
    Fail(key, Is(object_.at(key), "not a duration"));
  }

  // Of a tier, 0 to 1; nothing where the key is left out.
  void Share(const char* key, std::optional<double>& out) {
    if (!object_.contains(key)) return;
    Real(key, out.emplace());
  }

  // The enumerator whose place in `words` the text has.
  template <typename E, size_t N>
  void Word(const char* key, const char* const (&words)[N], E& out, bool required) {
    const json* value = Find(key, required);
    if (value == nullptr) return;
    const std::string* text = value->get_ptr<const std::string*>();
    for (size_t i = 0; text != nullptr && i < N; ++i) {
      if (*text == words[i]) {
        out = E(i);
        return;
      }
    }
    Fail(key, Is(*value, fmt::format("none of {}", absl::StrJoin(words, ", "))));
  }

  // Nothing where the key is left out.
  void Tier(const char* key, std::optional<plan::Tier>& out) {
    if (object_.contains(key)) Word(key, kTierWords, out.emplace(), true);
  }

  // Small numbers; none where the key is left out.
  void Numbers(const char* key, std::vector<uint16_t>& out) {
    constexpr uint64_t kMost = std::numeric_limits<uint16_t>::max();
    const json* list = List(key, kMost + 1, false);
    if (list == nullptr) return;
    for (const json& value : *list) {
      if (!value.is_number_unsigned()) return Fail(key, Is(value, "not a small number"));
      const uint64_t number = value.get<uint64_t>();
      if (number > kMost) return Fail(key, Is(value, "out of range"));
      out.push_back(uint16_t(number));
    }
  }

  // nullptr where the key is left out.
  const json* Object(const char* key) { return Find(key, false); }

  const json* List(const char* key, uint64_t most, bool required = true) {
    const json* value = Find(key, required);
    if (value == nullptr) return nullptr;
    if (!value->is_array()) return Fail(key, Is(*value, "not a list")), nullptr;
    if (value->size() > most) {
      return Fail(key, fmt::format("has {} entries, more than {}", value->size(), most)), nullptr;
    }
    return value;
  }

  bool ok() const { return error_.empty(); }

 private:
  static constexpr size_t kMostKeys = 32;

  const json* Find(const char* key, bool required) {
    if (!error_.empty()) return nullptr;
    keys_[key_count_++] = key;
    auto found = object_.find(key);
    if (found != object_.end()) return ++asked_, &*found;
    if (required) Fail(key, "is missing");
    return nullptr;
  }

  static constexpr const char* kNoId = "not a hexadecimal number such as \"0x1f\"";

  static bool ParseId(const json& value, uint64_t& out) {
    const std::string* text = value.get_ptr<const std::string*>();
    if (text == nullptr || text->size() < 3 || text->size() > 18) return false;
    if (text->compare(0, 2, "0x") != 0) return false;
    const char* end = text->data() + text->size();
    const auto [stop, failure] = std::from_chars(text->data() + 2, end, out, 16);
    return failure == std::errc() && stop == end;
  }

  static std::string Is(const json& value, const std::string& what) {
    if (value.is_structured()) return fmt::format("is {}", what);
    std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > kQuoteLength) text = text.substr(0, kQuoteLength) + "…";
    return fmt::format("{} is {}", text, what);
  }

  void Fail(const std::string& key, const std::string& why) {
    if (!error_.empty()) return;
    std::string path = where_.list == nullptr ? key : where_.list;
    if (where_.index) path += fmt::format("[{}]", *where_.index);
    if (where_.list != nullptr && !key.empty()) path += "." + key;
    error_ = path.empty() ? why : fmt::format("{}: {}", path, why);
  }

  const json& object_;
  Where where_;
  std::string& error_;
  std::string_view keys_[kMostKeys];
  size_t key_count_ = 0;
  size_t asked_ = 0;
};

constexpr const char* kUseWords[] = {"in_place", "prefetch"};
constexpr const char* kClassWords[] = {"other", "optimizer_state", "parameter", "gradient",
                                       "activation"};

void ReadSlots(Fields& plan, int schema, const char* list, std::vector<Slot>& out,
               std::string& error) {
  const json* slots = plan.List(list, kMaxPlanSlots);
  if (slots == nullptr) return;
  out.reserve(slots->size());
  for (size_t i = 0; i < slots->size() && error.empty(); ++i) {
    Fields fields((*slots)[i], {list, i}, error);
    Slot slot;
    fields.Id("site", slot.site, true);
    fields.Id("fingerprint", slot.fingerprint, false);
    fields.Number("ordinal", slot.ordinal, true);
    fields.Number("bytes", slot.bytes, true);
    fields.Number("stream", slot.stream, false);
    fields.Number("launch", slot.launch, true);
    fields.Word("tier", kTierWords, slot.tier, true);
    if (schema >= 3) fields.Flag("dynamic", slot.dynamic);
    fields.Number("offset", slot.offset, slot.tier != Tier::kNative && !slot.dynamic);
    fields.Flag("persistent", slot.persistent);
    fields.Word("class", kClassWords, slot.block_class, false);
    fields.Word("use", kUseWords, slot.use, false);
    fields.Number("fetch_launch", slot.fetch_launch, false);
    fields.Number("evict_launch", slot.evict_launch, false);
    if (schema >= 3) {
      fields.Numbers("after", slot.after);
      fields.Number("room_bytes", slot.room_bytes, false);
    }
    fields.NoOthers();
    out.push_back(std::move(slot));
  }
}

void ReadSites(Fields& plan, int schema, std::vector<Site>& out, std::string& error) {
  const json* sites = plan.List("sites", kMaxPlanSlots);
  if (sites == nullptr) return;
  for (size_t i = 0; i < sites->size() && error.empty(); ++i) {
    Fields fields((*sites)[i], {"sites", i}, error);
    Site site;
    fields.Id("id", site.id, true);
    fields.String("label", site.label);
    if (schema >= 3) {
      fields.Tier("pin", site.pin);
      fields.Flag("exclude", site.exclude);
    }
    fields.NoOthers();
    out.push_back(std::move(site));
  }
}

void ReadSlabs(Fields& plan, std::vector<Slab>& out, std::string& error) {
  const json* slabs = plan.List("slabs", kMaxPlanSlabs);
  if (slabs == nullptr) return;
  out.reserve(slabs->size());
  for (size_t i = 0; i < slabs->size() && error.empty(); ++i) {
    Fields fields((*slabs)[i], {"slabs", i}, error);
    Slab slab;
    fields.Number("stay_offset", slab.stay_offset, true);
    fields.Number("fetch_launch", slab.fetch_launch, true);
    fields.Number("evict_launch", slab.evict_launch, true);
    fields.Number("gone_launch", slab.gone_launch, true);
    fields.NoOthers();
    out.push_back(slab);
  }
}

void ReadCleared(Fields& plan, std::vector<Clearance>& out, std::string& error) {
  const json* cleared = plan.List("cleared", kMaxClearances);
  if (cleared == nullptr) return;
  for (size_t i = 0; i < cleared->size() && error.empty(); ++i) {
    Fields fields((*cleared)[i], {"cleared", i}, error);
    Clearance clearance;
    fields.String("command", clearance.command);
    fields.String("gpu", clearance.gpu);
    fields.Number("driver_version", clearance.driver_version, true);
    fields.String("ebbtide", clearance.ebbtide);
    fields.Number("steps", clearance.steps, true);
    fields.Ids("sites", clearance.sites, kMaxPlanSlots);
    fields.NoOthers();
    out.push_back(std::move(clearance));
  }
}

void ReadHotness(Fields& plan, std::optional<HotnessRule>& hotness, std::string& error) {
  const json* rule = plan.Object("hotness");
  if (rule == nullptr) return;
  HotnessRule& out = hotness.emplace();
  Fields fields(*rule, {"hotness"}, error);
  fields.Real("alpha", out.weights.forward);
  fields.Real("beta", out.weights.backward);
  fields.Real("gamma", out.weights.coupling);
  fields.Real("sigma", out.threshold);
  fields.Real("hot_share", out.hot_share);
  fields.Share("warm_share", out.warm_share);
  fields.NoOthers();
}

Plan ReadFields(const json& root, std::string& error) {
  Plan plan;
  Fields fields(root, {}, error);
  int schema = 0;
  fields.Number("schema", schema, true);
  if (fields.ok() && (schema < kOldestSchema || schema > kSchemaVersion)) {
    error = fmt::format(
        "schema: {} is none of the versions {} to {} that this Ebbtide reads: plan "
        "again",
        schema, kOldestSchema, kSchemaVersion);
  }
  fields.String("program", plan.program);
  fields.String("gpu", plan.gpu);
  fields.String("ebbtide", plan.ebbtide);
  fields.String("source", plan.source);
  fields.Number("budget", plan.budget, true);
  fields.Number("overhead_bytes", plan.overhead_bytes, true);
  fields.Number("warm_bytes", plan.warm_bytes, true);
  fields.Number("cold_bytes", plan.cold_bytes, true);
  fields.Number("step_launches", plan.step_launches, true);
  fields.Number("max_live_bytes", plan.max_live_bytes, true);
  fields.Number("planned_peak_bytes", plan.planned_peak_bytes, true);
  fields.Milliseconds("native_step_ms", plan.native_step_ms);
  fields.Milliseconds("predicted_step_ms", plan.predicted_step_ms);
  if (schema >= 3) {
    fields.Flag("uneven", plan.uneven);
    fields.Number("dynamic_bytes", plan.dynamic_bytes, false);
  }
  if (schema >= 2) {
    fields.Number("slab_bytes", plan.slab_bytes, true);
    ReadSlabs(fields, plan.slabs, error);
    ReadCleared(fields, plan.cleared, error);
  }
  if (schema >= 3) ReadHotness(fields, plan.hotness, error);
  ReadSites(fields, schema, plan.sites, error);
  ReadSlots(fields, schema, "prologue", plan.prologue, error);
  ReadSlots(fields, schema, "step", plan.step, error);
  fields.NoOthers();
  return plan;
}

// What the parser complains of, without its own name, kind of error and place before it: those
// are told apart by " - ", and the place is said in our way.
std::string Complaint(const json::exception& e) {
  std::string_view text = e.what();
  for (std::string_view before : {"] ", " - "}) {
    const size_t at = text.find(before);
    if (at != text.npos) text.remove_prefix(at + before.size());
  }
  // It may quote a whole string of the file.
  return text.size() > kComplaintLength ? fmt::format("{}…", text.substr(0, kComplaintLength))
                                        : std::string(text);
}

size_t LineAt(std::string_view text, size_t byte) {
  return 1 + size_t(std::count(text.begin(), text.begin() + std::min(byte, text.size()), '\n'));
}

absl::Status NotJson(const std::string& name, const std::string& where, const json::exception& e) {
  return absl::InvalidArgumentError(fmt::format("{}: {}not JSON: {}", name, where, Complaint(e)));
}

// How deep arrays and objects nest at most, before anything is built of them.
int Depth(std::string_view text) {
  int depth = 0, most = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return most;
}

}  // namespace

absl::StatusOr<Plan> PlanFromJson(std::string_view text, const std::string& name) {
  if (text.size() > kMaxPlanFileBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: more than {} bytes: this is no plan", name, kMaxPlanFileBytes));
  }
  if (Depth(text) > kMaxDepth) {
    return absl::InvalidArgumentError(
        fmt::format("{}: nested more than {} deep: this is no plan", name, kMaxDepth));
  }
  json root;
  try {
    root = json::parse(text);
  } catch (const json::parse_error& e) {
    return NotJson(name, fmt::format("line {}, byte {}: ", LineAt(text, e.byte - 1), e.byte), e);
  } catch (const json::exception& e) {
    return NotJson(name, "", e);
  }
  std::string error;
  Plan plan = ReadFields(root, error);
  if (!error.empty()) return absl::InvalidArgumentError(fmt::format("{}: {}", name, error));
  return plan;
}

}  // namespace ebt::plan
