#include "tests/page/job.h"

#include <map>
#include <string>

#include "src/base/units.h"

namespace ebt::page {
namespace {

using callsite::Frame;
using profile::AllocKind;
using profile::EventKind;
using profile::Kind;

constexpr uint64_t kFirstAddress = uint64_t{0x7f20} << 32;

// Device memory from which the lowest hole is taken.
class Heap {
 public:
  uint64_t Take(uint64_t bytes) {
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second < bytes) continue;
      const auto [place, size] = *hole;
      holes_.erase(hole);
      if (size > bytes) holes_[place + bytes] = size - bytes;
      return place;
    }
    top_ += bytes;
    return top_ - bytes;
  }

  void Give(uint64_t place, uint64_t bytes) {
    auto hole = holes_.emplace(place, bytes).first;
    const auto next = std::next(hole);
    if (next != holes_.end() && place + bytes == next->first) {
      hole->second += next->second;
      holes_.erase(next);
    }
    if (hole == holes_.begin()) return;
    const auto before = std::prev(hole);
    if (before->first + before->second != hole->first) return;
    before->second += hole->second;
    holes_.erase(hole);
  }

 private:
  std::map<uint64_t, uint64_t> holes_;
  uint64_t top_ = kFirstAddress;
};

class Maker {
 public:
  explicit Maker(const JobShape& shape) : shape_(shape) {
    job_.profile.metadata = {{"program", "train.py"},
                             {"gpu", "a GPU on paper"},
                             {"argv", "train.py --layers N"},
                             {"pid", "4711"},
                             {"driver_version", "13000"}};
    for (const char* name : {"_ZN2at6native4gemmIfEEvPKT_PS2_i", "gelu_forward", "gelu_backward",
                             "layer_norm", "multi_tensor_adam", "fill"})
      job_.profile.functions.push_back({uint32_t(job_.profile.functions.size()), name});
    if (shape.hostile) MakeHostile();
  }

  Job Make() {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      weights_.push_back(
          Alloc(Kind::kParameter, "model.py", "Block.__init__", layer, (8 + layer % 3) * kMiB));
      Launch(5, {weights_.back()});
    }
    for (int step = 0; step < shape_.steps; ++step) Step(step == 0);
    Mark();
    return std::move(job_);
  }

 private:
  void MakeHostile() {
    hostile_ = "</script><img src=x onerror=\"document.title='owned'\">\xe2\x80\xa8'\"&amp;\\";
    job_.profile.metadata["program"] = hostile_;
    job_.profile.metadata["argv"] = hostile_ + "\xff\xfe";
    job_.profile.functions[1].name = hostile_;
  }

  uint64_t Site(const std::string& file, const std::string& function, int line) {
    const std::string key = file + function + std::to_string(line);
    const auto [found, is_new] = sites_.emplace(key, sites_.size() + 1);
    if (!is_new) return found->second;
    callsite::Site site{found->second, {}};
    site.frames.push_back(
        {Frame::Kind::kNative, "ab12", 0x3d210, "cudaMallocAsync", "/usr/lib/libcudart.so.13"});
    site.frames.push_back({Frame::Kind::kNative, "cd34", uint64_t(0x51000 + line * 64), "",
                           "/usr/lib/python3/site-packages/torch/lib/libtorch_cuda.so"});
    site.frames.push_back({Frame::Kind::kPython, "/home/user/job/" + file, uint64_t(line + 20),
                           function + hostile_, ""});
    site.frames.push_back({Frame::Kind::kPython, "/home/user/job/train.py", 88, "step", ""});
    site.frames.push_back({Frame::Kind::kPython, "/home/user/job/train.py", 120, "main", ""});
    job_.profile.sites.push_back(std::move(site));
    return found->second;
  }

  uint32_t Alloc(Kind kind, const std::string& file, const std::string& function, int line,
                 uint64_t bytes) {
    profile::Block block;
    block.id = uint32_t(job_.profile.blocks.size());
    block.site = Site(file, function, line);
    block.bytes = bytes;
    block.kind = AllocKind::kAsync;
    block.address = heap_.Take(AlignUp(bytes, kBlockAlignment));
    block.alloc_at = job_.profile.events.size();
    job_.profile.blocks.push_back(block);
    job_.kinds.push_back(kind);
    job_.profile.events.push_back({.kind = EventKind::kAlloc, .block = block.id});
    return block.id;
  }

  void Free(uint32_t id) {
    profile::Block& block = job_.profile.blocks[id];
    block.free_at = job_.profile.events.size();
    heap_.Give(block.address, AlignUp(block.bytes, kBlockAlignment));
    job_.profile.events.push_back({.kind = EventKind::kFree, .block = id});
  }

  void Mark() {
    if (!shape_.times) return;
    job_.profile.events.push_back({.kind = EventKind::kMark, .gpu_ms = double(launches_) * 0.05});
  }

  void Launch(uint32_t function, std::vector<uint32_t> touched) {
    if (launches_++ % 64 == 0) Mark();
    job_.profile.events.push_back({.kind = EventKind::kLaunch,
                                   .function = function,
                                   .shape = touched.size(),
                                   .touched = std::move(touched)});
  }

  uint64_t ActivationBytes(int operation) const {
    return uint64_t(1 + operation % 4) * 768 * kKiB + 100;
  }

  void Step(bool first) {
    for (uint32_t gradient : gradients_) Free(gradient);
    gradients_.clear();
    const uint32_t input = Alloc(Kind::kInput, "data.py", "to_device", 3, 4 * kMiB);
    job_.profile.events.push_back({.kind = EventKind::kCopy,
                                   .copy = profile::CopyKind::kHtoD,
                                   .bytes = 4 * kMiB,
                                   .touched = {input}});
    std::vector<std::vector<uint32_t>> activations = Forward(input);
    Backward(activations);
    Free(input);
    Optimize(first);
  }

  std::vector<std::vector<uint32_t>> Forward(uint32_t input) {
    std::vector<std::vector<uint32_t>> activations;
    uint32_t last = input;
    for (int layer = 0; layer < shape_.layers; ++layer) {
      activations.emplace_back();
      for (int i = 0; i < shape_.operators; ++i) {
        const uint32_t scratch = Alloc(i % 3 == 2 ? Kind::kWorkspace : Kind::kTemporary, "ops.py",
                                       "workspace", i, kMiB + 512);
        const uint32_t made =
            Alloc(Kind::kActivation, "model.py", "Block.forward", 100 + i, ActivationBytes(i));
        Launch(i % 2, {weights_[layer], last, scratch, made});
        Free(scratch);
        activations.back().push_back(made);
        last = made;
      }
    }
    return activations;
  }

  void Backward(const std::vector<std::vector<uint32_t>>& activations) {
    for (int layer = shape_.layers; layer-- > 0;) {
      gradients_.push_back(Alloc(Kind::kGradient, "autograd.py", "backward", layer % 5,
                                 job_.profile.blocks[weights_[layer]].bytes));
      for (size_t i = activations[layer].size(); i-- > 0;) {
        Launch(2, {weights_[layer], activations[layer][i], gradients_.back()});
        Free(activations[layer][i]);
      }
      const uint32_t bucket = Alloc(Kind::kCommunication, "ddp.py", "all_reduce", 7, 2 * kMiB);
      Launch(3, {gradients_.back(), bucket});
      Free(bucket);
    }
  }

  void Optimize(bool first) {
    for (size_t i = 0; first && i < 2 * weights_.size(); ++i)
      states_.push_back(Alloc(Kind::kOptimizerState, "adamw.py", "_init_group", int(i % 2),
                              job_.profile.blocks[weights_[i / 2]].bytes));
    for (size_t i = 0; i < weights_.size(); ++i)
      Launch(4, {weights_[i], gradients_[weights_.size() - 1 - i], states_[2 * i],
                 states_[2 * i + 1]});
  }

  JobShape shape_;
  std::string hostile_;
  Job job_;
  Heap heap_;
  std::map<std::string, uint64_t> sites_;
  std::vector<uint32_t> weights_, gradients_, states_;
  uint64_t launches_ = 0;
};

}  // namespace

Job MakeJob(const JobShape& shape) { return Maker(shape).Make(); }

}  // namespace ebt::page
