# SPDX-License-Identifier: Apache-2.0
"""Writes text with a model that train.py has made.

    "$(tools/python_env torch)/bin/python" examples/llm/sample.py model.tar.gz --prompt Train --tokens 80
"""
import argparse
import json
import tarfile
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer
from train import Model


def load(artifact):
    """The model and its tokenizer from a model.tar.gz, or from the folder that it was packed from."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(artifact)
        if folder.is_file():
            with tarfile.open(folder) as archive:
                archive.extractall(scratch)
            folder = Path(scratch)
        model = Model(**json.loads((folder / "config.json").read_text()))
        model.load_state_dict(torch.load(folder / "model.pt", weights_only=True))
        return model.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))


@torch.no_grad()
def sample(model, tokenizer, prompt, count, temperature, seed):
    """`count` tokens after `prompt`, drawn from the 40 likeliest each time."""
    generator = torch.Generator().manual_seed(seed)
    tokens = tokenizer.encode(prompt).ids
    for _ in range(count):
        window = torch.tensor([tokens[-len(model.cos):]])
        values, indices = (model(window)[0, -1] / temperature).topk(40)
        choice = torch.multinomial(values.softmax(-1), 1, generator=generator)
        tokens.append(indices[choice].item())
    return tokenizer.decode(tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("artifact", help="model.tar.gz or the folder with its files")
    parser.add_argument("--prompt", default="Train")
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    model, tokenizer = load(args.artifact)
    print(sample(model, tokenizer, args.prompt, args.tokens, args.temperature, args.seed))


if __name__ == "__main__":
    main()
