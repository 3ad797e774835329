"""Files are written completely or not at all, whatever stands where they go."""

import os
import socket
import stat
import sys
import threading

import pytest

import sojourn as sj
from sojourn.storage.atomic import MAX_NAME, atomic_write


class StopError(Exception):
    pass


def write_half(path, error):
    with atomic_write(path) as file:
        file.write("half")
        raise error


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_holds_what_was_written(tmp_path):
    with atomic_write(tmp_path / "new.txt") as file:
        file.write("a\r\nü")
    assert (tmp_path / "new.txt").read_bytes() == "a\r\nü".encode()
    with atomic_write(tmp_path / "new.bin", "wb") as file:
        file.write(b"\x00\xff")
    assert (tmp_path / "new.bin").read_bytes() == b"\x00\xff"
    assert names(tmp_path) == ["new.bin", "new.txt"]


def test_an_old_file_stays_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with atomic_write(path) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o440])
def test_permissions_of_an_old_file_are_kept(tmp_path, mode):
    path = tmp_path / "file.txt"
    path.write_text("old")
    path.chmod(mode)
    with atomic_write(path) as file:
        file.write("new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_the_draft_is_never_readable_by_more_than_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    path.chmod(0o600)
    with atomic_write(path) as file:
        (draft,) = set(tmp_path.iterdir()) - {path}
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
        file.write("new")


def test_a_symbolic_link_is_followed_and_stays(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "file.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert names(tmp_path) == ["link.txt", "real"]
    assert names(tmp_path / "real") == ["file.txt"]


def test_a_link_to_a_file_that_is_not_there_makes_it(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with atomic_write(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_a_fifo_is_written_to_as_it_is(tmp_path):
    path, read = tmp_path / "fifo", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    with atomic_write(path) as file:
        file.write("streamed")
    reader.join(30)
    assert read == ["streamed"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert names(tmp_path) == ["fifo"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is needed")
def test_a_pipe_without_a_name_is_written_to():
    """As ``-o /dev/stdout | head`` and ``-o >(gzip)`` give, whose links lead to no path."""
    read, write = os.pipe()
    with open(read) as reader:
        with atomic_write(f"/proc/self/fd/{write}") as file:
            file.write("streamed")
        os.close(write)
        assert reader.read() == "streamed"


def test_a_character_device_is_written_to_as_it_is(tmp_path):
    """Nothing of the system is touched: the node is made here, with the numbers of /dev/null."""
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.write_bytes(b"")
    except OSError:
        pytest.skip("device nodes cannot be made or used here")
    for mode, text in (("w", "lost"), ("wb", b"lost")):
        with atomic_write(path, mode) as file:
            file.write(text)
    model = sj.SpectralHSMM(1, 1).fit([[0, 1, 1, 0] * 5] * 4)
    model.save(path)
    assert stat.S_ISCHR(path.lstat().st_mode)
    assert names(tmp_path) == ["null"]


def test_a_model_is_streamed_into_a_fifo(tmp_path):
    path, read = tmp_path / "fifo", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    model = sj.SpectralHSMM(1, 1).fit([[0, 1, 1, 0] * 5] * 4)
    model.save(path)
    reader.join(30)
    (tmp_path / "copy").write_bytes(read[0])
    assert sj.load(tmp_path / "copy").rank_ == model.rank_
    assert stat.S_ISFIFO(path.lstat().st_mode)


def test_a_block_device_is_refused(tmp_path):
    path = tmp_path / "disk"
    try:
        os.mknod(path, 0o666 | stat.S_IFBLK, os.makedev(0, 0))  # no device has these numbers
    except OSError:
        pytest.skip("device nodes cannot be made here")
    with pytest.raises(sj.SojournError, match="block device"), atomic_write(path):
        pass
    assert stat.S_ISBLK(path.lstat().st_mode)
    assert names(tmp_path) == ["disk"]


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(sj.SojournError, match="link to itself"), atomic_write(tmp_path / "a"):
        pass
    assert (tmp_path / "a").is_symlink()
    assert names(tmp_path) == ["a", "b"]


def test_a_directory_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with (
        pytest.raises(sj.SojournError, match=r"folder is a directory; give the path of a file"),
        atomic_write(tmp_path / "folder"),
    ):
        pass
    assert (tmp_path / "folder").is_dir()
    assert names(tmp_path) == ["folder"]


def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket may have some hundred bytes only
    with socket.socket(socket.AF_UNIX) as node:
        node.bind("node")
        with pytest.raises(sj.SojournError, match="node is a socket"), atomic_write("node"):
            pass
        assert stat.S_ISSOCK(os.stat("node").st_mode)
    assert names(tmp_path) == ["node"]


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "nowhere" / "file.txt"):
        pass


@pytest.mark.parametrize("letter", ["x", "ü", "語"])
def test_the_longest_names_can_be_written(tmp_path, letter):
    path = tmp_path / (letter * (MAX_NAME // len(letter.encode())))
    for text in ("first", "second"):
        with atomic_write(path) as file:
            file.write(text)
        assert path.read_text() == text
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("error", [StopError, KeyboardInterrupt])
def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(error):
        write_half(path, error)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_an_error_without_an_old_file_leaves_nothing(tmp_path):
    with pytest.raises(StopError):
        write_half(tmp_path / "file.txt", StopError)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_an_error_of_the_system_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, name):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, name, full)
    with pytest.raises(OSError, match="No space"), atomic_write(path) as file:
        file.write("new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_draft_that_fails_its_check_is_not_put_in_place(tmp_path):
    path, seen = tmp_path / "file.txt", []
    path.write_text("old")

    def check(draft):
        with open(draft, encoding="utf-8") as file:
            seen.append(file.read())
        raise StopError

    with pytest.raises(StopError), atomic_write(path, check=check) as file:
        file.write("new")
    assert seen == ["new"]  # complete when it is checked
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]
