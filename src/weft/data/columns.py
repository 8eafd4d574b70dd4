"""A value for each item or user, by code, as tensors on whatever device asks."""

from __future__ import annotations

import torch
from torch import Tensor


class Column:
    """Values `[n]` by code. A device gets its copy once."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self._copies: dict[torch.device, Tensor] = {values.device: values}

    def __len__(self) -> int:
        return len(self.values)

    def on(self, device: torch.device) -> Tensor:
        """The values on a device."""
        if device not in self._copies:
            narrow = device.type == "mps" and self.values.dtype == torch.float64
            self._copies[device] = self.values.to(device, torch.float32 if narrow else self.values.dtype)
        return self._copies[device]

    def at(self, codes: Tensor, fill: float = 0) -> Tensor:
        """The value at each code; `fill` where a code is -1, "none"."""
        values = self.on(codes.device)
        if len(values) == 0:
            return torch.full_like(codes, fill, dtype=values.dtype)
        flat = codes.reshape(-1)
        if codes.device.type == "cpu" and (len(flat) == 0 or int(flat.min()) >= 0):  # elsewhere this would wait
            return values.index_select(0, flat).view(codes.shape)
        return values.index_select(0, flat.clamp(min=0)).view(codes.shape).masked_fill_(codes < 0, fill)
