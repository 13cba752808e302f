"""Requests beside tools, for networks that read both: which pairs are looked at, and how wrong a network is about them.

A request is set beside the tool it asks for, the siblings that the encoder finds nearest, and near tools of other
servers that are not nearly the same; a request that nothing serves, beside its server's nearest tools. What is learnt
is whether each pair fits, and which of the tools, or none.
"""

import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as nn
from material import say
from pairs import Server, read_all
from student import Student

SIBLINGS, OTHERS = 4, 3
"""Wrong tools beside each request: of its server, and of others."""
SHOWN = (0.45, 0.4, 0.15)
"""How often a tool is read with what it does, with more text besides, and by its name alone."""
SAME = 0.75
"""The cosine from which a tool of another server counts as nearly the same."""


@dataclass
class Batch:
    """Texts of requests and tools, and the pairs of them that are looked at."""

    tools: torch.Tensor
    requests: torch.Tensor
    served: torch.Tensor
    pairs: torch.Tensor
    """The request's place in the batch, and which of its candidates: the first is the right one."""
    places: torch.Tensor
    """Of the tool of each pair."""
    there: torch.Tensor
    """Which candidates each request has."""


class Material:
    """Servers as arrays on the device, and the encoder's vectors of all texts."""

    def __init__(self, options: argparse.Namespace, state: dict[str, torch.Tensor], device: str) -> None:
        self.texts, self.written, self.corpus = read_all(options.data, options.paraphrases)
        ids, lengths = self.texts.cut(options.data)
        self.ids = torch.from_numpy(ids.astype(np.int32)).to(device)
        self.lengths = torch.from_numpy(lengths.astype(np.int64)).to(device)
        heads = options.heads
        student = Student(len(state["embeddings"]), 256, options.layers, heads, state["up.0"].shape[1], [options.early])
        student.load_state_dict(state, strict=False)
        student.to(device).eval()
        found: list[torch.Tensor] = []
        with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            for at in range(0, len(ids), 4096):
                size = self.lengths[at : at + 4096]
                found.append(student(self.ids[at : at + 4096, : int(size.max())].long(), size).half())
        self.as_tools, self.as_requests = torch.cat(found, 1)
        say(len(self.written), "and", len(self.corpus), "servers", len(ids), "texts")

    def batch(self, chance: np.random.Generator, size: int, servers: list[Server]) -> Batch:
        rows: list[list[int]] = [[], [], [], [], []]
        tools, owners, requests, wanted, askers = rows
        for number in iter(range(1 << 30)):
            if len(requests) >= size:
                break
            server = servers[int(chance.integers(len(servers)))]
            if not server.requests:
                continue
            picked = chance.permutation(len(server.requests))[:14]
            requests += [server.requests[at][0] for at in picked]
            wanted += [len(tools) + server.requests[at][1] for at in picked]
            missing = chance.permutation(len(server.unserved))[:6]
            requests += [server.unserved[at] for at in missing]
            wanted += [-1] * len(missing)
            askers += [number] * (len(picked) + len(missing))
            tools += [texts[chance.choice(3, p=SHOWN)] for texts in server.tools]
            owners += [number] * len(server.tools)
        return self._pair(*(torch.tensor(one, device=self.ids.device) for one in rows))

    @torch.no_grad()
    def _pair(
        self,
        tools: torch.Tensor,
        owners: torch.Tensor,
        requests: torch.Tensor,
        wanted: torch.Tensor,
        askers: torch.Tensor,
    ) -> Batch:
        """`wanted` is the place of the tool that is asked for, or -1; the others are servers."""
        of_tools, of_requests = self.as_tools[tools].float(), self.as_requests[requests].float()
        near = of_requests @ of_tools.T + 0.15 * torch.rand(len(requests), len(tools), device=tools.device)
        each, served, right = torch.arange(len(requests), device=tools.device), wanted >= 0, wanted.clamp(min=0)
        own = askers[:, None] == owners[None]
        near = near.masked_fill((of_tools[right] @ of_tools.T > SAME) & ~own & served[:, None], -9)
        near[each[served], right[served]] = -9
        siblings = near.masked_fill(~own, -9).topk(SIBLINGS, 1)
        others = near.masked_fill(own | ~served[:, None], -9).topk(OTHERS, 1)
        chosen = torch.cat([right[:, None], siblings.indices, others.indices], 1)
        there = torch.cat([served[:, None], siblings.values > -5, others.values > -5], 1)
        return Batch(tools, requests, served, there.nonzero(), chosen[there], there)


def wrongness(batch: Batch, weighed: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """How far it is from telling which pairs fit, from choosing the right tool or none, and how often it chooses so."""
    fits = (batch.pairs[:, 1] == 0).float()
    weight = torch.where(batch.pairs[:, 1] > SIBLINGS, 0.6, 1.0) * (1 + 2 * fits)
    parting = (nn.binary_cross_entropy_with_logits(weighed, fits, reduction="none") * weight).mean()
    every = torch.full(batch.there.shape, -1e4, device=weighed.device).index_put(tuple(batch.pairs.T), weighed)
    none = torch.zeros(len(every), 1, device=weighed.device)
    choosing = nn.cross_entropy(torch.cat([every, none], 1), torch.where(batch.served, 0, every.shape[1]))
    return parting, choosing, (every.argmax(1) == 0)[batch.served].float().mean()
