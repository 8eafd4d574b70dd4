"""A guard under which nothing may make the host wait for a device: on fake tensors of another
device, and on real ones.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
_WAITING_TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
}
_COPIES = {aten._to_copy.default, aten.copy_.default, aten.copy.default}


class Waited(AssertionError):
    """Something made the host wait, or would on another device."""


class NoWaiting(TorchDispatchMode):
    """Raises where the host would wait: to read a value, to know a shape, to use a mask as an
    index, to copy between devices.

    `device`: where everything is to happen; a tensor elsewhere is refused. With `may_send` the host
    may work on its own tensors and send them to the device, if nobody waits for that. Without a
    device, the tensors are those of the CPU, which stands for any."""

    def __init__(self, device=None, *, may_send=False):
        super().__init__()
        self.device, self.may_send = device, may_send

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        is_of_host = self.may_send and all(one.device.type == "cpu" for one in given)
        if not is_of_host:
            _refuse_waiting(func, args, kwargs)
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
            if (
                elsewhere and not is_sent and func is not aten.scalar_tensor.default
            ):  # which is how numbers come in
                raise Waited(f"{func} with a tensor on {elsewhere[0].device}")
        return found


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _refuse_waiting(func, args, kwargs):
    if func in _INDEXING:  # which are tagged, for the sake of masks
        for index in (index for index in args[1] if index is not None):
            if index.dtype in (torch.bool, torch.uint8):
                raise Waited("a mask as an index: how many it chooses is data")
            if index.device != args[0].device:
                raise Waited(f"an index on {index.device} for values on {args[0].device}")
    elif func is aten.repeat_interleave.Tensor:
        if kwargs.get("output_size") is None:
            raise Waited("repeat_interleave without output_size: how long the result is, is data")
    elif func is aten.equal.default or (_WAITING_TAGS & set(func.tags)):
        raise Waited(f"{func} gives the host a value, or a shape that is data")


# What the guard must catch, as functions of a tensor of counts and one of bool, both `[n]`.
CAUGHT = {
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
# And what only shows where there is another device.
CAUGHT_ELSEWHERE = {
    "tolist": lambda numbers, mask: numbers.tolist(),
    "cpu": lambda numbers, mask: numbers.cpu(),
    "a tensor made on the CPU": lambda numbers, mask: numbers + torch.arange(len(numbers)),
    "an unused tensor made on the CPU": lambda numbers, mask: torch.zeros(3),
    "an index on the CPU": lambda numbers, mask: numbers[[0, 1]],
    "a list as a tensor": lambda numbers, mask: torch.tensor([1, 2], device=numbers.device),
}
