"""torchmetrics: every metric with a top_k, over batches, and retrieval over queries."""

import pytest
import torch
from torchmetrics import classification, retrieval

from comparison import same_both_ways

CLASSES = 20
CLASSIFICATION = ["Accuracy", "Precision", "Recall", "F1Score", "Specificity", "StatScores", "HammingDistance"]
RETRIEVAL = [
    "RetrievalMAP", "RetrievalMRR", "RetrievalPrecision", "RetrievalRecall", "RetrievalHitRate", "RetrievalFallOut",
    "RetrievalNormalizedDCG", "RetrievalAUROC",
]  # fmt: skip
SORTING = {"RetrievalRecall", "RetrievalHitRate", "RetrievalFallOut", "RetrievalNormalizedDCG"}  # they use torch.sort


@pytest.mark.parametrize("average", ["micro", "macro", None])
@pytest.mark.parametrize("top_k", [2, 5])
@pytest.mark.parametrize("name", CLASSIFICATION)
def test_classification(name, top_k, average):
    def evaluate():
        metric = getattr(classification, f"Multiclass{name}")(CLASSES, top_k=top_k, average=average)
        steps = [metric(torch.randn(64, CLASSES).softmax(1), torch.randint(CLASSES, (64,))) for _ in range(3)]
        return steps, metric.compute()

    same_both_ways(evaluate)


@pytest.mark.parametrize("top_k", [1, 10])
@pytest.mark.parametrize("name", RETRIEVAL)
def test_retrieval(name, top_k):
    def evaluate():
        metric = getattr(retrieval, name)(top_k=top_k)
        for _ in range(2):
            metric.update(torch.rand(600), torch.rand(600) < 0.3, indexes=torch.randint(12, (600,)))
        return metric.compute()

    same_both_ways(evaluate, called=name not in SORTING)


def test_retrieval_curve():
    def evaluate():
        metric = retrieval.RetrievalPrecisionRecallCurve(max_k=20)
        metric.update(torch.rand(600), torch.rand(600) < 0.3, indexes=torch.randint(12, (600,)))
        return metric.compute()

    same_both_ways(evaluate)
