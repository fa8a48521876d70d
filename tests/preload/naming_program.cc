// In one way of the driver's, names the first block of a job's state where no launch does. The exit
// code says whether every byte was right.
//
//   naming_program WAY
//   naming_program list
#include <sys/mman.h>

#include "tests/preload/naming_job.h"

namespace naming {
namespace {

// The block as two halves of two rows each.
CUDA_MEMCPY3D_BATCH_OP Half(const Job& job, int which) {
  CUDA_MEMCPY3D_BATCH_OP one = {};
  one.src.type = one.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  one.src.op.ptr.ptr = job.sevens + which * kBytes / 2;
  one.dst.op.ptr.ptr = job.first + which * kBytes / 2;
  one.extent = {kBytes / 4, 2, 1};
  one.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  return one;
}

void AddBatches(Ways* ways, Job& job) {
  const auto flat = [&job](auto&& call) {
    return [&job, call] {
      CUdeviceptr dsts[] = {job.first, job.first + kBytes / 2};
      CUdeviceptr srcs[] = {job.sevens, job.sevens + kBytes / 2};
      size_t sizes[] = {kBytes / 2, kBytes / 2};
      CUmemcpyAttributes attributes = {};
      attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
      size_t index = 0;
      DO(call(dsts, srcs, sizes, attributes, index));
      job.BecameSeven();
    };
  };
  (*ways)["batch-v1"].use = flat([&job](auto* dsts, auto* srcs, auto* sizes, auto& attributes,
                                        size_t& index) {
    size_t failed = 0;
    return cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, job.stream);
  });
  (*ways)["batch-v2"].use =
      flat([&job](auto* dsts, auto* srcs, auto* sizes, auto& attributes, size_t& index) {
        return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 2, &attributes, &index, 1, job.stream);
      });
  (*ways)["batch-3d-v1"].use = [&job] {
    CUDA_MEMCPY3D_BATCH_OP list[] = {Half(job, 0), Half(job, 1)};
    size_t failed = 0;
    DO(cuMemcpy3DBatchAsync(2, list, &failed, 0, job.stream));
    job.BecameSeven();
  };
  (*ways)["batch-3d-v2"].use = [&job] {
    CUDA_MEMCPY3D_BATCH_OP list[] = {Half(job, 0), Half(job, 1)};
    DO(cuMemcpy3DBatchAsync_v2(2, list, 0, job.stream));
    job.BecameSeven();
  };
  const auto decompress = [&job](size_t said, CUdeviceptr to, CUdeviceptr written) {
    return [&job, said, to, written] {
      CUmemDecompressParams one = {};
      one.srcNumBytes = kBytes;
      one.dstNumBytes = said;
      one.dstActBytes = reinterpret_cast<cuuint32_t*>(written);
      one.src = reinterpret_cast<void*>(job.sevens);
      one.dst = reinterpret_cast<void*>(to);
      size_t failed = 0;
      DO(cuMemBatchDecompressAsync(&one, 1, 0, &failed, job.stream));
      if (to == job.first) return job.BecameSeven();
      job.Became(1, Float(static_cast<uint32_t>(kBytes)));
    };
  };
  (*ways)["decompress"].use = decompress(kBytes, job.first, job.scratch);
  (*ways)["decompress-unsaid"].use = decompress(0, job.first, job.scratch);
  (*ways)["decompress-count"].use = decompress(kBytes, job.scratch, job.address(1));
}

void AddArrays(Ways* ways, Job& job) {
  static CUarray array, other;
  const auto make = [] {
    CUDA_ARRAY_DESCRIPTOR description = {};
    description.Width = kFloats;
    description.Format = CU_AD_FORMAT_FLOAT;
    description.NumChannels = 1;
    const std::vector<float> sevens(kFloats, kSeven);
    DO(cuArrayCreate_v2(&array, &description));
    DO(cuArrayCreate_v2(&other, &description));
    DO(cuMemcpyHtoA_v2(other, 0, sevens.data(), kBytes));
    DO(cuMemcpyAtoA_v2(array, 0, other, 0, kBytes));
  };
  (*ways)["array-to-device"] = {make, [&job] {
                                  DO(cuStreamSynchronize(job.stream));
                                  DO(cuMemcpyAtoD_v2(job.first, array, 0, kBytes));
                                  job.BecameSeven();
                                }};
  (*ways)["device-to-array"] = {make, [&job] {
                                  std::vector<float> read(kFloats);
                                  DO(cuStreamSynchronize(job.stream));
                                  DO(cuMemcpyDtoA_v2(array, 0, job.first, kBytes));
                                  DO(cuMemcpyAtoH_v2(read.data(), array, 0, kBytes));
                                  job.ExpectAll(read, "in the array");
                                }};
  (*ways)["array-and-host"] = {
      make, [&job] {
        std::vector<float> read = job.Read(job.first), back(kFloats);
        DO(cuMemcpyHtoAAsync_v2(array, 0, read.data(), kBytes, job.stream));
        DO(cuMemcpyAtoHAsync_v2(back.data(), array, 0, kBytes, job.stream));
        DO(cuStreamSynchronize(job.stream));
        job.ExpectAll(back, "back from the array");
      }};
}

void AddValues(Ways* ways, Job& job) {
  const auto each = [&job](auto&& call) {
    return [&job, call] {
      for (int i = 0; i < 3; ++i) DO(call(i));
    };
  };
  const auto seven = [&job](auto&& call) {
    return [&job, call] {
      for (int i = 0; i < 3; ++i) DO(call(i));
      job.BecameSeven();
    };
  };
  const uint64_t pair = uint64_t{Bits(kSeven)} << 32 | Bits(kSeven);
#define WAY(name, kind, call, value) \
  (*ways)[name].use =                \
      kind([&job, pair](int i) { return call(job.stream, job.address(i), value, 0); })
  static_cast<void>(pair);
  WAY("write-32-v1", seven, cuStreamWriteValue32, static_cast<uint32_t>(pair));
  WAY("write-32-v2", seven, cuStreamWriteValue32_v2, static_cast<uint32_t>(pair));
  WAY("write-64-v1", seven, cuStreamWriteValue64, pair);
  WAY("write-64-v2", seven, cuStreamWriteValue64_v2, pair);
#undef WAY
  const auto wait = [&job](auto&& call, bool wide) {
    return [&job, call, wide](int i) {
      const uint64_t bits = Bits(job.value(i));
      return call(job.stream, job.address(i), wide ? bits << 32 | bits : bits);
    };
  };
#define WAY(name, symbol, Value, wide)                                                      \
  (*ways)[name].use = each(wait(                                                            \
      [](CUstream stream, CUdeviceptr address, uint64_t value) {                            \
        return symbol(stream, address, static_cast<Value>(value), CU_STREAM_WAIT_VALUE_EQ); \
      },                                                                                    \
      wide))
  WAY("wait-32-v1", cuStreamWaitValue32, cuuint32_t, false);
  WAY("wait-32-v2", cuStreamWaitValue32_v2, cuuint32_t, false);
  WAY("wait-64-v1", cuStreamWaitValue64, cuuint64_t, true);
  WAY("wait-64-v2", cuStreamWaitValue64_v2, cuuint64_t, true);
#undef WAY
  const auto operations = [&job](auto&& call) {
    return [&job, call] {
      Nodes nodes(job, job.first);
      DO(call(nodes.operations));
      job.BecameSeven();
    };
  };
  (*ways)["memops-v1"].use =
      operations([&job](auto* list) { return cuStreamBatchMemOp(job.stream, 3, list, 0); });
  (*ways)["memops-v2"].use =
      operations([&job](auto* list) { return cuStreamBatchMemOp_v2(job.stream, 3, list, 0); });
}

void AddTaken(Ways* ways, Job& job) {
  const auto taken = [&](const char* name, std::function<void()> prepare) {
    (*ways)[name] = {std::move(prepare), [&job] { job.ExpectBehindPointer(); }};
  };
  const auto texture = [&job](bool pitched) {
    return [&job, pitched] {
      CUDA_RESOURCE_DESC resource = {};
      if (pitched) {
        resource.resType = CU_RESOURCE_TYPE_PITCH2D;
        resource.res.pitch2D = {job.first, CU_AD_FORMAT_FLOAT, 1, 256, kFloats / 256, 1024};
      } else {
        resource.resType = CU_RESOURCE_TYPE_LINEAR;
        resource.res.linear = {job.first, CU_AD_FORMAT_FLOAT, 1, kBytes};
      }
      CUDA_TEXTURE_DESC description = {};
      CUtexObject object = 0;
      DO(cuTexObjectCreate(&object, &resource, &description, nullptr));
    };
  };
  taken("texture-linear", texture(false));
  taken("texture-pitched", texture(true));
  const auto reference = [&job](auto&& call) {
    return [&job, call] {
      CUtexref reference = nullptr;
      CUDA_ARRAY_DESCRIPTOR description = {};
      DO(cuTexRefCreate(&reference));
      DO(call(reference, description));
    };
  };
  taken("texref", reference([&job](CUtexref texture, auto&) {
          size_t offset = 0;
          return cuTexRefSetAddress_v2(&offset, texture, job.first, kBytes);
        }));
  taken("texref-2d-v2", reference([&job](CUtexref texture, auto& description) {
          return cuTexRefSetAddress2D_v2(texture, &description, job.first, 1024);
        }));
  taken("texref-2d-v3", reference([&job](CUtexref texture, auto& description) {
          return cuTexRefSetAddress2D_v3(texture, &description, job.first, 1024);
        }));
  static CUtensorMap map;
  static const cuuint64_t sizes[3] = {64, 64, 64};
  static const cuuint32_t box[3] = {1, 1, 1};
  static const int corner[1] = {0};
  const auto type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const auto packed = CU_TENSOR_MAP_INTERLEAVE_NONE;
  const auto straight = CU_TENSOR_MAP_SWIZZLE_NONE;
  const auto plain = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  const auto zeros = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  taken("tensor-tiled", [=, &job] {
    DO(cuTensorMapEncodeTiled(&map, type, 3, reinterpret_cast<void*>(job.first), sizes, sizes, box,
                              box, packed, straight, plain, zeros));
  });
  taken("tensor-im2col", [=, &job] {
    DO(cuTensorMapEncodeIm2col(&map, type, 3, reinterpret_cast<void*>(job.first), sizes, sizes,
                               corner, corner, 1, 1, box, packed, straight, plain, zeros));
  });
  taken("tensor-im2col-wide", [=, &job] {
    DO(cuTensorMapEncodeIm2colWide(&map, type, 3, reinterpret_cast<void*>(job.first), sizes, sizes,
                                   0, 0, 1, 1, box, packed, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
                                   straight, plain, zeros));
  });
  taken("tensor-replace",
        [=, &job] { DO(cuTensorMapReplaceAddress(&map, reinterpret_cast<void*>(job.first))); });
}

// The same bytes before a page that cannot be read.
void* AtTheEdge(const void* bytes, size_t size) {
  static const long page = sysconf(_SC_PAGESIZE);
  const size_t pages = (size + page - 1) / page + 1;
  auto* begin = static_cast<char*>(mmap(nullptr, (pages + 1) * page, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  char* edge = begin + pages * page;
  if (begin == MAP_FAILED || mprotect(edge, page, PROT_NONE) != 0) exit(5);
  memcpy(edge - size, bytes, size);
  return edge - size;
}

void SetParameters(CUfunction function, int offset, const void* bytes, size_t size) {
  DO(cuParamSetv(function, offset, AtTheEdge(bytes, size), static_cast<unsigned>(size)));
}

// Parameters of the old interface that come in pieces of all sizes. A piece with an address names
// it.
void AddPieces(Ways* ways, Job& job) {
  const auto shape = [&job] {
    DO(cuFuncSetBlockShape(job.axpy, kThreads, 1, 1));
    DO(cuParamSetSize(job.axpy, sizeof Nodes::packed));
    DO(cuStreamSynchronize(job.stream));
  };
  (*ways)["pieces-odd"].use = [&job, shape] {
    const Nodes nodes(job, job.first);
    shape();
    SetParameters(job.axpy, 0, nodes.packed, 12);
    SetParameters(job.axpy, 12, nodes.packed + 12, 20);
    DO(cuLaunchGridAsync(job.axpy, kFloats / kThreads, 1, job.stream));
    job.Added();
  };
  // The block is what is read, at offset 8, in a piece from offset 4 on.
  (*ways)["pieces-unaligned"].use = [&job, shape] {
    Nodes nodes(job, job.scratch);
    memcpy(nodes.packed + 8, &job.first, sizeof job.first);
    shape();
    SetParameters(job.axpy, 0, nodes.packed, 4);
    SetParameters(job.axpy, 4, nodes.packed + 4, sizeof nodes.packed - 4);
    DO(cuMemsetD8Async(job.scratch, 0, kBytes, job.stream));
    DO(cuLaunchGridAsync(job.axpy, kFloats / kThreads, 1, job.stream));
    job.ExpectAll(job.Read(job.scratch), "by the old interface");
  };
  // As many bytes as there may be, the address in the last whole word; more are not looked at.
  (*ways)["pieces-most"] = {[&job] {
                              std::vector<char> bytes(32764);
                              memcpy(&bytes[32752], &job.first, sizeof job.first);
                              SetParameters(job.chase, 0, bytes.data(), bytes.size());
                            },
                            [&job] { job.ExpectBehindPointer(); }};
  (*ways)["pieces-refused"].use = [&job] {
    void* few = AtTheEdge(&job.first, sizeof job.first);
    const unsigned many[] = {32765, 65536, 0xffffffff};
    for (unsigned bytes : many)
      if (cuParamSetv(job.chase, 0, few, bytes) != CUDA_ERROR_INVALID_VALUE) exit(6);
  };
  // None at all, and fewer than an address has.
  (*ways)["pieces-small"].use = [&job] {
    for (size_t bytes : {0, 1, 4, 7})
      for (int offset : {0, 3, 8}) SetParameters(job.chase, offset, &job.first, bytes);
    SetParameters(job.chase, 4, &job.first, sizeof job.first);
  };
}

// Work of no bytes, which only points to the block.
void AddNothing(Ways* ways, Job& job) {
  (*ways)["no-bytes"].use = [&job] {
    const CUdeviceptr inside = job.address(1);
    for (const CUdeviceptr at : {job.first, inside, job.first + kBytes}) {
      DO(cuMemcpyDtoDAsync_v2(at, job.sevens, 0, job.stream));
      DO(cuMemcpyDtoDAsync_v2(job.scratch, at, 0, job.stream));
      DO(cuMemcpyDtoD_v2(at, job.sevens, 0));
      DO(cuMemsetD8Async(at, 1, 0, job.stream));
      DO(cuMemsetD2D8Async(at, 512, 1, 0, 4, job.stream));
      DO(cuMemsetD2D8Async(at, 512, 1, 4, 0, job.stream));
    }
  };
}

void AddLaunches(Ways* ways, Job& job) {
  (*ways)["launch-multi-device"].use = [&job] {
    Nodes nodes(job, job.first);
    CUDA_LAUNCH_PARAMS one = {job.axpy,   kFloats / kThreads, 1, 1, kThreads, 1, 1, 0,
                              job.stream, nodes.parameters};
    DO(cuLaunchCooperativeKernelMultiDevice(&one, 1, 0));
    job.Added();
  };
  const auto old = [&job](auto&& launch) {
    return [&job, launch] {
      Nodes nodes(job, job.first);
      DO(cuFuncSetBlockShape(job.axpy, kThreads, 1, 1));
      DO(cuParamSetSize(job.axpy, sizeof nodes.packed));
      DO(cuParamSetv(job.axpy, 0, nodes.packed, sizeof nodes.packed));
      launch();
    };
  };
  (*ways)["launch-grid-async"].use = old([&job] {
    DO(cuLaunchGridAsync(job.axpy, kFloats / kThreads, 1, job.stream));
    job.Added();
  });
  // On the default stream, which the job's does not wait for.
  (*ways)["launch-grid"].use = old([&job] {
    DO(cuStreamSynchronize(job.stream));
    DO(cuLaunchGrid(job.axpy, kFloats / kThreads, 1));
    DO(cuStreamSynchronize(nullptr));
    job.Added();
  });
  // One block of threads, at the beginning.
  (*ways)["launch-one"].use = old([&job] {
    DO(cuStreamSynchronize(job.stream));
    DO(cuLaunch(job.axpy));
    DO(cuStreamSynchronize(nullptr));
    job.Became(0, job.value(0) + 1);
  });
}

}  // namespace
}  // namespace naming

int main(int count, char** arguments) {
  using namespace naming;
  if (count != 2) return 99;
  Job job;
  Ways ways;
  AddGraphs(&ways, job);
  AddBatches(&ways, job);
  AddArrays(&ways, job);
  AddValues(&ways, job);
  AddTaken(&ways, job);
  AddNothing(&ways, job);
  AddPieces(&ways, job);
  AddLaunches(&ways, job);
  if (strcmp(arguments[1], "list") == 0) {
    for (const auto& [name, way] : ways) puts(name.c_str());
    return 0;
  }
  const auto way = ways.find(arguments[1]);
  if (way == ways.end()) return 98;
  const auto nothing = [] {};
  for (int step = 0; step < 2; ++step) job.Step(nothing, nothing);
  if (way->second.prepare) way->second.prepare();
  for (int step = 0; step < 2; ++step) job.Step(nothing, way->second.use);
  job.Step(way->second.use, nothing);
  return job.End();
}
