#include "src/report/trace.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "src/base/units.h"
#include "src/report/block_columns.h"
#include "src/report/composition.h"
#include "src/report/gpu_times.h"
#include "src/report/memory_spaces.h"
#include "src/report/report_file.h"
#include "src/report/trace_counters.h"

namespace ebt::report {
namespace {

using nlohmann::json;
using profile::Block;
using profile::Event;
using profile::EventKind;
using profile::Profile;

constexpr size_t kLongestTraceName = 64;
// "Processes" of the trace: what it shows side by side. A memory has one each behind these.
constexpr int kWorkProcess = 1;
constexpr int kFirstMemoryProcess = 2;
// "Threads" of the work. Streams come behind.
constexpr int kStepThread = 1;
constexpr int kInstantThread = 2;
constexpr int kFirstStreamThread = 10;

// As JSON has it, quotes included, whatever the bytes.
std::string Quoted(const std::string& text) {
  return json(Clipped(text, kLongestTraceName)).dump(-1, ' ', true, json::error_handler_t::replace);
}

std::string_view CopyName(profile::CopyKind copy) {
  static constexpr std::string_view kNames[] = {
      "\"copy host to device\"",   "\"copy device to host\"",
      "\"copy device to device\"", "\"copy\"",
      "\"copy between devices\"",  "\"memset\""};
  return kNames[static_cast<size_t>(copy)];
}

// Texts that occur again and again, made once.
class QuotedNames {
 public:
  explicit QuotedNames(std::function<std::string(uint64_t)> name) : name_(std::move(name)) {}
  const std::string& Of(uint64_t id) {
    const auto [found, is_new] = names_.try_emplace(id);
    if (is_new) found->second = Quoted(name_(id));
    return found->second;
  }

 private:
  std::function<std::string(uint64_t)> name_;
  absl::flat_hash_map<uint64_t, std::string> names_;
};

class TraceWriter {
 public:
  TraceWriter(const Profile& profile, const std::optional<profile::Steps>& steps,
              const std::vector<profile::Kind>& kinds, const ReadableNames& names,
              const TraceOptions& options, ReportFile& file)
      : profile_(profile),
        steps_(steps),
        kinds_(kinds),
        options_(options),
        file_(file),
        memory_(FindMemorySpaces(profile, steps, kinds)),
        times_(profile),
        sites_([&names](uint64_t site) { return names.site(site); }),
        functions_([&](uint64_t function) {
          return function < profile.functions.size()
                     ? names.function(profile.functions[function].name)
                     : fmt::format("kernel#{}", function);
        }) {}

  void Write() {
    file_.Write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    NameRows();
    WriteSteps();
    WriteWork();
    for (size_t space = 0; space < memory_.spaces.size(); ++space) WriteCounters(space);
    WriteBlocks();
    file_.Write("\n],\"otherData\":");
    file_.Write(OtherData().dump(-1, ' ', true, json::error_handler_t::replace));
    file_.Write("}\n");
  }

 private:
  // Microseconds since the first event, in whole nanoseconds: so is the difference of two, and a
  // slice never reaches into the next one.
  double At(uint64_t event) const {
    if (!times_.known()) return double(event);
    return std::round((times_.At(event) - times_.points().front().ms) * 1e6) / 1000;
  }

  // One event of the trace.
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    line_.clear();
    if (!first_) line_ += ",\n";
    first_ = false;
    fmt::format_to(std::back_inserter(line_), format, std::forward<Args>(args)...);
    file_.Write(line_);
  }

  void NameProcess(int process, const std::string& name) {
    Add(R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":{1}}}}})", process,
        Quoted(name));
    Add(R"({{"ph":"M","pid":{0},"name":"process_sort_index","args":{{"sort_index":{0}}}}})",
        process);
  }

  void NameThread(int thread, const std::string& name) {
    Add(R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_name","args":{{"name":{2}}}}})",
        kWorkProcess, thread, Quoted(name));
    Add(R"({{"ph":"M","pid":{0},"tid":{1},"name":"thread_sort_index",)"
        R"("args":{{"sort_index":{1}}}}})",
        kWorkProcess, thread);
  }

  void NameRows() {
    const auto program = profile_.metadata.find("program");
    NameProcess(kWorkProcess, program == profile_.metadata.end() ? "work" : program->second);
    NameThread(kStepThread, "steady steps");
    NameThread(kInstantThread, "phases and refused allocations");
    std::set<uint16_t> streams;
    for (const Event& event : profile_.events) {
      if (IsWork(event)) streams.insert(event.stream);
    }
    for (uint16_t stream : streams)
      NameThread(kFirstStreamThread + stream, fmt::format("stream {}", stream));
    for (size_t space = 0; space < memory_.spaces.size(); ++space)
      NameProcess(kFirstMemoryProcess + int(space), "memory of " + memory_.spaces[space].name);
  }

  void WriteSteps() {
    if (!steps_) return;
    for (size_t i = 0; i + 1 < steps_->start_events.size(); ++i) {
      const double begin = At(steps_->start_events[i]);
      Add(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":"step {}"}})",
          kWorkProcess, kStepThread, begin, At(steps_->start_events[i + 1]) - begin, i + 1);
    }
  }

  void WriteWork() {
    uint64_t works = 0;
    for (uint64_t at = 0; at < profile_.events.size(); ++at) {
      const Event& event = profile_.events[at];
      if (IsWork(event) && works++ >= options_.most_works) {
        ++dropped_works_;
      } else {
        WriteEvent(event, at);
      }
    }
  }

  void WriteEvent(const Event& event, uint64_t at) {
    if (IsLaunch(event)) {
      const bool graph = event.kind == EventKind::kGraph;
      Add(R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{}}})", kWorkProcess,
          kFirstStreamThread + event.stream, At(at), At(at + 1) - At(at),
          graph ? fmt::format("\"graph {}\"", event.function) : functions_.Of(event.function));
    } else if (event.kind == EventKind::kCopy) {
      Add(R"({{"ph":"i","s":"t","pid":{},"tid":{},"ts":{:.3f},"name":{},"args":{{"bytes":{}}}}})",
          kWorkProcess, kFirstStreamThread + event.stream, At(at), CopyName(event.copy),
          event.bytes);
    } else if (event.kind == EventKind::kFailed) {
      Add(R"({{"ph":"i","s":"g","pid":{},"tid":{},"ts":{:.3f},"name":"allocation refused",)"
          R"("args":{{"bytes":{}}}}})",
          kWorkProcess, kInstantThread, At(at), event.bytes);
    } else if (event.kind == EventKind::kPhase) {
      Add(R"({{"ph":"i","s":"p","pid":{},"tid":{},"ts":{:.3f},"name":{}}})", kWorkProcess,
          kInstantThread, At(at), Quoted(event.phase));
    }
  }

  void WriteCounters(size_t space) {
    const int process = kFirstMemoryProcess + int(space);
    CounterPlaces places(profile_, kinds_, memory_, uint32_t(space), options_.counter_places);
    thinned_ = thinned_ || places.thinned();
    places.ForEach([&](const CounterPlaces::Place& place) {
      for (size_t kind = 0; kind < profile::kKinds; ++kind) {
        if (place.changed[kind])
          AddCounter(process, place.event, profile::KindName(profile::Kind(kind)),
                     place.bytes[kind]);
      }
      AddCounter(process, place.event, "all", place.all);
    });
  }

  void AddCounter(int process, uint64_t event, std::string_view name, uint64_t bytes) {
    Add(R"({{"ph":"C","pid":{},"ts":{:.3f},"name":"{}","args":{{"bytes":{}}}}})", process,
        At(event), name, bytes);
  }

  // So that at most most_blocks are no smaller.
  uint64_t LeastBytes() const {
    if (options_.min_block_bytes) return *options_.min_block_bytes;
    if (profile_.blocks.size() <= options_.most_blocks) return 0;
    std::vector<uint64_t> sizes;
    for (const Block& block : profile_.blocks) sizes.push_back(TakenBytes(block));
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    // The first that is too many; what is as large as it goes too.
    return sizes[options_.most_blocks] + 1;
  }

  std::vector<uint64_t> TouchCounts() const {
    std::vector<uint64_t> counts(profile_.blocks.size());
    for (const Event& event : profile_.events) {
      for (uint32_t block : event.touched) ++counts[block];
    }
    return counts;
  }

  void WriteBlocks() {
    least_bytes_ = LeastBytes();
    const std::vector<uint64_t> touches = TouchCounts();
    for (const Block& block : profile_.blocks) {
      if (TakenBytes(block) < least_bytes_) {
        ++dropped_blocks_;
        continue;
      }
      const auto kind = block.id < kinds_.size() ? kinds_[block.id] : profile::Kind::kUnknown;
      const int process = kFirstMemoryProcess + int(memory_.of_block[block.id]);
      Add(R"({{"ph":"b","cat":"block","id":{0},"pid":{1},"tid":0,"ts":{2:.3f},"name":{3},)"
          R"("args":{{"bytes":{4},"kind":"{5}","touches":{6}}}}})",
          block.id, process, At(block.alloc_at), sites_.Of(block.site), TakenBytes(block),
          profile::KindName(kind), touches[block.id]);
      const uint64_t end = std::min<uint64_t>(block.free_at, profile_.events.size());
      Add(R"({{"ph":"e","cat":"block","id":{},"pid":{},"tid":0,"ts":{:.3f},"name":{}}})", block.id,
          process, At(end), sites_.Of(block.site));
    }
  }

  json OtherData() const {
    json out = {
        {"times", times_.known() ? "the GPU's, known at marks and interpolated between them: every "
                                   "event takes equally long"
                                 : "none were recorded: an event is a microsecond"},
        {"counters", thinned_ ? "of each stretch its largest moment and its end" : "every change"},
        {"blocks_left_out", dropped_blocks_},
        {"blocks_left_out_are_smaller_than_bytes", least_bytes_},
        {"launches_and_copies_left_out", dropped_works_}};
    for (const auto& [key, value] : profile_.metadata) out["recording"][key] = value;
    return out;
  }

  const Profile& profile_;
  const std::optional<profile::Steps>& steps_;
  const std::vector<profile::Kind>& kinds_;
  const TraceOptions& options_;
  ReportFile& file_;
  const MemorySpaces memory_;
  const GpuTimes times_;
  QuotedNames sites_, functions_;
  std::string line_;
  bool first_ = true;
  bool thinned_ = false;
  uint64_t least_bytes_ = 0, dropped_blocks_ = 0, dropped_works_ = 0;
};

}  // namespace

absl::Status WriteTrace(const Profile& profile, const std::optional<profile::Steps>& steps,
                        const std::vector<profile::Kind>& kinds, const ReadableNames& names,
                        const std::string& path, const TraceOptions& options) {
  ReportFile file(path);
  TraceWriter(profile, steps, kinds, names, options, file).Write();
  return file.Close();
}

}  // namespace ebt::report
