// A small training job, as swapped_program.h has it: a state of two blocks, one a slab, that are
// fetched for the end of each step. Something else may use the first of them when it is not there;
// the job knows what its floats must be.
//
// Every function is called by the name that its version is exported under.
#ifndef EBBTIDE_TESTS_PRELOAD_NAMING_JOB_H_
#define EBBTIDE_TESTS_PRELOAD_NAMING_JOB_H_

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace naming {

inline constexpr uint64_t kBytes = 2 << 20, kFloats = kBytes / sizeof(float);
inline constexpr unsigned kThreads = 256;
inline constexpr uint64_t kLooked[] = {0, kFloats / 2, kFloats - 2};  // floats that are looked at
inline constexpr float kSeven = 7;

inline void Check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: %d\n", call, result);
  exit(3);
}
#define DO(call) Check(call, #call)

inline uint32_t Bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float Float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

class Job {
 public:
  Job() {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    DO(cuInit(0));
    DO(cuDevicePrimaryCtxRetain(&context, 0));
    DO(cuCtxSetCurrent(context));
    DO(cuModuleLoadData(&module, "any image"));
    DO(cuModuleGetFunction(&fill_, module, "ebt_fill"));
    DO(cuModuleGetFunction(&axpy, module, "ebt_axpy"));
    DO(cuModuleGetFunction(&chase, module, "ebt_chase"));
    DO(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    first = Block(10);
    second_ = Block(20);
    ones = Block(1);
    sevens = Own(kSeven);
    scratch = Own(0);
    table_ = TableOf(first);
    for (float& value : value_) value = 10;
  }

  // A step with a use where the first block has its stay later, and with one behind its stay.
  void Step(const std::function<void()>& before, const std::function<void()>& behind) {
    CUdeviceptr activation = 0;
    DO(cuMemAllocAsync(&activation, 2 * kBytes, stream));
    Fill(activation, 2, 2 * kFloats);
    before();
    Fill(activation, 3, 2 * kFloats);
    DO(cuMemFreeAsync(activation, stream));
    Add(first);
    for (float& value : value_) value += 1;
    Add(second_);
    ++steps_;
    Fill(ones, 1, kFloats);
    Settle();
    behind();
  }

  // What a use of the way has done to the first block.
  void Added() {
    for (float& value : value_) value += 1;
  }
  void BecameSeven() {
    for (float& value : value_) value = kSeven;
  }
  void Became(int which, float value) { value_[which] = value; }
  float value(int which) const { return value_[which]; }
  CUdeviceptr address(int which) const { return first + kLooked[which] * sizeof(float); }

  void ExpectAll(const std::vector<float>& read, const char* where) {
    for (int i = 0; i < 3; ++i) {
      if (read[kLooked[i]] == value_[i]) continue;
      fprintf(stderr, "%s: float %d is %g, not %g\n", where, i, read[kLooked[i]], value_[i]);
      exit(1);
    }
  }
  // By a kernel that reaches the block through a pointer in device memory.
  void ExpectBehindPointer() {
    CUdeviceptr to = scratch, from = table_;
    uint64_t n = kFloats;
    void* parameters[] = {&to, &from, &n};
    Launch(chase, parameters, kFloats);
    ExpectAll(Read(scratch), "behind a pointer");
  }
  // Device memory with an address in it, as `chase` takes it.
  CUdeviceptr TableOf(CUdeviceptr block) {
    const CUdeviceptr table = Own(0);
    DO(cuMemcpyHtoD_v2(table, &block, sizeof block));
    return table;
  }
  std::vector<float> Read(CUdeviceptr block) {
    std::vector<float> floats(kFloats);
    DO(cuMemcpyDtoHAsync_v2(floats.data(), block, kBytes, stream));
    DO(cuStreamSynchronize(stream));
    return floats;
  }
  int End() {
    ExpectAll(Read(first), "at the end");
    const float second = Read(second_)[kFloats / 2];
    if (second == 20 + static_cast<float>(steps_)) return 0;
    fprintf(stderr, "the second block: %g\n", second);
    return 1;
  }

  CUfunction axpy = nullptr, chase = nullptr;
  CUstream stream = nullptr;
  // ones: 1 everywhere. sevens: 7. The last three are no memory of the plan's.
  CUdeviceptr first = 0, ones = 0, sevens = 0, scratch = 0;

 private:
  // What is on its way by threads of others, too.
  void Settle() {
    for (int i = 0; i < 2; ++i) {
      DO(cuCtxSynchronize());
      usleep(2000);
    }
  }
  CUdeviceptr Block(float value) {
    CUdeviceptr block = 0;
    DO(cuMemAllocAsync(&block, kBytes, stream));
    Fill(block, value, kFloats);
    return block;
  }
  // Larger than any block of the plan.
  CUdeviceptr Own(float value) {
    CUdeviceptr block = 0;
    DO(cuMemAlloc_v2(&block, 3 * kBytes));
    Fill(block, value, kFloats);
    return block;
  }
  void Launch(CUfunction function, void** parameters, uint64_t n) {
    DO(cuLaunchKernel(function, static_cast<unsigned>(n / kThreads), 1, 1, kThreads, 1, 1, 0,
                      stream, parameters, nullptr));
  }
  void Fill(CUdeviceptr block, float value, uint64_t n) {
    void* parameters[] = {&block, &value, &n};
    Launch(fill_, parameters, n);
  }
  void Add(CUdeviceptr block) {
    float one = 1;
    uint64_t n = kFloats;
    void* parameters[] = {&block, &ones, &one, &n};
    Launch(axpy, parameters, n);
  }

  CUfunction fill_ = nullptr;
  CUdeviceptr second_ = 0, table_ = 0;
  float value_[3];
  int steps_ = 0;
};

// The parameters of nodes; they must live until a node has been made.
struct Nodes {
  Nodes(Job& job, CUdeviceptr to) : y(to), x(job.ones) {
    const unsigned blocks = kFloats / kThreads;
    kernel1 = {job.axpy, blocks, 1, 1, kThreads, 1, 1, 0, parameters, nullptr};
    kernel2 = {job.axpy, blocks, 1, 1, kThreads, 1, 1, 0, nullptr, extra, nullptr, nullptr};
    memcpy(packed, &y, 8);
    memcpy(packed + 8, &x, 8);
    memcpy(packed + 16, &one, 4);
    memcpy(packed + 24, &n, 8);
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = job.sevens;
    copy.dstDevice = to;
    copy.WidthInBytes = copy.srcPitch = copy.dstPitch = kBytes / 2;
    copy.Height = 2;
    copy.Depth = 1;
    set = {to, kBytes / 2, Bits(kSeven), 4, kFloats / 2, 2};
    for (int i = 0; i < 3; ++i) {
      operations[i].writeValue = {};
      operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
      operations[i].writeValue.address = to + kLooked[i] * sizeof(float);
      operations[i].writeValue.value = Bits(kSeven);
    }
    values.count = 3;
    values.paramArray = operations;
    generic.type = CU_GRAPH_NODE_TYPE_KERNEL;
    generic.kernel = {job.axpy, blocks, 1,          1,       kThreads, 1,
                      1,        0,      parameters, nullptr, nullptr,  nullptr};
  }
  CUgraphNodeParams GenericSet() const {
    CUgraphNodeParams node = {};
    node.type = CU_GRAPH_NODE_TYPE_MEMSET;
    node.memset = {set.dst, set.pitch, set.value, set.elementSize, set.width, set.height, nullptr};
    return node;
  }
  CUgraphNodeParams GenericCopy() const {
    CUgraphNodeParams node = {};
    node.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    node.memcpy.copyParams = copy;
    return node;
  }
  CUgraphNodeParams GenericValues() {
    CUgraphNodeParams node = {};
    node.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    node.memOp = {nullptr, 3, operations, 0};
    return node;
  }

  CUdeviceptr y, x;
  float one = 1;
  uint64_t n = kFloats;
  void* parameters[4] = {&y, &x, &one, &n};
  char packed[32] = {};
  size_t packed_bytes = sizeof packed;
  void* extra[5] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
                    &packed_bytes, CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS_v1 kernel1;
  CUDA_KERNEL_NODE_PARAMS_v2 kernel2;
  CUDA_MEMCPY3D copy = {};
  CUDA_MEMSET_NODE_PARAMS_v1 set;
  CUstreamBatchMemOpParams operations[3];
  CUDA_BATCH_MEM_OP_NODE_PARAMS values = {};
  CUgraphNodeParams generic = {};
};

// A way to name the first block: `prepare` before the steps, `use` in them.
struct Way {
  std::function<void()> prepare, use;
};
using Ways = std::map<std::string, Way>;

void AddGraphs(Ways* ways, Job& job);

}  // namespace naming

#endif  // EBBTIDE_TESTS_PRELOAD_NAMING_JOB_H_
