"""Streams: what a batch holds, and that it depends on (seed, t, rank, world size) alone."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fpgm.data.batches.batch import Geometry, Strength, Views
from fpgm.data.batches.pool import Pool
from fpgm.data.batches.streams import Stream
from fpgm.data.manifest import ImageRow, Manifest
from fpgm.data.store import Store, StoredImage, write_store
from tests.data.batches.making import ABD, PAPER, PLAIN, RELEASED, SUPERVISED, FakeStore, pool, same, stream, tensors

# ---- what is in a batch


@pytest.mark.parametrize(
    ("views", "strong_l", "weak_u", "strong_u", "boxes_u", "weak_m"),
    [
        (SUPERVISED, 0, 0, 0, 0, 0),
        (Views(), 0, 4, 0, 0, 0),
        (PAPER, 0, 4, 1, 0, 0),
        (RELEASED, 0, 4, 2, 2, 4),
        (ABD, 1, 4, 1, 0, 0),
    ],
    ids=["supervised", "weak", "paper", "released", "abd"],
)
def test_a_batch_holds_what_was_declared(
    views: Views, strong_l: int, weak_u: int, strong_u: int, boxes_u: int, weak_m: int
) -> None:
    batch = stream(views).batch(0)
    assert batch.image_l.shape == (4, 3, 16, 16)
    assert batch.mask_l.shape == (4, 16, 16) and batch.mask_l.dtype == torch.int64
    assert [view.shape for view in batch.strong_l] == [(4, 3, 16, 16)] * strong_l
    assert [mask.shape for mask in batch.strong_mask_l] == [(4, 16, 16)] * strong_l
    assert batch.weak_u.shape == (weak_u, 3, 16, 16) and len(batch.id_u) == weak_u
    assert [view.shape for view in batch.strong_u] == [(4, 3, 16, 16)] * strong_u
    assert [(box.shape, box.dtype) for box in batch.boxes_u] == [((4, 16, 16), torch.bool)] * boxes_u
    assert batch.weak_m.shape == (weak_m, 3, 16, 16) and len(batch.id_m) == weak_m
    assert len(batch.strong_m) == (strong_u if weak_m else 0)
    for image in (batch.image_l, *batch.strong_l, batch.weak_u, *batch.strong_u, batch.weak_m, *batch.strong_m):
        assert image.dtype == torch.float32 and image.is_contiguous()
        assert not image.numel() or (image.min() >= 0 and 0.5 < image.max() <= 1)


def test_pixels_and_masks_are_those_of_the_store_moved_together() -> None:
    source = FakeStore("a", 10)
    batch = Stream(pool(source), None, SUPERVISED, seed=0, weak=0.0).batch(0)
    rows = [int(entry.removeprefix("a/")) for entry in batch.id_l]
    assert torch.equal(batch.image_l, torch.from_numpy(source.pictures[rows]).permute(0, 3, 1, 2) / 255)
    moved = stream().batch(0)
    assert torch.equal(moved.mask_l, (moved.image_l[:, 0] > 0.5).long())
    still = stream(weak=0).batch(0)
    assert still.id_l == moved.id_l and not torch.equal(still.image_l, moved.image_l)


def test_strong_views_lie_on_their_weak_views() -> None:
    views = Views(strong=2, strong_labeled=True, mix=True, strength=PLAIN)
    batch = stream(views).batch(3)
    pairs = [(batch.image_l, batch.strong_l), (batch.weak_u, batch.strong_u), (batch.weak_m, batch.strong_m)]
    assert all(torch.equal(weak, view) for weak, strong in pairs for view in strong)
    assert torch.equal(batch.mask_l, batch.strong_mask_l[0])


def test_geometry_moves_an_image_with_its_mask_and_before_its_strong_views() -> None:
    source = FakeStore("a", 10)
    source.pictures = np.where(np.arange(16)[:, None, None] < 8, 0, 255).astype(np.uint8) + 0 * source.pictures
    views = Views(strong=1, strong_labeled=True, strength=PLAIN)
    batch = Stream(pool(source), pool(source), views, seed=0, geometry=Geometry(probability=1)).batch(0)
    assert ((batch.image_l[:, 0] > 0.5) == (batch.mask_l > 0)).float().mean() > 0.95
    assert torch.equal(batch.image_l, batch.strong_l[0]) and torch.equal(batch.weak_u, batch.strong_u[0])
    assert not torch.equal(batch.mask_l, Stream(pool(source), pool(source), views, seed=0).batch(0).mask_l)


def test_a_share_of_the_labelled_images_takes_its_strong_view() -> None:
    weak, every, half = (stream(ABD, batch_labeled=10, strong_labeled=share).batch(0) for share in (0, 1, 0.5))
    changed = [
        [not torch.equal(a, b) for a, b in zip(weak.image_l, other.image_l, strict=True)] for other in (every, half)
    ]
    assert sum(changed[0]) > sum(changed[1]) > 0
    assert torch.equal(weak.mask_l, every.mask_l) and torch.equal(weak.strong_l[0], every.strong_l[0])


def test_strong_views_and_boxes_are_drawn_apart() -> None:
    batch = stream(RELEASED, batch_unlabeled=8).batch(0)
    assert not torch.equal(*batch.strong_u) and not torch.equal(*batch.boxes_u)
    assert not any(torch.equal(u, m) for u, m in zip(batch.strong_u, batch.strong_m, strict=True))


def test_labelled_unlabelled_and_partner_images_are_drawn_apart() -> None:
    source = FakeStore("a", 8)
    source.pictures[:] = source.pictures[0]
    batch = Stream(pool(source), pool(source), Views(mix=True), seed=0).batch(0)
    first, second, third = batch.image_l, batch.weak_u, batch.weak_m
    assert not (torch.equal(first, second) or torch.equal(first, third) or torch.equal(second, third))


def test_a_cut_out_clears_the_mask_of_its_view() -> None:
    views = Views(strong_labeled=True, strength=Strength(jitter=0, blur=0, cutout=1))
    batch = stream(views).batch(0)
    (strong,), (mask,) = batch.strong_l, batch.strong_mask_l
    cut = (strong != batch.image_l).any(1)
    assert cut.any() and not mask[cut].any()
    gone = mask != batch.mask_l  # in the box, nothing else
    assert gone.any() and not ((strong[:, 0] > 0.5) & ~cut & gone).any()


# ---- which images, in which order


@given(count=st.integers(1, 40), batch=st.integers(1, 12), seed=st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_no_image_twice_in_an_epoch(count: int, batch: int, seed: int) -> None:
    source = Stream(pool(FakeStore("a", count, 2)), None, SUPERVISED, seed=seed, batch_labeled=batch)
    steps = max(1, count // batch)
    for epoch in range(3):
        ids = [entry for t in range(epoch * steps, (epoch + 1) * steps) for entry in source.batch(t).id_l]
        counts = Counter(ids).values()
        if count >= batch:
            assert len(ids) == steps * batch and max(counts) == 1
        else:  # wrapped: every image comes, and none more than once more often than another
            assert len(counts) == count and max(counts) - min(counts) <= 1


def test_epochs_differ_and_leave_out_different_images() -> None:
    source = stream(labeled=10)  # two steps of four: two images are left out
    epochs = [source.batch(2 * e).id_l + source.batch(2 * e + 1).id_l for e in range(12)]
    assert len(set(epochs)) == 12
    assert len(Counter(entry for epoch in epochs for entry in epoch)) == 10


def test_mix_partners_come_from_a_shuffle_of_their_own() -> None:
    source = stream(RELEASED)
    batches = [source.batch(t) for t in range(5)]
    assert {entry for b in batches for entry in b.id_m} == {entry for b in batches for entry in b.id_u}
    assert all(b.id_m != b.id_u for b in batches)


def test_labelled_images_are_the_same_for_every_method() -> None:
    recipe = {"geometry": Geometry(probability=0.5), "strong_labeled": 0.5}
    for options in ({}, recipe):
        first = stream(SUPERVISED, **options).batch(7)
        for second in (stream(RELEASED, unlabeled=13, **options).batch(7), stream(ABD, **options).batch(7)):
            assert first.id_l == second.id_l
            assert torch.equal(first.image_l, second.image_l) and torch.equal(first.mask_l, second.mask_l)


# ---- (seed, t, rank, world size)


def test_batch_t_does_not_depend_on_what_came_before() -> None:
    first, second = stream(RELEASED), stream(RELEASED)
    forward = [first.batch(t) for t in range(8)]
    backward = [second.batch(t) for t in reversed(range(8))][::-1]
    assert all(map(same, forward, backward))
    assert not any(same(forward[0], other) for other in forward[1:])
    assert not same(forward[0], stream(RELEASED, seed=2).batch(0))


def test_a_seed_fixes_the_batches_for_good() -> None:
    batch = stream(RELEASED).batch(5)
    assert batch.id_l == ("a/003", "a/008", "a/002", "a/006"), "a change here breaks the resuming of old runs"


@pytest.mark.parametrize("world_size", [2, 4])
def test_all_ranks_together_see_the_batch_of_one_process(world_size: int) -> None:
    options = {"batch_labeled": 4, "batch_unlabeled": 8, "geometry": Geometry(probability=0.5), "strong_labeled": 0.5}
    ranks = [stream(RELEASED, rank=rank, world_size=world_size, **options) for rank in range(world_size)]
    for t in (0, 3, 11):
        whole, parts = stream(RELEASED, **options).batch(t), [source.batch(t) for source in ranks]
        for ids in ("id_l", "id_u", "id_m"):
            shares = [getattr(part, ids) for part in parts]
            assert sum(shares, ()) == getattr(whole, ids)
            assert len(set().union(*shares)) == sum(map(len, shares))
        for tensor, shares in zip(tensors(whole), zip(*map(tensors, parts), strict=True), strict=True):
            assert torch.equal(tensor, torch.cat(shares))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_loop_gives_the_batches_bit_for_bit_wherever_it_starts(workers: int) -> None:
    source = stream(RELEASED)
    whole, rest = list(source.loop(0, 9, workers)), list(source.loop(4, 9, workers))
    assert [batch.index for batch in whole] == list(range(9))
    assert all(map(same, whole, map(source.batch, range(9))))
    assert all(map(same, rest, whole[4:]))
    assert list(source.loop(4, 4, workers)) == []


def test_large_pictures_are_alike_from_a_worker_with_one_thread() -> None:
    labeled, unlabeled = FakeStore("a", 2, 256), FakeStore("b", 2, 256)
    source = Stream(pool(labeled), pool(unlabeled), PAPER, seed=3, batch_labeled=1, batch_unlabeled=1)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert all(map(same, source.loop(0, 6), map(source.batch, range(6))))
    finally:
        torch.set_num_threads(threads)


def test_a_stream_can_be_sent_to_another_process() -> None:
    source = stream(RELEASED)
    assert same(pickle.loads(pickle.dumps(source)).batch(2), source.batch(2))


def test_global_randomness_is_neither_used_nor_changed() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = stream(RELEASED).batch(1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert same(first, stream(RELEASED).batch(1))


# ---- what is not read


def test_supervised_training_reads_no_unlabelled_image() -> None:
    broken = pool(FakeStore("b", broken="images masks"))
    assert same(
        Stream(pool(FakeStore("a")), broken, SUPERVISED, seed=1).batch(0),
        Stream(pool(FakeStore("a")), None, SUPERVISED, seed=1).batch(0),
    )


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    """Two prepared data sets of ten images; the second has no masks."""
    folder, rng = tmp_path_factory.mktemp("store"), np.random.default_rng(0)
    for name, masked in (("x", True), ("y", False)):
        records = []
        for i in range(10):
            image = rng.integers(0, 256, (32, 32, 3), np.uint8)
            row = ImageRow(f"{i}", None, None, None, None, 32, 32, 0.5 if masked else None)
            records.append(
                StoredImage(row, image, (image[..., 0] > 127).astype(np.uint8) if masked else None, "0" * 64)
            )
        header = {"name": name, "source": "test", "size": 32, "rules": {}, "inputs": ""}
        write_store(folder / name, records, lambda rows, header=header: Manifest.describe(rows, **header))
    return {name: Store.open(folder / name) for name in ("x", "y")}


def test_streams_read_prepared_stores(stores: dict[str, Store]) -> None:
    labeled = Pool(stores, [f"x/{i}" for i in range(4)])
    unlabeled = Pool(stores, ["y/3", "x/7", "y/0", "x/5"])
    source = Stream(labeled, unlabeled, PAPER, seed=0, batch_labeled=4, batch_unlabeled=4)
    stores["x"].images([0])  # the file is open here before the workers start
    batches = list(source.loop(0, 6, 2))
    assert all(map(same, batches, map(source.batch, range(6))))
    assert all(torch.equal(batch.mask_l, (batch.image_l[:, 0] > 0.5).long()) for batch in batches)
    pixels = unlabeled.images(np.array([1, 0, 1]))
    assert np.array_equal(
        pixels, np.concatenate((stores["x"].images([7]), stores["y"].images([3]), stores["x"].images([7])))
    )


# ---- mistakes


def test_streams_explain_what_is_wrong(stores: dict[str, Store]) -> None:
    with pytest.raises(ValueError, match="10 labelled images have no mask, y/0 for one"):
        Stream(Pool(stores, [f"y/{i}" for i in range(10)]), None, SUPERVISED, seed=0)
    with pytest.raises(ValueError, match="wants unlabelled images"):
        Stream(pool(FakeStore("a")), None, PAPER, seed=0)
    with pytest.raises(ValueError, match="labelled images are of size 16, unlabelled ones 32"):
        Stream(pool(FakeStore("a")), pool(FakeStore("b", size=32)), PAPER, seed=0)
    with pytest.raises(ValueError, match="4 images in a step for 3 processes"):
        stream(world_size=3)
    with pytest.raises(ValueError, match="seed is -1"):
        stream(seed=-1)
