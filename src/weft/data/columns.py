"""A value for each item or user, by code, as tensors on whatever device asks."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.data.devices import float_type, is_host_readable, to_device


class DeviceColumn:
    """Values `[n]` by code. A device gets its copy once."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self._copies: dict[torch.device, Tensor] = {values.device: values}

    def __len__(self) -> int:
        return len(self.values)

    def on(self, device: torch.device) -> Tensor:
        """The values on a device."""
        if device not in self._copies:
            wide = self.values.dtype == torch.float64
            self._copies[device] = to_device(
                self.values, device, float_type(device) if wide else None
            )
        return self._copies[device]

    def at(self, codes: Tensor, fill: float = 0) -> Tensor:
        """The value at each code; `fill` where a code is -1, "none" (and, where the host does not
        see it, where it is no code).
        """
        values = self.on(codes.device)
        if len(values) == 0:
            return torch.full_like(codes, fill, dtype=values.dtype)
        flat = codes.reshape(-1)
        if not is_host_readable(codes.device):
            known = flat.clamp(0, len(values) - 1)
            return torch.where(known == flat, values.index_select(0, known), fill).view(codes.shape)
        if len(flat) == 0 or int(flat.min()) >= 0:
            return values.index_select(0, flat).view(codes.shape)
        return (
            values.index_select(0, flat.clamp(min=0))
            .view(codes.shape)
            .masked_fill_(codes < 0, fill)
        )
