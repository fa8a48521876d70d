"""The jobs of `workloads.py` whose models no installed library has: a U-Net and a mixture of
experts, in plain PyTorch.
"""
import math

import torch
from torch import nn
from torch.nn import functional

import torch_jobs
import training_job

GROUPS = 32  # of group normalisation
NOISE_STEPS = 1000


class Residual(nn.Module):
    """Two convolutions around which the input goes, the time added between them."""

    def __init__(self, width_in, width_out, width_time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(GROUPS, width_in), nn.GroupNorm(GROUPS, width_out)
        self.first = nn.Conv2d(width_in, width_out, 3, padding=1)
        self.second = nn.Conv2d(width_out, width_out, 3, padding=1)
        self.time = nn.Linear(width_time, width_out)
        self.around = (nn.Identity() if width_in == width_out
                       else nn.Conv2d(width_in, width_out, 1))

    def forward(self, x, time):
        inside = self.first(functional.silu(self.norm1(x)))
        inside = inside + self.time(functional.silu(time))[:, :, None, None]
        return self.around(x) + self.second(functional.silu(self.norm2(inside)))


class PixelAttention(nn.Module):
    """Each pixel looks at all others, in heads of 64 channels (or one, if there are fewer)."""

    def __init__(self, width):
        super().__init__()
        self.heads = max(1, width // 64)
        self.norm = nn.GroupNorm(GROUPS, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, high, wide = x.shape
        q, k, v = (part.reshape(batch, self.heads, -1, high * wide).transpose(2, 3)
                   for part in self.qkv(self.norm(x)).chunk(3, dim=1))
        seen = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(seen.transpose(2, 3).reshape(batch, width, high, wide))


class Level(nn.Module):
    """Blocks of one resolution."""

    def __init__(self, widths_in, width, width_time, attends):
        super().__init__()
        self.blocks = nn.ModuleList(Residual(w, width, width_time) for w in widths_in)
        self.looks = nn.ModuleList(PixelAttention(width) if attends else nn.Identity()
                                   for _ in widths_in)


class UNet(nn.Module):
    """Down to an eighth of the resolution and up again, what went down joined to what comes up."""
    multiples = (1, 2, 2, 4)
    blocks = 2

    def __init__(self, width, channels=4):
        super().__init__()
        widths, time = [width * m for m in self.multiples], 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        self.shrink, self.grow = nn.ModuleList(), nn.ModuleList()
        before, joined = width, [width]
        for depth, here in enumerate(widths):
            self.down.append(Level([before] + [here] * (self.blocks - 1), here, time, depth >= 2))
            last = depth == len(widths) - 1
            self.shrink.append(nn.Identity() if last else
                               nn.Conv2d(here, here, 3, stride=2, padding=1))
            joined += [here] * (self.blocks + (not last))
            before = here
        self.middle = Level([before] * 2, before, time, True)
        for depth, here in reversed(list(enumerate(widths))):
            coming = [before] + [here] * self.blocks
            self.up.append(Level([w + joined.pop() for w in coming], here, time, depth >= 2))
            self.grow.append(nn.Conv2d(here, here, 3, padding=1) if depth else nn.Identity())
            before = here
        self.leave = nn.Sequential(nn.GroupNorm(GROUPS, width), nn.SiLU(),
                                   nn.Conv2d(width, channels, 3, padding=1))

    def time_of(self, number):
        """Sines and cosines of the noise step, as positions are told to transformers."""
        half = self.width // 2
        rates = torch.exp(-math.log(10000) * torch.arange(half, device=number.device) / half)
        angles = number[:, None] * rates
        return self.time(torch.cat([angles.sin(), angles.cos()], dim=1))

    def forward(self, x, number):
        time = self.time_of(number)
        x = self.enter(x)
        kept = [x]
        for depth, (level, shrink) in enumerate(zip(self.down, self.shrink)):
            for block, look in zip(level.blocks, level.looks):
                x = look(block(x, time))
                kept.append(x)
            if depth < len(self.down) - 1:
                x = shrink(x)
                kept.append(x)
        for block, look in zip(self.middle.blocks, self.middle.looks):
            x = look(block(x, time))
        for depth, (level, grow) in enumerate(zip(self.up, self.grow)):
            for block, look in zip(level.blocks, level.looks):
                x = look(block(torch.cat([x, kept.pop()], dim=1), time))
            if depth < len(self.up) - 1:
                x = grow(functional.interpolate(x, scale_factor=2.0))
        return self.leave(x)


class Diffusion(torch_jobs.TorchJob):
    """Learns the noise in noisy latents; an average of the weights goes along for sampling."""

    def build(self):
        self.model = UNet(self.args.width).train()
        self.model.to(memory_format=torch.channels_last)
        self.kept_share = torch.linspace(0.9999, 0.98, NOISE_STEPS).cumprod(0)

    def make_optimizer(self, parameters):
        optimizer = super().make_optimizer(parameters)
        average = [p.detach().clone() for p in parameters]
        optimizer.register_step_post_hook(
            lambda *_: torch._foreach_lerp_(average, [p.detach() for p in parameters], 1e-4))
        return optimizer

    def loss(self):
        size = (self.args.batch, 4, self.args.image, self.args.image)
        clean = self.moved(torch.randn(size, generator=self.data))
        number = self.moved(torch.randint(NOISE_STEPS, (self.args.batch,), generator=self.data))
        noise = torch.randn_like(clean)
        share = self.kept_share[number][:, None, None, None]
        noisy = share.sqrt() * clean + (1 - share).sqrt() * noise
        noisy = noisy.to(memory_format=torch.channels_last)
        return functional.mse_loss(self.model(noisy, number).float(), noise)


class Mixture(nn.Module):
    """Each token goes to two of eight experts; how many an expert gets is found out as it runs."""
    experts, chosen = 8, 2

    def __init__(self, width):
        super().__init__()
        self.router = nn.Linear(width, self.experts)
        # Untrained routers share out evenly; trained ones have favourites.
        self.router.bias = nn.Parameter(torch.linspace(1.0, -1.0, self.experts))
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(self.experts))

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).softmax(dim=-1, dtype=torch.float32).topk(self.chosen)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.parts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            answer = expert(tokens.index_select(0, token)) * weights[token, place, None]
            out.index_add_(0, token, answer.to(out.dtype))
        return out.view_as(x)


class ExpertBlock(training_job.Block):
    """Every second block's feed-forward part is a mixture."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        del self.up, self.down
        self.mixture = Mixture(width)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mixture(self.norm2(x)))


class Experts(torch_jobs.TorchJob):
    def build(self):
        width = self.args.width
        self.model = training_job.Model(width, self.args.layers, self.args.sequence).train()
        for number in range(1, self.args.layers, 2):
            self.model.blocks[number] = ExpertBlock(width, width // 64)

    def loss(self):
        tokens = torch.randint(training_job.VOCABULARY, (self.args.batch, self.args.sequence),
                               generator=self.data)
        return self.model(self.moved(tokens))
