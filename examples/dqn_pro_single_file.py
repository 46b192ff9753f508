"""DQN Pro on CartPole in one file: a plain DQN loop and one additional line.

    python examples/dqn_pro_single_file.py                  # with the pull
    python examples/dqn_pro_single_file.py --c inf          # without: plain DQN

`Proximal(...)` wraps the optimizer: each step first moves w by lr/c of the way to the target's.
"""

import argparse
import copy
from collections import deque

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from proxrl import Proximal


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="DQN with the proximal term, on CartPole")
    parser.add_argument("--c", type=float, default=0.064, help="inf: plain DQN; 0.064: kappa = 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--discount", type=float, default=0.99)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--warmup-steps", type=int, default=1_000)
    parser.add_argument("--update-period", type=int, default=2, help="steps between two updates")
    parser.add_argument("--target-period", type=int, default=256, help="steps between two syncs")
    parser.add_argument("--final-epsilon", type=float, default=0.04)
    parser.add_argument("--epsilon-steps", type=int, default=8_000, help="of its linear decay")
    return parser.parse_args(words)


def make_network(observation_size: int, actions: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(observation_size, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, actions),
    )  # fmt: skip


def train(args: argparse.Namespace) -> tuple[nn.Module, list[float]]:
    """The trained network and the return of every episode."""
    torch.manual_seed(args.seed)
    draw = np.random.default_rng(args.seed)
    env = gym.make("CartPole-v1")
    actions = int(env.action_space.n)
    online = make_network(env.observation_space.shape[0], actions)
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = Proximal(torch.optim.Adam(online.parameters(), args.learning_rate), target, args.c)

    replay: deque[tuple[np.ndarray, int, float, np.ndarray, bool]] = deque(maxlen=50_000)
    returns: list[float] = []
    total, loss, apart = 0.0, 0.0, 0.0
    observation, _ = env.reset(seed=args.seed)

    for step in range(1, args.steps + 1):
        # Act.
        decayed = min(1.0, step / args.epsilon_steps)
        if draw.random() < 1.0 - decayed * (1.0 - args.final_epsilon):
            action = int(draw.integers(actions))
        else:
            with torch.no_grad():
                action = int(online(torch.as_tensor(observation)).argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        replay.append((observation, action, float(reward), following, terminated))
        observation, total = following, total + float(reward)
        if terminated or truncated:
            returns.append(total)
            if len(returns) % 50 == 0:
                print(f"step {step:>6}  return {np.mean(returns[-50:]):6.1f}  "
                      f"loss {loss:.4f}  target distance {apart:.3f}", flush=True)  # fmt: skip
            (observation, _), total = env.reset(), 0.0
        if step <= args.warmup_steps:
            continue

        # Learn.
        if step % args.update_period == 0:
            chosen = [replay[i] for i in draw.integers(len(replay), size=args.batch_size)]
            columns = [torch.as_tensor(np.array(column)) for column in zip(*chosen, strict=True)]
            states, taken, rewards, next_states, ended = columns  # each [batch, ...]
            with torch.no_grad():
                best = target(next_states).max(dim=1).values
                goals = rewards.float() + args.discount * ~ended * best
            values = online(states).gather(1, taken[:, None]).squeeze(1)
            h = nn.functional.smooth_l1_loss(values, goals)
            optimizer.zero_grad()
            h.backward()
            optimizer.step()  # w <- w + (lr/c)(theta - w), then Adam with the gradient taken before
            loss = h.item()

        # Sync.
        if step % args.target_period == 0:
            apart = optimizer.distance()  # ||w - theta||: the size of this target update
            target.load_state_dict(online.state_dict())

    env.close()
    return online, returns


def evaluate(network: nn.Module, episodes: int = 20) -> float:
    """Mean return without exploration."""
    env, total = gym.make("CartPole-v1"), 0.0
    for seed in range(episodes):
        (observation, _), over = env.reset(seed=seed), False
        while not over:
            with torch.no_grad():
                action = int(network(torch.as_tensor(observation)).argmax())
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
    return total / episodes


if __name__ == "__main__":
    trained, _ = train(arguments())
    print(f"mean return of 20 episodes without exploration: {evaluate(trained):.1f}")
