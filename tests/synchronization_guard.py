"""A guard that raises where the host would wait for a device, on fake and on real tensors."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
_SYNCHRONIZING_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
_COPIES = {aten._to_copy.default, aten.copy_.default, aten.copy.default}


class SynchronizationError(AssertionError):
    """An operation made the host wait, or would on another device."""


class SynchronizationGuard(TorchDispatchMode):
    """Raises where the host would wait: for a value, a shape, a mask as index, or a copy.

    `device` is the device on which everything must happen; a tensor elsewhere is an error. With
    `may_send` the host may use its own tensors and send them to the device without waiting. Without
    a device, the CPU is treated as if it were one.
    """

    def __init__(self, device=None, *, may_send=False):
        super().__init__()
        self.device, self.may_send = device, may_send

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        is_of_host = self.may_send and all(one.device.type == "cpu" for one in given)
        if not is_of_host:
            _check_operation(func, args, kwargs)
        found = func(*args, **kwargs)
        if self.device is not None:
            elsewhere = [
                one for one in (*given, *_tensors(found)) if one.device.type != self.device
            ]
            is_sent = is_of_host and (
                func not in _COPIES
                or kwargs.get("non_blocking")
                or len(elsewhere) == len(given) + 1
            )
            # Python numbers become tensors by scalar_tensor.
            if elsewhere and not is_sent and func is not aten.scalar_tensor.default:
                raise SynchronizationError(f"{func} with a tensor on {elsewhere[0].device}")
        return found


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _check_operation(func, args, kwargs):
    if func in _INDEXING:  # tagged because of masks
        for index in (index for index in args[1] if index is not None):
            if index.dtype in (torch.bool, torch.uint8):
                raise SynchronizationError("a mask as index: the shape depends on the data")
            if index.device != args[0].device:
                raise SynchronizationError(
                    f"an index on {index.device} for values on {args[0].device}"
                )
    elif func is aten.repeat_interleave.Tensor:
        if kwargs.get("output_size") is None:
            raise SynchronizationError(
                "repeat_interleave without output_size: the shape depends on the data"
            )
    elif func is aten.equal.default or (_SYNCHRONIZING_TAGS & set(func.tags)):
        raise SynchronizationError(f"{func} reads a value, or a shape that depends on the data")


# Operations that the guard must detect, as functions of int64 and bool tensors `[n]`.
SYNCHRONIZING = {
    "item": lambda numbers, mask: numbers[0].item(),
    "if": lambda numbers, mask: 1 if mask[0] else 0,
    "nonzero": lambda numbers, mask: mask.nonzero(),
    "where": lambda numbers, mask: torch.where(mask),
    "a mask": lambda numbers, mask: numbers[mask],
    "writing to a mask": lambda numbers, mask: numbers.clone().__setitem__(mask, 0),
    "masked_select": lambda numbers, mask: numbers.masked_select(mask),
    "unique": lambda numbers, mask: numbers.unique(),
    "unique_consecutive": lambda numbers, mask: numbers.unique_consecutive(),
    "bincount": lambda numbers, mask: numbers.bincount(),
    "repeat_interleave": lambda numbers, mask: torch.repeat_interleave(numbers, numbers),
    "equal": lambda numbers, mask: torch.equal(numbers, numbers),
    "allclose": lambda numbers, mask: torch.allclose(numbers.double(), numbers.double()),
}
# Operations that synchronize only if there is another device.
SYNCHRONIZING_ON_DEVICE = {
    "tolist": lambda numbers, mask: numbers.tolist(),
    "cpu": lambda numbers, mask: numbers.cpu(),
    "a tensor made on the CPU": lambda numbers, mask: numbers + torch.arange(len(numbers)),
    "an unused tensor made on the CPU": lambda numbers, mask: torch.zeros(3),
    "an index on the CPU": lambda numbers, mask: numbers[[0, 1]],
    "a list as a tensor": lambda numbers, mask: torch.tensor([1, 2], device=numbers.device),
}
