// Stream capture and the launch of graphs. What happens between begin and end of a capture is
// no work yet: allocation is left to the driver there, which makes graph nodes of it.
#ifndef EBBTIDE_HOOKS_GRAPH_H_
#define EBBTIDE_HOOKS_GRAPH_H_

#include "hooks/front.h"

namespace ebt::front {

inline void CaptureBegun(const Entry& entry, CUresult result, CUstream stream) {
  if (entry.core && result == CUDA_SUCCESS)
    entry.core->lifecycle(EBT_CAPTURE_BEGIN, stream, nullptr);
}

template <Slot slot, Mode mode>
CUresult StreamBeginCaptureV1(CUstream stream) {
  EBT_ENTER(StreamBeginCaptureV1);
  const CUresult result = real(stream);
  CaptureBegun(entry, result, Normalized<mode>(stream));
  return result;
}

template <Slot slot, Mode mode>
CUresult StreamBeginCaptureV2(CUstream stream, CUstreamCaptureMode capture_mode) {
  EBT_ENTER(StreamBeginCaptureV2);
  const CUresult result = real(stream, capture_mode);
  CaptureBegun(entry, result, Normalized<mode>(stream));
  return result;
}

template <Slot slot, Mode mode>
CUresult StreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                   const void* edge_data, size_t count,
                                   CUstreamCaptureMode capture_mode) {
  EBT_ENTER(StreamBeginCaptureToGraph);
  const CUresult result = real(stream, graph, dependencies, edge_data, count, capture_mode);
  CaptureBegun(entry, result, Normalized<mode>(stream));
  return result;
}

template <Slot slot, Mode mode>
CUresult StreamEndCapture(CUstream stream, CUgraph* graph) {
  EBT_ENTER(StreamEndCapture);
  const CUresult result = real(stream, graph);
  if (entry.core) entry.core->lifecycle(EBT_CAPTURE_END, Normalized<mode>(stream), nullptr);
  return result;
}

template <Slot slot, Mode mode>
CUresult GraphLaunch(CUgraphExec executable, CUstream stream) {
  EBT_ENTER(GraphLaunch);
  if (entry.core) entry.core->lifecycle(EBT_GRAPH_LAUNCH, executable, Normalized<mode>(stream));
  return real(executable, stream);
}

}  // namespace ebt::front

#endif  // EBBTIDE_HOOKS_GRAPH_H_
