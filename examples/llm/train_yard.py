# SPDX-License-Identifier: Apache-2.0
"""Trains a small LLaMA-style language model on text files with plain PyTorch DDP.

An ordinary SageMaker training script: it reads SM_CHANNEL_TRAINING, keeps checkpoints in
/opt/ml/checkpoints and leaves the model in SM_MODEL_DIR. By hand:
    python train.py --train corpus/ --model-dir out/ --checkpoint-dir checkpoints/ --steps 50
"""
import argparse
import json
import math
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    """Pre-norm transformer block: rotary attention and a SwiGLU feed-forward of 8/3 d."""

    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        hidden = 8 * d_model // 3 // 32 * 32
        self.norm1, self.norm2 = nn.RMSNorm(d_model), nn.RMSNorm(d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)
        self.gate_up = nn.Linear(d_model, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, d_model, bias=False)

    def forward(self, x, rotary):
        batch, length, d_model = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, d_model // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, rotary), rotate(k, rotary), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, d_model))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, rotary):
    """Rotary position embedding (Su et al., 2021) on (batch, heads, length, head_dim)."""
    cos, sin = rotary
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Model(nn.Module):
    def __init__(self, vocab, d_model, layers, heads, length):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.blocks = nn.ModuleList(Block(d_model, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)
        half = d_model // heads // 2
        angles = torch.outer(torch.arange(length), 10000.0 ** -(torch.arange(half) / half))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        rotary = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, rotary)
        return self.head(self.norm(x))


def read_text(folder, limit):
    """The first `limit` bytes of the folder's files, in name order, as text."""
    text = b""
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        text += path.open("rb").read(limit - len(text))
    if not text:
        raise SystemExit(f"no text under {folder}")
    return text.decode("utf-8", errors="replace")


def shared(value):
    """Rank 0's value on every rank."""
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def prepare(args, rank, world):
    """The tokenizer (trained by rank 0) and this rank's part of the text as one row of tokens."""
    text = read_text(args.train, args.max_bytes)
    tokenizer = ByteLevelBPETokenizer()
    if rank == 0:
        sample = text[: 2 << 20].splitlines(keepends=True)
        tokenizer.train_from_iterator(sample, vocab_size=args.vocab, show_progress=False)
    tokenizer_json = shared(tokenizer.to_str())
    tokenizer = Tokenizer.from_str(tokenizer_json)
    part = len(text) // world
    lines = text[rank * part: (rank + 1) * part].splitlines(keepends=True)
    tokens = [i for line in tokenizer.encode_batch(lines) for i in line.ids]
    return tokenizer_json, tokenizer.get_vocab_size(), torch.tensor(tokens)


def batch_of(tokens, args, step, rank):
    """A function of (seed, step, rank) alone, so that a resumed run sees the same data."""
    seed = torch.Generator().manual_seed(args.seed * 1_000_003 + step * 1_009 + rank)
    starts = torch.randint(len(tokens) - args.length - 1, (args.batch,), generator=seed)
    rows = torch.stack([tokens[s: s + args.length + 1] for s in starts.tolist()])
    return rows[:, :-1], rows[:, 1:]


def learning_rate(step, args):
    """Linear warm-up, then half a cosine down to a tenth."""
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    progress = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def save(state, path):
    """Writes beside and renames: a checkpoint is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path.with_suffix(".tmp"))
    os.replace(path.with_suffix(".tmp"), path)


def newest_checkpoint(folder):
    found = sorted(Path(folder).glob("step-*.pt"))
    return torch.load(found[-1], weights_only=True) if found else None


def main():
    env = os.environ.get
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", default=env("SM_CHANNEL_TRAINING", "."), help="folder of text files")
    parser.add_argument("--model-dir", default=env("SM_MODEL_DIR", "model"))
    parser.add_argument("--checkpoint-dir", default="/opt/ml/checkpoints")
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate")
    for name, default, meaning in (
            ("steps", 200, "optimizer steps"), ("warmup", 20, "steps of linear warm-up"),
            ("batch", 16, "sequences a rank and step"), ("length", 128, "tokens a sequence"),
            ("d-model", 192, "width"), ("layers", 4, "blocks"), ("heads", 6, "attention heads"),
            ("vocab", 2048, "tokens in the vocabulary"), ("max-bytes", 8 << 20, "text that is used"),
            ("checkpoint-every", 50, "steps between checkpoints"), ("seed", 1, "of weights and data")):
        parser.add_argument(f"--{name}", type=int, default=default, help=meaning)
    args = parser.parse_args()

    os.environ.update(MASTER_ADDR=env("MASTER_ADDR", "127.0.0.1"), MASTER_PORT=env("MASTER_PORT", "29500"))
    dist.init_process_group("yard", rank=int(env("RANK", 0)), world_size=int(env("WORLD_SIZE", 1)))
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        print(f"{world} ranks have met", flush=True)
    torch.manual_seed(args.seed)

    tokenizer_json, vocab, tokens = prepare(args, rank, world)
    config = dict(vocab=vocab, **{k: getattr(args, k) for k in ("d_model", "layers", "heads", "length")})
    model = Model(**config)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    checkpoint = shared(newest_checkpoint(args.checkpoint_dir) if rank == 0 else None)
    first = checkpoint["step"] if checkpoint else 0
    if checkpoint:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    ddp = DistributedDataParallel(model)
    if rank == 0:
        size = sum(p.numel() for p in model.parameters()) / 1e6
        carrier = ddp.process_group._get_backend(torch.device("cpu")).name()
        print(f"{'resuming at step ' + str(first) if first else 'starting'}: {size:.1f} M parameters,"
              f" {world} ranks, {world * len(tokens):,} tokens of text, gradients by {carrier}", flush=True)

    since = time.monotonic()
    for step in range(first, args.steps):
        inputs, targets = batch_of(tokens, args, step, rank)
        optimizer.param_groups[0]["lr"] = learning_rate(step, args)
        loss = F.cross_entropy(ddp(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 0 or step + 1 == args.steps:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            rate = (step - first + 1) * world * inputs.numel() / (time.monotonic() - since)
            if rank == 0:
                print(f"step {step + 1} loss {mean.item() / world:.4f} lr {learning_rate(step, args):.2e}"
                      f" tokens/s {rate:.0f}", flush=True)
        if rank == 0 and (step + 1) % args.checkpoint_every == 0:
            state = dict(step=step + 1, model=model.state_dict(), optimizer=optimizer.state_dict())
            save(state, Path(args.checkpoint_dir) / f"step-{step + 1:08d}.pt")

    if rank == 0:
        save(model.state_dict(), Path(args.model_dir) / "model.pt")
        (Path(args.model_dir) / "config.json").write_text(json.dumps(config))
        (Path(args.model_dir) / "tokenizer.json").write_text(tokenizer_json)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
