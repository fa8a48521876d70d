// Graphs that are built node by node.
#include <memory>

#include "tests/preload/naming_job.h"

namespace naming {
namespace {

// A graph of one node. `other` names the scratch block, `wanted` the first.
struct Graph {
  explicit Graph(Job& job) : other(job, job.scratch), wanted(job, job.first) {
    DO(cuGraphCreate(&graph, 0));
  }
  void Instantiate() { DO(cuGraphInstantiateWithFlags(&exec, graph, 0)); }
  Nodes other, wanted;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
};

// made: adds the node to the graph, which is instantiated behind it. changed: what comes then.
void AddGraph(Ways* ways, const char* name, Job& job, std::function<void(Graph&)> made, bool adds,
              std::function<void(Graph&)> changed = nullptr) {
  auto graph = std::make_shared<Graph>(job);
  (*ways)[name] = {[=] {
                     made(*graph);
                     if (!graph->exec) graph->Instantiate();
                     if (changed) changed(*graph);
                   },
                   [=, &job] {
                     DO(cuGraphLaunch(graph->exec, job.stream));
                     adds ? job.Added() : job.BecameSeven();
                   }};
}

}  // namespace

void AddGraphs(Ways* ways, Job& job) {
#define NODE(...) [](Graph& g) { DO(__VA_ARGS__); }
#define ADD(call, named) call(&g.node, g.graph, nullptr, 0, named)
  const bool adds = true, sets = false;
  AddGraph(ways, "add-kernel-v1", job, NODE(ADD(cuGraphAddKernelNode, &g.wanted.kernel1)), adds);
  AddGraph(ways, "add-kernel-v2", job, NODE(ADD(cuGraphAddKernelNode_v2, &g.wanted.kernel2)), adds);
  // The job launches no such kernel: all that is known of it is learnt here.
  AddGraph(
      ways, "add-kernel-without-context", job,
      [&job](Graph& g) {
        CUdeviceptr to = job.first, from = job.TableOf(job.sevens);
        uint64_t n = kFloats;
        void* parameters[] = {&to, &from, &n};
        const CUDA_KERNEL_NODE_PARAMS_v1 node = {
            job.chase, kFloats / kThreads, 1, 1, kThreads, 1, 1, 0, parameters, nullptr};
        CUcontext context = nullptr;
        DO(cuCtxPopCurrent_v2(&context));
        DO(cuGraphAddKernelNode(&g.node, g.graph, nullptr, 0, &node));
        CUcontext left = context;
        DO(cuCtxGetCurrent(&left));
        if (left != nullptr) exit(4);
        DO(cuCtxPushCurrent_v2(context));
      },
      sets);
  AddGraph(ways, "add-memcpy", job,
           NODE(cuGraphAddMemcpyNode(&g.node, g.graph, nullptr, 0, &g.wanted.copy, nullptr)), sets);
  AddGraph(ways, "add-memset", job,
           NODE(cuGraphAddMemsetNode(&g.node, g.graph, nullptr, 0, &g.wanted.set, nullptr)), sets);
  AddGraph(ways, "add-memop", job, NODE(ADD(cuGraphAddBatchMemOpNode, &g.wanted.values)), sets);
  AddGraph(ways, "add-v1", job, NODE(ADD(cuGraphAddNode, &g.wanted.generic)), adds);
  const auto generic = [&](const char* name, CUgraphNodeParams (*node)(Nodes&)) {
    AddGraph(
        ways, name, job,
        [node](Graph& g) {
          CUgraphNodeParams params = node(g.wanted);
          DO(cuGraphAddNode_v2(&g.node, g.graph, nullptr, nullptr, 0, &params));
        },
        sets);
  };
  generic("add-v2-memset", [](Nodes& nodes) { return nodes.GenericSet(); });
  generic("add-v2-memcpy", [](Nodes& nodes) { return nodes.GenericCopy(); });
  generic("add-v2-memop", [](Nodes& nodes) { return nodes.GenericValues(); });

  const auto set = [&](const char* name, std::function<void(Graph&)> add, bool kernel,
                       std::function<void(Graph&)> change) {
    AddGraph(
        ways, name, job,
        [=](Graph& g) {
          add(g);
          change(g);
        },
        kernel);
  };
  const auto add_kernel1 = NODE(ADD(cuGraphAddKernelNode, &g.other.kernel1));
  const auto add_kernel2 = NODE(ADD(cuGraphAddKernelNode_v2, &g.other.kernel2));
  const auto add_copy =
      NODE(cuGraphAddMemcpyNode(&g.node, g.graph, nullptr, 0, &g.other.copy, nullptr));
  const auto add_set =
      NODE(cuGraphAddMemsetNode(&g.node, g.graph, nullptr, 0, &g.other.set, nullptr));
  const auto add_values = NODE(ADD(cuGraphAddBatchMemOpNode, &g.other.values));
  set("set-kernel-v1", add_kernel1, adds,
      NODE(cuGraphKernelNodeSetParams(g.node, &g.wanted.kernel1)));
  set("set-kernel-v2", add_kernel2, adds,
      NODE(cuGraphKernelNodeSetParams_v2(g.node, &g.wanted.kernel2)));
  set("set-memcpy", add_copy, sets, NODE(cuGraphMemcpyNodeSetParams(g.node, &g.wanted.copy)));
  set("set-memset", add_set, sets, NODE(cuGraphMemsetNodeSetParams(g.node, &g.wanted.set)));
  set("set-memop", add_values, sets,
      NODE(cuGraphBatchMemOpNodeSetParams(g.node, &g.wanted.values)));
  set("set-any", add_kernel1, adds, NODE(cuGraphNodeSetParams(g.node, &g.wanted.generic)));

  AddGraph(ways, "exec-kernel-v1", job, add_kernel1, adds,
           NODE(cuGraphExecKernelNodeSetParams(g.exec, g.node, &g.wanted.kernel1)));
  AddGraph(ways, "exec-kernel-v2", job, add_kernel2, adds,
           NODE(cuGraphExecKernelNodeSetParams_v2(g.exec, g.node, &g.wanted.kernel2)));
  AddGraph(ways, "exec-memcpy", job, add_copy, sets,
           NODE(cuGraphExecMemcpyNodeSetParams(g.exec, g.node, &g.wanted.copy, nullptr)));
  AddGraph(ways, "exec-memset", job, add_set, sets,
           NODE(cuGraphExecMemsetNodeSetParams(g.exec, g.node, &g.wanted.set, nullptr)));
  AddGraph(ways, "exec-memop", job, add_values, sets,
           NODE(cuGraphExecBatchMemOpNodeSetParams(g.exec, g.node, &g.wanted.values)));
  AddGraph(ways, "exec-any", job, add_kernel1, adds,
           NODE(cuGraphExecNodeSetParams(g.exec, g.node, &g.wanted.generic)));

  const auto remade = [](Graph& g) {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    DO(cuGraphCreate(&graph, 0));
    DO(cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &g.wanted.kernel2));
    return graph;
  };
  AddGraph(ways, "exec-update-v1", job, add_kernel1, adds, [=](Graph& g) {
    CUgraphExecUpdateResult result;
    CUgraphNode node = nullptr;
    DO(cuGraphExecUpdate(g.exec, remade(g), &node, &result));
  });
  AddGraph(ways, "exec-update-v2", job, add_kernel1, adds, [=](Graph& g) {
    CUgraphExecUpdateResultInfo result;
    DO(cuGraphExecUpdate_v2(g.exec, remade(g), &result));
  });
  AddGraph(
      ways, "child-graph", job, [=](Graph& g) { DO(ADD(cuGraphAddChildGraphNode, remade(g))); },
      adds);
  AddGraph(
      ways, "instantiate-params", job,
      [](Graph& g) {
        CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
        DO(ADD(cuGraphAddKernelNode, &g.wanted.kernel1));
        DO(cuGraphInstantiateWithParams(&g.exec, g.graph, &params));
      },
      adds);
#undef ADD
#undef NODE
}

}  // namespace naming
