#include "graph.h"

#include "api.h"
#include "state.h"

namespace sim {
namespace {

// An instantiated graph keeps the work alive that its graph was made of.
struct GraphExec {
  std::shared_ptr<Graph> graph;
  std::map<CUgraphNode, size_t> places;  // of the nodes of what it was made of
};

std::map<Graph*, std::shared_ptr<Graph>>& Graphs() {
  static auto* graphs = new std::map<Graph*, std::shared_ptr<Graph>>();
  return *graphs;
}

std::set<GraphExec*>& Execs() {
  static auto* execs = new std::set<GraphExec*>();
  return *execs;
}

Graph* NewGraph() {
  auto graph = std::make_shared<Graph>();
  graph->id = S().next_id++;
  Graph* key = graph.get();
  Graphs()[key] = std::move(graph);
  return key;
}

GraphExec* ExecOf(CUgraphExec handle) {
  auto* exec = reinterpret_cast<GraphExec*>(handle);
  return Execs().count(exec) != 0 ? exec : nullptr;
}

void LeaveCapture(Graph* graph) {
  for (const auto& stream : S().streams) {
    if (stream->capture != graph) continue;
    stream->capture = nullptr;
    stream->capture_origin = nullptr;
  }
  for (Event* event : S().events) {
    if (event->captured != nullptr && event->captured->capture == nullptr) {
      event->captured = nullptr;
    }
  }
}

}  // namespace

std::shared_ptr<Graph> FindGraph(CUgraph handle) {
  auto found = Graphs().find(reinterpret_cast<Graph*>(handle));
  return found == Graphs().end() ? nullptr : found->second;
}

Work* FindNode(CUgraphNode node) {
  for (auto& [key, graph] : Graphs()) {
    for (Work& work : graph->nodes) {
      if (reinterpret_cast<CUgraphNode>(&work) == node) return &work;
    }
  }
  return nullptr;
}

Work* FindNode(CUgraphExec handle, CUgraphNode node) {
  GraphExec* exec = ExecOf(handle);
  if (exec == nullptr) return nullptr;
  const auto place = exec->places.find(node);
  return place == exec->places.end() ? nullptr : &exec->graph->nodes[place->second];
}

void JoinCapture(Stream* stream, Stream* capturing) {
  stream->capture = capturing->capture;
  stream->capture_origin = capturing->capture_origin;
}

CUresult StreamBeginCapture(CUstream handle) {
  return StreamBeginCapture2(handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult StreamBeginCapture2(CUstream handle, CUstreamCaptureMode) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = NewGraph();
  stream->capture_origin = stream;
  return CUDA_SUCCESS;
}

CUresult StreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle, const CUgraphNode*,
                                   const CUgraphEdgeData*, size_t, CUstreamCaptureMode) {
  Stream* stream = FindStream(handle);
  std::shared_ptr<Graph> graph = FindGraph(graph_handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = graph.get();
  stream->capture_origin = stream;
  return CUDA_SUCCESS;
}

CUresult StreamEndCapture(CUstream handle, CUgraph* graph) {
  Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture_origin != stream) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  *graph = reinterpret_cast<CUgraph>(stream->capture);
  LeaveCapture(stream->capture);
  return CUDA_SUCCESS;
}

CUresult StreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return StreamGetCaptureInfo(handle, status, nullptr);
}

CUresult StreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id) {
  const Stream* stream = FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *status =
      stream->capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != nullptr && stream->capture != nullptr) *id = stream->capture->id;
  return CUDA_SUCCESS;
}

CUresult StreamGetCaptureInfo2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                               CUgraph* graph, const CUgraphNode** dependencies, size_t* count) {
  CUresult result = StreamGetCaptureInfo(handle, status, id);
  if (result != CUDA_SUCCESS) return result;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(FindStream(handle)->capture);
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  return CUDA_SUCCESS;
}

CUresult StreamGetCaptureInfo3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                               CUgraph* graph, const CUgraphNode** dependencies,
                               const CUgraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return StreamGetCaptureInfo2(handle, status, id, graph, dependencies, count);
}

CUresult ThreadExchangeCaptureMode(CUstreamCaptureMode* mode) {
  static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, current);
  return CUDA_SUCCESS;
}

CUresult GraphCreate(CUgraph* graph, unsigned int flags) {
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = reinterpret_cast<CUgraph>(NewGraph());
  return CUDA_SUCCESS;
}

CUresult GraphDestroy(CUgraph handle) {
  return Graphs().erase(reinterpret_cast<Graph*>(handle)) != 0 ? CUDA_SUCCESS
                                                               : CUDA_ERROR_INVALID_VALUE;
}

CUresult GraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* node, char* log,
                          size_t bytes) {
  if (node != nullptr) *node = nullptr;
  if (log != nullptr && bytes > 0) *log = '\0';
  return GraphInstantiateFlags(exec, graph, 0);
}

CUresult GraphInstantiateFlags(CUgraphExec* exec, CUgraph handle, unsigned long long) {
  std::shared_ptr<Graph> graph = FindGraph(handle);
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* instance = new GraphExec{std::make_shared<Graph>(*graph), {}};
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    instance->places[reinterpret_cast<CUgraphNode>(&graph->nodes[i])] = i;
  }
  Execs().insert(instance);
  *exec = reinterpret_cast<CUgraphExec>(instance);
  return CUDA_SUCCESS;
}

CUresult GraphInstantiateParams(CUgraphExec* exec, CUgraph graph,
                                CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return GraphInstantiateFlags(exec, graph, params->flags);
}

CUresult GraphExecUpdate(CUgraphExec handle, CUgraph graph_handle, CUgraphNode* node,
                         CUgraphExecUpdateResult* result) {
  GraphExec* exec = ExecOf(handle);
  std::shared_ptr<Graph> graph = FindGraph(graph_handle);
  if (exec == nullptr || graph == nullptr || result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node != nullptr) *node = nullptr;
  const bool same = exec->graph->nodes.size() == graph->nodes.size();
  *result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  exec->graph->nodes = graph->nodes;
  return CUDA_SUCCESS;
}

CUresult GraphExecUpdate2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info = {};
  return GraphExecUpdate(exec, graph, nullptr, &info->result);
}

CUresult GraphUpload(CUgraphExec exec, CUstream stream) {
  if (ExecOf(exec) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindStream(stream) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult GraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  const GraphExec* exec = ExecOf(handle);
  Stream* stream = FindStream(stream_handle);
  if (exec == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const Work& node : exec->graph->nodes) Enqueue(stream, node);
  return CUDA_SUCCESS;
}

CUresult GraphExecDestroy(CUgraphExec handle) {
  GraphExec* exec = ExecOf(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Execs().erase(exec);
  delete exec;
  return CUDA_SUCCESS;
}

CUresult GraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  std::shared_ptr<Graph> graph = FindGraph(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const size_t room = *count;
  *count = graph->nodes.size();
  for (size_t i = 0; nodes != nullptr && i < room; ++i) {
    nodes[i] = i < *count ? reinterpret_cast<CUgraphNode>(&graph->nodes[i]) : nullptr;
  }
  return CUDA_SUCCESS;
}

}  // namespace sim
