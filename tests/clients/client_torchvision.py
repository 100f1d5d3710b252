"""torchvision: detection models with random weights, which take the best anchors by top-k: losses, gradients, boxes."""

import pytest
import torch
from torchvision.models import detection

from comparison import gradients, same_both_ways

SIZES = {"min_size": 96, "max_size": 128}
MODELS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": SIZES | {"rpn_post_nms_top_n_train": 50, "rpn_post_nms_top_n_test": 50},
    "retinanet_resnet50_fpn": SIZES,
    "fcos_resnet50_fpn": SIZES,
    "ssdlite320_mobilenet_v3_large": {},
}


def model_of(name):
    return getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5, **MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_training(name):
    def train():
        model = model_of(name).train()
        images = [torch.rand(3, 96, 112), torch.rand(3, 100, 96)]
        targets = [
            {"boxes": torch.tensor([[8.0, 10.0, 60.0, 70.0], [20.0, 5.0, 80.0, 50.0]]), "labels": torch.tensor([1, 3])}
            for _ in images
        ]
        losses = model(images, targets)
        sum(losses.values()).backward()
        return losses, gradients(model)

    # The detectors of one stage select in inference alone.
    same_both_ways(train, called="rcnn" in name)


@pytest.mark.parametrize("name", MODELS)
def test_inference(name):
    def infer():
        model = model_of(name).eval()
        # Without training all scores are low; without a threshold they reach the selection.
        for part in (model, getattr(model, "roi_heads", model)):
            if hasattr(part, "score_thresh"):
                part.score_thresh = 0.0
        with torch.inference_mode():
            return model([torch.rand(3, 96, 112), torch.rand(3, 100, 96)])

    same_both_ways(infer)
