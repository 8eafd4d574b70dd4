"""What test_lightning evaluates: a module whose scores are given, in one process or, run by
torchrun, in two.

`torchrun --nproc-per-node 2 tests/lightning_modules.py FOLDER` writes what each process found into
the folder."""

import json
import sys
import warnings
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import weft
from metric_cases import BUILT_IN, make_labels
from weft.integrations.lightning import EvaluationCallback

USERS, ITEMS, CUTOFFS = 41, 19, (3, 5)
QUIET = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


def data():
    """Scores with ties, ratings, and train, `[users, items]` each; some users have no relevant
    item.
    """
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 40, (USERS, ITEMS), generator=generator).float()
    target = (torch.rand((USERS, ITEMS), generator=generator) < 0.15) * torch.randint(
        1, 6, (USERS, ITEMS), generator=generator
    )
    return scores, target.float(), (torch.rand((USERS, ITEMS), generator=generator) < 0.3).int()


def everything(metrics=BUILT_IN, **settings):
    """An evaluator of every built-in metric, or of some."""
    inputs = {
        **make_labels(USERS, ITEMS),
        "train": data()[2],
        "num_users": USERS,
        "num_items": ITEMS,
    }
    return weft.Evaluator(metrics, CUTOFFS, **inputs, **settings)


class Users(Dataset):
    """Numbers of users."""

    def __init__(self, count=USERS):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        if number >= self.count:
            raise IndexError(number)
        return number


class Shares(IterableDataset):
    """The batches of each process: these users."""

    def __init__(self, *batches_of_ranks):
        self.batches_of_ranks = batches_of_ranks

    def __iter__(self):
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        return (torch.tensor(users, dtype=torch.int64) for users in self.batches_of_ranks[rank])


class Given(lightning.LightningModule):
    """The scores are given, and with each epoch of training the relevant items are shifted up."""

    def __init__(self, keys=("preds", "target", "user_indices")):
        super().__init__()
        self.scores, self.target, _ = data()
        self.shift, self.keys = nn.Parameter(torch.zeros(())), keys

    def at(self, users):
        return {
            "preds": self.scores[users] + self.shift * (self.target[users] > 0),
            "target": self.target[users],
            "user_indices": users,
        }

    def training_step(self, batch, batch_idx):
        return (self.shift - 100) ** 2

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        return {
            "loss": torch.zeros(()),
            **{name: value for name, value in self.at(batch).items() if name in self.keys},
        }

    def test_step(self, batch, batch_idx):
        return self.validation_step(batch, batch_idx)


def in_two_processes(folder):
    """Everything that takes two processes, in one launch."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import sasrec_lightning

    found, errors = {}, {}
    common = {**QUIET, "devices": 2, "strategy": "ddp", "default_root_dir": folder}

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # 41 users for two processes: Lightning's sampler fills up with one. Then all users in one
        # process; then uneven batches.
        loaders = [
            DataLoader(Users(), batch_size=4),
            DataLoader(Shares([range(9), range(9, USERS)], []), batch_size=None),
            DataLoader(
                Shares([range(11)], [[11], range(12, 30), range(30, USERS)]), batch_size=None
            ),
        ]
        callback = EvaluationCallback(everything(), save_to=folder / "saved")
        trainer = lightning.Trainer(
            **common, callbacks=[callback], logger=False, enable_checkpointing=False
        )
        trainer.validate(Given(), loaders, verbose=False)
        found |= callback.results

        callback = EvaluationCallback(
            everything(per_user=True), stages="val", save_to=folder / "fit.json"
        )
        best = ModelCheckpoint(folder / "best", monitor="val_nDCG@5", mode="max")
        logger = CSVLogger(folder / "log", name=None, version="")
        trainer = lightning.Trainer(
            **common, callbacks=[callback, best], max_epochs=2, logger=logger
        )
        trainer.fit(Given(), DataLoader(Users(), batch_size=8), DataLoader(Users(), batch_size=4))
        found["fit"] = callback.result
    said = [str(warning.message) for warning in said if "sync_dist" in str(warning.message)]

    tested, _, beyond = sasrec_lightning.run(
        epochs=1, devices=2, out=folder / "sasrec", num_users=101, size=16
    )
    found["sasrec"] = beyond.result

    may_skip = Given()
    may_skip.allow_zero_length_dataloader_with_multiple_devices = True
    for name, evaluator, module in (
        ("user_indices", everything(), Given(("preds", "target"))),
        ("sync", everything(sync_on_compute=False), Given()),
        ("skip", everything(), may_skip),
    ):
        trainer = lightning.Trainer(
            **common,
            callbacks=[EvaluationCallback(evaluator)],
            logger=False,
            enable_checkpointing=False,
        )
        try:
            trainer.validate(module, DataLoader(Users(), batch_size=4), verbose=False)
        except weft.errors.WeftError as error:
            errors[name] = str(error)

    report = {
        "found": {
            name: {"values": dict(result.to_tensors()), "counts": dict(result.counts)}
            for name, result in found.items()
        },
        "best": float(best.best_model_score),
        "tested": tested,
        "said": said,
        "errors": errors,
    }
    rank = torch.distributed.get_rank()
    (folder / f"rank{rank}.json").write_text(json.dumps(report, default=float))
    torch.distributed.barrier()


if __name__ == "__main__":
    in_two_processes(Path(sys.argv[1]))
