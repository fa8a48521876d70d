"""The jobs of `workloads.py` whose models are a library's: transformers, peft, timm, torchvision.

A job is built on the GPU, where random weights of a large model take a moment. It takes its
steps as the jobs of `turns.py` do; what the update does beside the optimizer hangs on the
optimizer's own hooks.
"""
import argparse
import importlib.metadata

import torch
from torch.nn import functional

import turns

DEFAULTS = {"accumulate": 1, "optimizer": "fused", "on_device": True}


class TorchJob(turns.Job):
    """Subclasses set self.model in build() and define loss(), as those of turns.Job do."""
    autocast = torch.bfloat16
    libraries = ()

    def __init__(self, size, device):
        self.device = device
        super().__init__(argparse.Namespace(**{**DEFAULTS, **size}))

    def bring_up(self):
        with torch.device(self.device):
            self.build()
        self.model.to(self.device)
        self.optimizer = self.make_optimizer(
            [p for p in self.model.parameters() if p.requires_grad])

    def make_optimizer(self, parameters):
        return torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, fused=True)

    def moved(self, tensor):
        """To the device, as a loader with pinned memory does."""
        if self.device == "cpu":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def micro_step(self):
        with torch.autocast(self.device, self.autocast):
            loss = self.loss()
        self.backward(loss if self.args.accumulate == 1 else loss / self.args.accumulate)
        return loss.detach()

    def backward(self, loss):
        loss.backward()

    def loss_of_step(self):
        return self.step().item()

    def begin_steady(self):
        """What has been the most so far does not count in `steady`."""
        self.peaks = self.allocator_peaks()
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def allocator_peaks(self):
        if self.device == "cpu":
            return {}
        found = torch.cuda.memory_stats()
        return {"allocated": found["allocated_bytes.all.peak"],
                "requested": found.get("requested_bytes.all.peak", 0),
                "reserved": found["reserved_bytes.all.peak"]}

    def memory(self):
        """The most bytes of the whole run, and of the steps after the warm-up."""
        steady = self.allocator_peaks()
        most = {key: max(value, self.peaks[key]) for key, value in steady.items()}
        return {**most, "steady": steady, "optimizer_state": self.state_bytes()}

    def parameter_count(self):
        return sum(p.numel() for p in self.model.parameters())

    def versions(self):
        return {name: importlib.metadata.version(name) for name in ("torch", *self.libraries)}


class Tokens(TorchJob):
    """A language model of transformers: self.vocabulary is set in build()."""
    libraries = ("transformers",)

    def length(self):
        return self.args.sequence

    def loss(self):
        tokens = self.moved(torch.randint(self.vocabulary, (self.args.batch, self.length()),
                                          generator=self.data))
        return self.model(input_ids=tokens, labels=tokens).loss


class Gpt2(Tokens):
    def __init__(self, size, device):
        import gpt2_train
        self.program = gpt2_train.Gpt2
        self.kind = gpt2_train.transformers.GPT2LMHeadModel  # asking for it imports it
        super().__init__(size, device)

    def build(self):
        self.program.build(self)


class Lengths(Gpt2):
    """As a loader that pads each batch to its own longest sequence, and not to a fixed length."""

    def length(self):
        drawn = torch.randint(self.args.sequence // 16, self.args.sequence + 1,
                              (self.args.batch,), generator=self.data)
        # Real lengths are mostly short, so the longest of a batch varies.
        return int((drawn * torch.rand(self.args.batch, generator=self.data)).max()) + 2


class Llama(Tokens):
    SIZES = {
        "tiny": dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2, vocab_size=512),
        "1.3b": dict(hidden_size=2048, intermediate_size=5504, num_hidden_layers=24,
                     num_attention_heads=16, num_key_value_heads=16, vocab_size=32000),
        "3b": dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=28,
                   num_attention_heads=24, num_key_value_heads=8, vocab_size=128256,
                   tie_word_embeddings=True),
    }
    weights = torch.float32

    def __init__(self, size, device):
        import transformers
        self.transformers = transformers
        self.kind = transformers.LlamaForCausalLM  # asking for it imports it
        super().__init__(size, device)

    def build(self):
        config = self.transformers.LlamaConfig(
            max_position_embeddings=self.args.sequence, use_cache=False,
            **self.SIZES[self.args.model])
        self.model = self.transformers.AutoModelForCausalLM.from_config(
            config, dtype=self.weights).train()
        self.vocabulary = config.vocab_size
        self.adapt()

    def adapt(self):
        self.model.gradient_checkpointing_enable({"use_reentrant": False})

    def make_optimizer(self, parameters):
        optimizer = super().make_optimizer(parameters)
        optimizer.register_step_pre_hook(
            lambda *_: torch.nn.utils.clip_grad_norm_(parameters, 1.0) and None)
        return optimizer


class Lora(Llama):
    """Adapters alone are trained; the weights below them are bf16 and stay as they are."""
    libraries = ("transformers", "peft")
    weights = torch.bfloat16

    def __init__(self, size, device):
        import peft
        self.peft = peft
        super().__init__(size, device)

    def adapt(self):
        self.model = self.peft.get_peft_model(self.model, self.peft.LoraConfig(
            r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM",
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))


class Images(TorchJob):
    def bring_up(self):
        super().bring_up()
        size = (self.args.batch, 3, self.args.image, self.args.image)
        # Drawn ahead: a loader has processes of its own for that.
        self.loaded = [torch.randn(size, generator=self.data) for _ in range(2)]
        if self.device == "cuda":
            self.loaded = [batch.pin_memory() for batch in self.loaded]

    def images(self):
        self.loaded.reverse()
        return self.loaded[0].to(self.device, non_blocking=True)

    def loss(self):
        labels = self.moved(torch.randint(1000, (self.args.batch,), generator=self.data))
        return functional.cross_entropy(self.model(self.images()), labels)


class VitLarge(Images):
    libraries = ("timm",)

    def __init__(self, size, device):
        import timm
        self.timm = timm
        super().__init__(size, device)

    def build(self):
        self.model = self.timm.create_model(self.args.model, pretrained=False).train()


class ResNet(Images):
    libraries = ("torchvision",)

    def __init__(self, size, device):
        import torchvision
        self.models = torchvision.models
        super().__init__(size, device)
        self.autocast = torch.float16 if device == "cuda" else torch.bfloat16

    def build(self):
        self.model = getattr(self.models, self.args.model)().train()
        self.model.to(memory_format=torch.channels_last)
        self.scaler = torch.amp.GradScaler(self.device, enabled=self.device == "cuda")

    def make_optimizer(self, parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)

    def images(self):
        return super().images().to(memory_format=torch.channels_last)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self):
        loss = self.micro_step()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss
