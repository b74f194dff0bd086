"""PyTorch Lightning: our metric in the hooks of its module (`make test-graphs`)."""

import lightning
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.functional.retrieval import retrieval_normalized_dcg


@pytest.fixture
def module(added):
    """A class with the hooks of the page: scores of 120 items, by factors that it learns."""
    hooks = added("def on_validation_epoch_start")
    names = ("on_validation_epoch_start", "validation_step", "on_validation_epoch_end")

    class Factors(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.users, self.items = torch.nn.Embedding(200, 8), torch.nn.Embedding(120, 8)
            self.epochs = []

        def forward(self, users):
            return self.users(users) @ self.items.weight.T

        def training_step(self, batch, batch_idx):
            return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.05)

        def on_train_epoch_start(self):
            if self.current_epoch:
                self.epochs.append(self.trainer.callback_metrics["ndcg@10"].item())

    return type("Module", (Factors,), {name: hooks[name] for name in names})


def test_loop_reports_the_metric_of_each_epoch(module, tmp_path):
    lightning.seed_everything(1, verbose=False)
    users, groups = torch.arange(200), torch.arange(200) % 10
    seen = 12 * groups + torch.randint(0, 12, (200,))
    target = 12 * groups + torch.randint(0, 12, (200,))
    train, valid = (
        DataLoader(TensorDataset(users, items), batch_size=64) for items in (seen, target)
    )
    trainer = lightning.Trainer(
        max_epochs=12,
        accelerator="cpu",
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = module()
    trainer.fit(model, train, valid)

    with torch.no_grad():
        scores = model(users)
    relevant = torch.nn.functional.one_hot(target, 120).bool()
    pairs = zip(scores, relevant, strict=True)
    theirs = [retrieval_normalized_dcg(row, mine, top_k=10).item() for row, mine in pairs]
    logged = trainer.callback_metrics["ndcg@10"].item()
    assert logged == pytest.approx(np.mean(theirs), abs=1e-6)  # Lightning logs single precision
    found = model.ndcg.compute()
    assert found.frame["users"].tolist() == [200]  # and not those of other epochs or of the check
    assert found.frame["possible_low"][0] < logged < found.frame["possible_high"][0]
    assert len({*model.epochs, logged}) == 12
