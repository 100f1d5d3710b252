"""PyTorch Geometric: pooling, recommendation, explanations, attacks and diffusion, on a random graph."""

import pytest
import torch
from torch_geometric.contrib.nn import GRBCDAttack, PRBCDAttack
from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.metric import unfaithfulness
from torch_geometric.nn import GCNConv, LightGCN, SAGPooling, TopKPooling, global_mean_pool
from torch_geometric.transforms import GDC

from comparison import gradients, same_both_ways

NODES, EDGES, CHANNELS, CLASSES = 200, 1200, 24, 4


def random_graph():
    return torch.randn(NODES, CHANNELS), torch.randint(NODES, (2, EDGES))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = GCNConv(CHANNELS, 16, normalize=False), GCNConv(16, CLASSES, normalize=False)

    def forward(self, x, edge_index, edge_weight=None):
        return self.last(self.first(x, edge_index, edge_weight).relu(), edge_index, edge_weight)


@pytest.mark.parametrize("pooling", [TopKPooling, SAGPooling])
@pytest.mark.parametrize("ratio", [0.5, 30])
def test_pooling(pooling, ratio):
    def train():
        x, edge_index = random_graph()
        batch = torch.arange(NODES) // 50
        conv, pool = GCNConv(CHANNELS, 16), pooling(16, ratio)
        x, edge_index, _, batch, selected, scores = pool(conv(x, edge_index).relu(), edge_index, batch=batch)
        output = global_mean_pool(x, batch)
        output.square().sum().backward()
        return output, edge_index, selected, scores, gradients(conv), gradients(pool)

    same_both_ways(train, called=False)  # it selects with torch.sort


@pytest.mark.parametrize("is_sorted", [False, True])
def test_recommendation(is_sorted):
    def recommend():
        _, edge_index = random_graph()
        model = LightGCN(NODES, 32, num_layers=2)
        loss = model.recommendation_loss(*(model(edge_index, torch.randint(NODES, (2, 300))) for _ in range(2)))
        loss.backward()
        items = model.recommend(
            edge_index, src_index=torch.arange(80), dst_index=torch.arange(80, NODES), k=7, sorted=is_sorted
        )
        # In which order they come is open where they are not sorted.
        return loss, gradients(model), items if is_sorted else items.sort(dim=1).values

    same_both_ways(recommend)


@pytest.mark.parametrize("threshold", [("topk", 40), ("topk_hard", 40)])
def test_explanation(threshold):
    def explain():
        x, edge_index = random_graph()
        explainer = Explainer(
            Network(),
            GNNExplainer(epochs=5),
            explanation_type="model",
            model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
            node_mask_type="attributes",
            edge_mask_type="object",
            threshold_config=threshold,
        )
        explanation = explainer(x, edge_index, index=7)
        return explanation.node_mask, explanation.edge_mask, unfaithfulness(explainer, explanation, top_k=5)

    same_both_ways(explain)


@pytest.mark.parametrize("attack", [PRBCDAttack, GRBCDAttack])
def test_attack(attack):
    def run():
        x, edge_index = random_graph()
        labels = torch.randint(CLASSES, (NODES,))
        attacked = attack(Network(), block_size=2000, **({"epochs": 6} if attack is PRBCDAttack else {"epochs": 4}))
        return attacked.attack(x, edge_index, labels, budget=12)

    same_both_ways(run)


def test_diffusion():
    def diffuse():
        x, edge_index = random_graph()
        return dict(
            GDC(
                diffusion_kwargs={"method": "ppr", "alpha": 0.15},
                sparsification_kwargs={"method": "topk", "k": 8, "dim": 0},
                exact=True,
            )(Data(x=x, edge_index=edge_index)).to_dict()
        )

    same_both_ways(diffuse, called=False)  # it selects with torch.sort
