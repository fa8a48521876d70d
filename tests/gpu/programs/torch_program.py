"""A small training loop of PyTorch, run in one of several ways. The allocator is chosen by
PYTORCH_CUDA_ALLOC_CONF and PYTORCH_NO_CUDA_MEMORY_CACHING, outside.
"""
import argparse

from frameworks import Result, framework

WAYS = ["eager", "compile", "reduce-overhead", "max-autotune", "graph"]
STEPS = 16
BATCH, WIDTH, CLASSES = 1024, 256, 16  # so that memory visibly comes and goes


def make(torch):
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.LayerNorm(2 * WIDTH),
        torch.nn.Linear(2 * WIDTH, WIDTH), torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, CLASSES)).cuda()
    x = torch.randn(STEPS, BATCH, WIDTH).cuda()
    y = torch.randint(CLASSES, (STEPS, BATCH)).cuda()
    return model, x, y


def loop(torch, way, model, optimizer, x, y):
    """Losses; the forward pass is compiled where `way` says how."""
    def loss_of(inputs, targets):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    if way == "compile":
        loss_of = torch.compile(loss_of)
    elif way != "eager":
        loss_of = torch.compile(loss_of, mode=way)
    losses = []
    for inputs, targets in zip(x, y):
        if way != "eager":
            torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(inputs, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def captured_loop(torch, model, optimizer, x, y):
    """Whole steps, optimizer included, captured once and launched for every batch."""
    inputs, targets = x[0].clone(), y[0].clone()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    losses = []
    for next_inputs, next_targets in zip(x, y):
        inputs.copy_(next_inputs)
        targets.copy_(next_targets)
        graph.replay()
        # Work beside the graph, with memory that comes and goes in every step.
        norms = torch.stack([p.norm() for p in model.parameters()])
        losses += [loss.item(), norms.sum().item()]
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=WAYS)
    way = parser.parse_args().way
    torch, numpy = framework("torch"), framework("numpy")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    model, x, y = make(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True,
                                  capturable=way == "graph")
    if way == "graph":
        losses = captured_loop(torch, model, optimizer, x, y)
    else:
        losses = loop(torch, way, model, optimizer, x, y)
    torch.cuda.synchronize()
    result = Result()
    result.add(numpy.array(losses))
    for parameter in model.parameters():
        result.add(parameter.detach().cpu().numpy())
        for value in optimizer.state[parameter].values():
            result.add(value.cpu().numpy())
    result.print()


if __name__ == "__main__":
    main()
