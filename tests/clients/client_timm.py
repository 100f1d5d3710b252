"""timm: a validation loop as its own, with top-1 and top-5 accuracy, over small models with random weights."""

import pytest
import timm
import torch
from timm.utils import AverageMeter, accuracy

from comparison import gradients, same_both_ways


@pytest.mark.parametrize("name", ["test_vit", "test_resnet", "test_convnext", "test_efficientnet"])
def test_training_and_validation(name):
    def validate():
        model = timm.create_model(name, num_classes=100)
        images, targets = torch.randn(16, 3, 96, 96), torch.randint(100, (16,))
        torch.nn.functional.cross_entropy(model(images), targets).backward()
        model.eval()
        top1, top5, outputs = AverageMeter(), AverageMeter(), []
        with torch.inference_mode():
            for _ in range(3):
                images, targets = torch.randn(16, 3, 96, 96), torch.randint(100, (16,))
                outputs.append(model(images))
                first, fifth = accuracy(outputs[-1], targets, topk=(1, 5))
                top1.update(first.item(), 16)
                top5.update(fifth.item(), 16)
        return outputs, top1.avg, top5.avg, gradients(model)

    same_both_ways(validate)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [10, 1000, 21841])
def test_accuracy(classes, dtype):
    def evaluate():
        output, target = torch.randn(128, classes, dtype=dtype), torch.randint(classes, (128,))
        return accuracy(output, target, topk=(1, 2, 5, 10))

    same_both_ways(evaluate)
