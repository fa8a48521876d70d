#!/usr/bin/env python3
"""A plain PyTorch training job: torchvision models, random images, bf16 autocast, AdamW."""
import torch
import torchvision

import turns

MODELS = ["vit_l_16", "resnet50"]


class Vision(turns.Job):
    def build(self):
        self.model = getattr(torchvision.models, self.args.model)().train()
        self.model.to(memory_format=torch.channels_last)

    def loss(self):
        images = torch.randn((self.args.batch, 3, 224, 224), generator=self.data).pin_memory()
        labels = torch.randint(1000, (self.args.batch,), generator=self.data).pin_memory()
        images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        return torch.nn.functional.cross_entropy(self.model(images),
                                                 labels.cuda(non_blocking=True))


if __name__ == "__main__":
    turns.main(Vision, __doc__, MODELS, batch=64)
