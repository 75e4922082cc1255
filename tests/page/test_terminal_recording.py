"""Test the recording: real output at its time, on a screen of fixed size, as SVG that runs nothing."""

from __future__ import annotations

import os
import re
from xml.etree import ElementTree as ET

from tools import terminal_recording
from tools.terminal_recording import COLUMNS, ROWS, Output, Scene, draw_recording, list_screen_lines

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = "docs/images/first-steps.svg"


def read_texts(svg):
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_command_is_recorded_on_a_terminal_as_it_writes(tmp_path):
    scene = terminal_recording.record("test -t 1 && stty size <&1; sleep 0.3; echo end", tmp_path, os.environ)
    texts = "".join(output.text for output in scene.outputs)
    assert texts.split() == ["50", str(COLUMNS), "end"]
    assert scene.outputs[-1].seconds >= 0.3
    assert scene.outputs == sorted(scene.outputs, key=lambda output: output.seconds)


def test_text_is_escaped_and_sequences_of_the_terminal_are_left_out():
    evil = "<script>alert(1)</script> & \x1b[31mred\x1b[0m \x1b]0;title\x07\u202e\n"
    svg = draw_recording([Scene("echo '<b>'", [Output(0.1, evil)])])
    assert "<script" not in svg
    assert read_texts(svg)[:3] == ["$", "echo", "'<b>'"]
    assert read_texts(svg)[3].startswith("<script>alert(1)</script> & red")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", svg)


def test_long_lines_wrap_and_a_full_screen_takes_no_more():
    assert [len(line) for line in list_screen_lines("x" * (COLUMNS + 5))] == [COLUMNS, 5]
    assert list(list_screen_lines("a\r\n\r\nb\r\n")) == ["a", "", "b"]
    svg = draw_recording([Scene("seq", [Output(0.0, "1\n" * 99)])])
    assert len(read_texts(svg)) == 2 + ROWS - 1


def test_scenes_follow_each_other_and_the_last_stays():
    svg = draw_recording([Scene("one", [Output(0.1, "1\n")]), Scene("two", [Output(99.0, "2\n")])])
    seconds = float(re.search(r"animation-duration:([0-9.]+)s", svg)[1])
    assert seconds < 15  # nobody waits for 99 seconds
    stays = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text") if " l" in text.get("class")]
    assert stays == ["$", "two", "2"]  # also what is shown to a reader who wants no motion
    assert len(re.findall("@keyframes", svg)) == len(set(re.findall("animation-name:(k[0-9]+)", svg)))


def test_picture_of_the_docs_is_small_and_runs_and_loads_nothing(repo_root):
    svg = (repo_root / PICTURE).read_text(encoding="utf-8")
    assert len(svg) < 150_000
    assert not re.search(r"<script|<foreignObject|href|url\(|@import|\son\w+=", svg)
    texts = read_texts(svg)
    assert {"init", "estimate", "diff"} <= set(texts)
    assert any(text.startswith("This change raises the monthly cost of dev") for text in texts)
