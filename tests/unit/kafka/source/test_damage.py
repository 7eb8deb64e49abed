"""Files that are torn, padded, overwritten: what precedes the damage is kept, and the damage has a name."""

import struct
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.kafka.source import batches
from agent.kafka.source.problems import ProblemKind
from tests import examples

from .building import LZ4, batch, committed, marker, offsets, old_batch, raw, write


@pytest.fixture(params=[1 << 22, 64, 200], ids=["one chunk", "chunks below a batch", "chunks across batches"])
def chunk(request, monkeypatch):
    monkeypatch.setattr(batches, "_CHUNK_BYTES", request.param)


FRAMES = [batch(0), batch(1, 3), batch(4, 2, codec=LZ4), marker(6, 1, commit=True), batch(7)]
ENDS = [0, *(sum(map(len, FRAMES[: i + 1])) for i in range(len(FRAMES)))]
WITHIN = [[], [0], [1, 2, 3], [4, 5], [], [7]]


def test_torn_at_every_byte(tmp_path, chunk):
    whole = b"".join(FRAMES)
    for size in range(len(whole) + 1):
        records, problems = committed(write(tmp_path, whole[:size]))
        complete = sum(end <= size for end in ENDS) - 1
        assert offsets(records) == list(chain(*WITHIN[: complete + 1]))
        if size in ENDS:
            assert problems == []
        else:
            (problem,) = problems
            assert problem.kind is ProblemKind.TORN
            assert (problem.position, problem.skipped_bytes) == (ENDS[complete], size - ENDS[complete])


def test_every_byte_of_a_batch_flipped(tmp_path, chunk):
    """Only what the CRC does not cover may pass unnoticed: the leader epoch, and offsets still in range."""
    middle = FRAMES[1]
    for position in range(len(middle)):
        damaged = bytearray(middle)
        damaged[position] ^= 0x40
        records, problems = committed(write(tmp_path, FRAMES[0], bytes(damaged), *FRAMES[2:]))
        assert offsets(records)[:1] == [0]
        if 12 <= position < 16:
            assert offsets(records) == [0, 1, 2, 3, 4, 5, 7]
            assert problems == []
        elif 4 <= position < 8:
            assert offsets(records)[0] == 0
        else:
            assert problems
            assert problems[0].position == ENDS[1]
            if position >= 16 or position < 4:
                assert offsets(records) == [0, 4, 5, 7], position
                assert problems[0].skipped_bytes == len(middle)


def test_zero_padding_is_told_and_harmless(tmp_path, chunk):
    for zeros in (12, 17, 23, 61, 5000):
        records, (problem,) = committed(write(tmp_path, *FRAMES, bytes(zeros)))
        assert offsets(records) == [0, 1, 2, 3, 4, 5, 7]
        assert (problem.kind, problem.position, problem.harmless) == (ProblemKind.PADDING, ENDS[-1], True)


def test_zeros_with_something_behind_them_are_no_padding(tmp_path):
    records, (problem,) = committed(write(tmp_path, batch(0), bytes(100), batch(1)))
    assert offsets(records) == [0, 1]
    assert (problem.kind, problem.harmless, problem.skipped_bytes) == (ProblemKind.GARBAGE, False, 100)
    assert "its length field says 0" in problem.message


def test_a_wrong_crc_skips_the_batch_and_says_what_and_where(tmp_path):
    broken = bytearray(batch(1, 3))
    broken[-1] ^= 1
    log = write(tmp_path, batch(0), bytes(broken), batch(4))
    for records, (problem,) in (committed(log), raw(log)):
        assert offsets(records) == [0, 4]
        assert (problem.kind, problem.partition, problem.offset) == (ProblemKind.CRC, 3, 1)
        assert str(problem).startswith(f"{log.segments[0]}: byte {len(batch(0))}, offset 1: crc: expected a batch of")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_have_a_crc_too(tmp_path, magic):
    broken = bytearray(old_batch(1, 1, magic))
    broken[-1] ^= 1
    records, (problem,) = committed(write(tmp_path, old_batch(0, 1, magic), bytes(broken), old_batch(2, 1, magic)))
    assert offsets(records) == [0, 2]
    assert problem.kind is ProblemKind.CRC


@pytest.mark.parametrize("length", [85, -1, 0, 1 << 29])
@pytest.mark.parametrize("end", [b"", bytes(500)], ids=["no padding", "zeros at the end"])
def test_behind_a_length_that_cannot_be_the_next_batch_is_searched(tmp_path, chunk, length, end):
    """85 is sane, and leads into the midst of the next batch."""
    broken = bytearray(batch(1))
    struct.pack_into(">i", broken, 8, length)
    log = write(tmp_path, batch(0), bytes(broken), batch(2), batch(3), end)
    for records, problems in (committed(log), raw(log)):
        assert offsets(records) == [0, 2, 3]
        assert problems[0].kind in (ProblemKind.CRC, ProblemKind.GARBAGE)
        assert (problems[0].position, problems[0].skipped_bytes) == (len(batch(0)), len(broken))


def test_bytes_that_are_missing_cost_their_batch(tmp_path, chunk):
    log = write(tmp_path, batch(0), batch(1, 3)[:-7], batch(4, 2), batch(6))
    records, (problem,) = committed(log)
    assert offsets(records) == [0, 4, 5, 6]
    assert problem.skipped_bytes == len(batch(1, 3)) - 7


@pytest.mark.parametrize("behind", [b"", batch(900)[:40]], ids=["alone", "with a header behind it"])
def test_a_batch_that_a_value_holds_is_none(tmp_path, chunk, behind):
    """Names and metadata are strangers' bytes: who looks for a header behind damage may meet theirs."""
    forged = batch(700) + behind
    broken = bytearray(batch(1, holding=forged))
    struct.pack_into(">i", broken, 8, -1)
    records, (problem,) = committed(write(tmp_path, batch(0), bytes(broken), batch(2)))
    assert offsets(records) == [0, 2]
    assert problem.skipped_bytes == len(broken)


def test_what_is_sound_between_two_damaged_places_is_read(tmp_path):
    """As where pages of a disk are gone: the frames of neither place lead on. More than a value may hold lies between
    them, so no stranger has written it."""
    between = [batch(offset, holding=bytes(9_000)) for offset in range(100, 300)]
    records, problems = committed(
        write(tmp_path, batch(0), bytes(500), *between, bytes(500), batch(400), bytes(500), batch(500))
    )
    assert offsets(records) == [0, *range(100, 300), 500]
    assert [it.skipped_bytes for it in problems] == [500, 1000 + len(batch(400))]


def test_where_no_batch_follows_the_segment_ends_and_the_next_is_read(tmp_path):
    broken, also = bytearray(batch(1)), bytearray(batch(2))
    for it in (broken, also):
        struct.pack_into(">i", it, 8, 85)
        it[-1] ^= 1
    write(tmp_path, batch(0), bytes(broken), bytes(also))
    records, (problem,) = committed(write(tmp_path, batch(4), base=4))
    assert offsets(records) == [0, 4]
    assert problem.kind is ProblemKind.CRC
    assert problem.skipped_bytes == len(broken + also)


def test_a_later_magic_is_named(tmp_path):
    later = bytearray(batch(1))
    later[16] = 3
    records, (problem,) = committed(write(tmp_path, batch(0), bytes(later), batch(2)))
    assert offsets(records) == [0, 2]
    assert problem.message == "expected magic 0, 1 or 2, got 3"


def test_a_file_cut_short_while_it_is_read(tmp_path, monkeypatch):
    log = write(tmp_path, *FRAMES)
    size = batches.os.fstat

    class Grown:
        st_size = ENDS[-1] + 400

    monkeypatch.setattr(batches.os, "fstat", lambda _: Grown)
    records, (problem,) = committed(log)
    monkeypatch.setattr(batches.os, "fstat", size)
    assert offsets(records) == [0, 1, 2, 3, 4, 5, 7]
    assert problem.kind is ProblemKind.TORN
    assert "shortened while being read" in problem.message


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=400), st.binary(max_size=30), st.integers(0, 200))
@example(struct.pack(">qi4xb", 5, (1 << 31) - 1, 2) + bytes(40), b"", 0)
@example(struct.pack(">qi4xb", 5, -1, 2) + bytes(40), b"", 0)
def test_garbage_never_raises_and_never_loses_what_precedes(tmp_path_factory, garbage, patch, at):
    patched = bytearray(b"".join(FRAMES[1:]))
    patched[at : at + len(patch)] = patch
    for tail in (garbage, bytes(patched)):
        log = write(tmp_path_factory.mktemp("log"), FRAMES[0], tail)
        for records, _ in (committed(log), raw(log)):
            assert offsets(records)[0] == 0
            assert offsets(records) == sorted(set(offsets(records)))
