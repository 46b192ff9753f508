"""Environments that return typed time steps."""

from proxrl.envs.journal import Environment, Episodes, NotRestorable
from proxrl.envs.make import make
from proxrl.envs.stack import FrameStack

__all__ = ["Environment", "Episodes", "FrameStack", "NotRestorable", "make"]
