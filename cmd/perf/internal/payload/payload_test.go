package payload

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWalker(t *testing.T) {
	for _, tc := range []struct {
		size, cycle, line uint64
		want              []uint64
	}{
		{2, 256, 64, []uint64{0, 64, 128, 192, 0}},
		{65, 256, 64, []uint64{0, 128, 0}},
		{96, 320, 64, []uint64{0, 128, 0}}, // two places fit, a third does not
		{129, 256, 64, []uint64{0, 0, 0}},
		{2, 0, 64, []uint64{0, 0}},
	} {
		w := NewWalker(tc.size, tc.cycle, tc.line)
		for i, want := range tc.want {
			if got := w.Next(); got != want {
				t.Errorf("size %d, cycle %d: step %d is %d, want %d", tc.size, tc.cycle, i, got, want)
			}
		}
	}
}

func TestPattern(t *testing.T) {
	for _, n := range []int{1, 250, 251, 252, 1000, 70000} {
		mem := make([]byte, n)
		p := Pattern(3)
		Fill(mem, p)
		for i := range mem {
			if mem[i] != p[i%patternLen] || mem[i] == 0 {
				t.Fatalf("length %d: byte %d is %#x, want %#x", n, i, mem[i], p[i%patternLen])
			}
		}
	}
}

func TestCheckPattern(t *testing.T) {
	mem := make([]byte, 4096)
	Fill(mem, Pattern(0))
	if err := Check(mem, Pattern(0), 100, 4096, 64, 1000, -1); err != nil {
		t.Errorf("the right payload: %v", err)
	}
	if err := Check(mem, Pattern(1), 100, 4096, 64, 1000, -1); err == nil {
		t.Error("the payload of another queue pair passed")
	}
	mem[3*128+99]++
	err := Check(mem, Pattern(0), 100, 4096, 64, 1000, -1)
	if err == nil || !strings.Contains(err.Error(), "byte 483") {
		t.Errorf("one wrong byte: %v, want byte 483", err)
	}
	if err := Check(mem, Pattern(0), 100, 4096, 64, 3, -1); err != nil {
		t.Errorf("a wrong byte beyond the three messages: %v", err)
	}
	if err := Check(mem, Pattern(0), 4096, 0, 64, 9, 483); err != nil {
		t.Errorf("a byte to skip: %v", err)
	}
	if err := Check(make([]byte, 64), Pattern(0), 64, 0, 64, 1, -1); err == nil {
		t.Error("an empty buffer passed")
	}
}

func TestRead(t *testing.T) {
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "payload")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for text, want := range map[string][]byte{
		"0x03020100,0x07060504":         {0, 1, 2, 3, 4, 5, 6, 7},
		"0xAabbCC00\n":                  {0, 0xcc, 0xbb, 0xaa},
		"0x00000001, 0x00000002,\r\n":   {1, 0, 0, 0, 2, 0, 0, 0},
		"\t0x00000001\n\n0x00000002,\n": {1, 0, 0, 0, 2, 0, 0, 0},
	} {
		got, err := Read(write(text))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: % x, %v, want % x", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                      "no number",
		" ,\n":                  "no number",
		"0x1":                   `number 1 is "0x1"`,
		"0x00000001,0x0000000g": `number 2 is "0x0000000g"`,
		"0x00000001,00000002":   `number 2 is "00000002"`,
		"0x000000010x00000002":  "number 1",
		"\x1b[2J":               `"\x1b[2J"`,
		strings.Repeat("z", 99): `"zzzzzzzzzzzzzzzzzzzz…"`,
	} {
		if _, err := Read(write(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	big := write("")
	if err := os.Truncate(big, maxFile+1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file",
		t.TempDir():                        "not a file",
		"/dev/zero":                        "not a file",
		big:                                "bytes > ",
	} {
		if _, err := Read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
