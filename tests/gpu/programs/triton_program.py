"""Kernels of Triton, launched by Triton itself on memory of PyTorch."""
from frameworks import Result, framework

STEPS = 16
ROWS, COLUMNS = 256, 1000


def main():
    torch = framework("torch")
    framework("triton")
    kernels = framework("triton_kernels")
    torch.manual_seed(1)
    count = ROWS * COLUMNS
    blocks = ((count + 1023) // 1024,)
    state = torch.zeros(ROWS, COLUMNS, device="cuda")
    data = torch.randn(STEPS, ROWS, COLUMNS)
    result = Result()
    for batch in data:
        x = batch.cuda()
        gated = torch.empty_like(x)
        kernels.gated[blocks](gated, x, state, count, BLOCK=1024)
        kernels.axpy[blocks](state, gated, 0.125, count, BLOCK=1024)
        sums = torch.empty(ROWS, device="cuda")
        kernels.row_sums[(ROWS,)](sums, state, COLUMNS, BLOCK=1024)
        kernels.axpy[blocks](state, x, -0.01, count, BLOCK=1024)
        result.add(sums.cpu().numpy())
    result.add(state.cpu().numpy())
    result.print()


if __name__ == "__main__":
    main()
