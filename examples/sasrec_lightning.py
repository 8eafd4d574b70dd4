"""Train SASRec with Lightning and evaluate it with Weft: `python examples/sasrec_lightning.py`.

SASRec (self-attentive sequential recommendation, Kang and McAuley 2018) predicts the next film of a
user from the films before it. The data is the embedded data set, split by "leave one out": the last
film of each user is the test target, the one before it the validation target, and all earlier ones
are for training.

The example evaluates in two ways. The module has HR, NDCG and MRR in a `MetricCollection`, which
select the best checkpoint. In the test an `EvaluationCallback` also computes other metrics of Weft;
the module only returns the scores from `test_step`.

It takes about forty seconds on two cores. `--devices 2` trains and evaluates in two processes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import lightning
import polars as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchmetrics import MetricCollection

import weft
from weft.cli.demo import demo_data
from weft.engines.distributed import ShareSampler
from weft.integrations.lightning import EvaluationCallback

CUTOFFS = (5, 10)


# --------------------------------------------------------------------------------------------------


def read_sequences() -> tuple[list[Tensor], int]:
    """Return the films of each user as item indices, ordered by time, and the number of films."""
    data = demo_data.load()
    numbers = {name: number for number, name in enumerate(data.items["item"])}
    rows = pl.concat([data.train, data.test]).sort("user", "timestamp")
    films = rows.group_by("user", maintain_order=True).agg("item")["item"]
    sequences = [torch.tensor([numbers[name] for name in names]) for names in films.to_list()]
    return sequences, len(numbers)


def last(items: Tensor, length: int, padding: int) -> Tensor:
    """Return the last `length` items; if there are fewer, padding is put before them."""
    return functional.pad(items[-length:], (max(length - len(items), 0), 0), value=padding)


class Windows(Dataset):
    """Training examples: a part of a user's history, and the same part one step later.

    The films of a history are shuffled each time, a usual augmentation (Xie et al. 2022): the order
    in the embedded data is random, and the model would memorize it.
    """

    def __init__(self, histories: list[Tensor], length: int, padding: int) -> None:
        self.histories, self.length, self.padding = histories, length, padding

    def __len__(self) -> int:
        return len(self.histories)

    def __getitem__(self, user: int) -> dict[str, Tensor]:
        history = self.histories[user]
        films = history[torch.randperm(len(history))][: self.length + 1]
        return {
            name: last(part, self.length, self.padding)
            for name, part in (("items", films[:-1]), ("next", films[1:]))
        }


class LeaveOneOut(Dataset):
    """Evaluation examples: a user, the films before the target, and the target."""

    def __init__(self, sequences: list[Tensor], length: int, padding: int, *, target: int) -> None:
        self.sequences, self.length, self.padding, self.target = sequences, length, padding, target
        self.longest = max(map(len, sequences))

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, user: int) -> dict[str, Any]:
        history = self.sequences[user][: self.target]
        return {
            "user": user,
            "items": last(history, self.length, self.padding),  # input of the model
            "seen": last(history, self.longest, self.padding),  # masked
            "target": self.sequences[user][self.target],
        }


class Films(lightning.LightningDataModule):
    """The embedded data set. Padding has the index after the last film."""

    def __init__(
        self, *, length: int = 50, batch_size: int = 32, num_users: int | None = None
    ) -> None:
        super().__init__()
        self.length, self.batch_size = length, batch_size
        sequences, self.num_items = read_sequences()
        self.sequences = sequences[:num_users]
        self.histories = [sequence[:-2] for sequence in self.sequences]

    def train_dataloader(self) -> DataLoader:
        windows = Windows(self.histories, self.length, self.num_items)
        if self.trainer.world_size == 1:
            return DataLoader(windows, self.batch_size, shuffle=True)
        # All processes must take the same number of steps; some users are repeated, which does not
        # matter in training.
        return DataLoader(windows, self.batch_size, sampler=DistributedSampler(windows))

    def val_dataloader(self) -> DataLoader:
        return self._evaluation(target=-2)

    def test_dataloader(self) -> DataLoader:
        return self._evaluation(target=-1)

    def _evaluation(self, target: int) -> DataLoader:
        users = LeaveOneOut(self.sequences, self.length, self.num_items, target=target)
        # Each user is evaluated once, in one process: a DistributedSampler would repeat users to
        # make the processes equal.
        return DataLoader(users, batch_size=250, sampler=ShareSampler(users))


# --------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each with a residual connection."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.attention_dropout = heads, dropout
        self.before_attention, self.before_network = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query_key_value, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.network = nn.Sequential(
            nn.Linear(size, size), nn.ReLU(), nn.Dropout(dropout), nn.Linear(size, size)
        )
        self.dropout = nn.Dropout(dropout)
        # Initially, attention is about the mean of the films so far, in the space of the item
        # embeddings, so that similar films attract each other from the first step. With random
        # projections this takes many epochs.
        with torch.no_grad():
            self.query_key_value.weight[2 * size :] = 3 * torch.eye(size)
            self.out.weight.copy_(torch.eye(size))
            self.network[-1].weight.mul_(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the output `[batch, length, size]` for an input of this shape.

        `mask [batch, 1, length, length]` is True where a position attends to another.
        """
        batch, length, size = x.shape
        projected = self.query_key_value(self.before_attention(x)).view(
            batch, length, 3, self.heads, size // self.heads
        )
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        dropout = self.attention_dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout
        )
        x = x + self.dropout(self.out(attended.transpose(1, 2).reshape(batch, length, size)))
        return x + self.dropout(self.network(self.before_network(x)))


class SASRec(lightning.LightningModule):
    """SASRec: the item embeddings encode histories, and score the items.

    One block is enough for the embedded data, whose order is random; the paper has two.
    """

    item_embeddings: Tensor | None = None  # computed once per evaluation epoch

    def __init__(
        self,
        item_counts: list[int],
        *,
        length: int = 50,
        size: int = 64,
        blocks: int = 1,
        heads: int = 2,
        dropout: float = 0.2,
        learning_rate: float = 4e-3,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.num_items, self.learning_rate = len(item_counts), learning_rate
        self.items = nn.Embedding(self.num_items + 1, size, padding_idx=self.num_items)
        self.positions = nn.Parameter(torch.zeros(length, size))
        # Popularity need not be learned.
        self.item_bias = nn.Parameter(
            functional.pad((torch.tensor(item_counts) + 1.0).log(), (0, 1))
        )
        self.blocks = nn.ModuleList(Block(size, heads, dropout) for _ in range(blocks))
        self.norm, self.dropout = nn.LayerNorm(size), nn.Dropout(dropout)
        nn.init.normal_(self.items.weight, std=0.02)
        nn.init.normal_(self.positions, std=0.02)

        ranked = {
            f"{metric.__name__}@{k}": metric(k)
            for metric in (weft.HR, weft.NDCG, weft.MRR)
            for k in CUTOFFS
        }
        self.val_metrics = MetricCollection(ranked, prefix="val_")
        self.test_metrics = self.val_metrics.clone(prefix="test_")

    def forward(self, items: Tensor) -> Tensor:
        """Return encodings `[batch, length, size]` of the history up to each item."""
        length = items.shape[1]
        now = torch.eye(length, dtype=torch.bool, device=items.device)
        so_far = torch.ones_like(now).tril()
        # Padding attends only to itself: a softmax over nothing would be NaN.
        mask = so_far & ((items != self.num_items)[:, None, None, :] | now)
        x = self.dropout(self.items(items) + self.positions)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        is_film = batch["next"] != self.num_items
        scores = self(batch["items"])[is_film] @ self.items.weight[:-1].T + self.item_bias[:-1]
        loss = functional.cross_entropy(scores, batch["next"][is_film])
        self.log(
            "train_loss",
            loss,
            prog_bar=True,
            on_step=False,
            on_epoch=True,
            sync_dist=True,
            batch_size=len(is_film),
        )
        return loss

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), self.learning_rate, weight_decay=0.1)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(
                optimizer, self.trainer.max_epochs
            ),
        }

    # ----------------------------------------------------------------------------------------------

    def scores(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the scores of all items `[batch, items]`; seen items have -inf."""
        items = self.items.weight if self.item_embeddings is None else self.item_embeddings
        scores = self(batch["items"])[:, -1] @ items.T + self.item_bias
        # The last column is that of padding.
        return scores.scatter(1, batch["seen"], -torch.inf)[:, :-1]

    def evaluate(self, batch: dict[str, Tensor], metrics: MetricCollection) -> dict[str, Tensor]:
        """Update the metrics, and return the batch as `EvaluationCallback` reads it."""
        scores = self.scores(batch)
        # The ranks are computed once for all metrics.
        metrics.update(weft.get_topk_ranks(scores, batch["target"], topk=max(CUTOFFS)))
        return {"preds": scores, "target": batch["target"], "user_indices": batch["user"]}

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> dict[str, Tensor]:
        return self.evaluate(batch, self.val_metrics)

    def test_step(self, batch: dict[str, Tensor], batch_idx: int) -> dict[str, Tensor]:
        return self.evaluate(batch, self.test_metrics)

    def on_validation_epoch_start(self) -> None:
        # An encoder of texts or images would run here, once for all batches.
        self.item_embeddings = self.items.weight.detach()

    def on_test_epoch_start(self) -> None:
        self.on_validation_epoch_start()

    def on_validation_epoch_end(self) -> None:
        self.log_epoch(self.val_metrics)

    def on_test_epoch_end(self) -> None:
        self.log_epoch(self.test_metrics)

    def log_epoch(self, metrics: MetricCollection) -> None:
        values = metrics.compute()  # synchronizes the processes
        shown = {
            name: value for name, value in values.items() if name.endswith(("_HR@10", "_NDCG@10"))
        }
        # The values are equal in all processes; `sync_dist` only avoids a warning of Lightning.
        self.log_dict(shown, prog_bar=True, sync_dist=True)
        self.log_dict(
            {name: value for name, value in values.items() if name not in shown}, sync_dist=True
        )
        metrics.reset()
        self.item_embeddings = None


# --------------------------------------------------------------------------------------------------


def popularity(films: Films, counts: Tensor) -> weft.Result:
    """Evaluate recommendations by popularity on the same targets."""
    users = range(len(films.sequences))
    return weft.evaluate(
        counts.float().expand(len(users), -1),
        {user: [int(films.sequences[user][-1])] for user in users},
        train={user: films.sequences[user][:-1].tolist() for user in users},  # masked as in SASRec
        users=list(users),
        items=list(range(films.num_items)),
        metrics=["HitRate", "nDCG", "MRR"],
        top_k=CUTOFFS,
        name="popularity",
    )


def run(
    *,
    epochs: int = 12,
    devices: int = 1,
    seed: int = 0,
    out: str | Path = "sasrec",
    num_users: int | None = None,
    **model: Any,
) -> tuple[dict[str, float], weft.Result, EvaluationCallback]:
    """Train, test and print.

    Returns the logged test metrics, the result of popularity, and the callback of the test.
    """
    torch.set_num_threads(1)  # the model is too small to gain from more
    lightning.seed_everything(seed, verbose=False)
    films = Films(num_users=num_users)
    counts = torch.cat(films.histories).bincount(minlength=films.num_items)
    module = SASRec(counts.tolist(), length=films.length, **model)

    best = ModelCheckpoint(
        out, filename="best", monitor="val_NDCG@10", mode="max", enable_version_counter=False
    )
    stop = EarlyStopping(monitor="val_NDCG@10", mode="max", patience=4)
    beyond = EvaluationCallback(
        weft.Evaluator(
            metrics=["HitRate", "nDCG", "ItemCoverage", "Gini", "ARP", "EPC"],
            top_k=10,
            train={user: history.tolist() for user, history in enumerate(films.histories)},
            num_users=len(films.sequences),
            num_items=films.num_items,
            mask_seen=False,  # the module masks seen items
        ),
        stages="test",
        save_to=out,
    )
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        use_distributed_sampler=False,  # `Films` distributes the users
        callbacks=[best, stop, beyond],
        logger=lightning.pytorch.loggers.CSVLogger(out, name=None, version=""),
        default_root_dir=out,
        log_every_n_steps=10,
    )
    trainer.fit(module, datamodule=films)
    (tested,) = trainer.test(module, datamodule=films, ckpt_path="best", verbose=False)
    baseline = popularity(films, counts)
    if trainer.is_global_zero:
        print(f"\n{'test':8}{'SASRec':>12}{'popularity':>12}")
        for ours, weft_name in (("HR", "HitRate"), ("NDCG", "nDCG"), ("MRR", "MRR")):
            for k in CUTOFFS:
                print(
                    f"{ours}@{k:<{7 - len(ours)}}{tested[f'test_{ours}@{k}']:12.4f}"
                    f"{baseline[f'{weft_name}@{k}']:12.4f}"
                )
        print(f"\nSASRec beyond accuracy, by the callback:\n{beyond.result}")
    return tested, baseline, beyond


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument(
        "--devices", type=int, default=1, help="processes (DDP over gloo, on the CPU)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", default="sasrec", help="folder of the checkpoint, the log and the result"
    )
    run(**vars(parser.parse_args()))
