"""Engines that evaluate users on several processes or machines and merge their states."""
