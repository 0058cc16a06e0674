//go:build linux && amd64 && !race

package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// wqe is a work request in the emulator's trace, or the expected one from package posts.
type wqe struct {
	Device, QP, Cell string
	Kind, Op         string
	DS               int
	CE, SE, FENCE    bool
	SMALL_FENCE      bool //lint:ignore ST1003 as the trace has it
	UMR              *umr
	Imm, Key         string
	QKey, DQPN, SRQN string
	DCKey            string `json:"dc_key"`
	RAddr, RKey      string
	SwapAdd          string `json:"swap_add"`
	Compare          string
	Inline           int
	SGEs             []sge
	L3               bool `json:"L3_CSUM"`
	L4               bool `json:"L4_CSUM"`
	Header           int
}

// umr is a change of a memory key.
type umr struct {
	Flags, Mask, QPN, Variant, Access, Start, LKey, Addr string
	FREE                                                 bool
	Len                                                  uint64
	EntryLen                                             uint64 `json:"entry_len"`
}

type sge struct {
	LKey, Addr string
	Len        uint32
}

// read returns the work requests of each QP in order.
func read(t *testing.T, file string, kind string) map[string][]*wqe {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all := make(map[string][]*wqe)
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var w wqe
		if err := json.Unmarshal(s.Bytes(), &w); err != nil || w.Kind != kind {
			continue // a command: its fields are of other types
		}
		w.Kind = ""
		key := w.Device + " " + w.QP
		all[key] = append(all[key], &w)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// explained lists the differences that are allowed. Each must occur.
var explained = []struct {
	what string
	is   func(got, want *wqe) bool
}{
	{"a fetch-and-add compares nothing: libmlx5 leaves what stood in that field", func(got, want *wqe) bool {
		w := *want
		w.Compare = got.Compare
		return want.Op == "ATOMIC_FA" && reflect.DeepEqual(*got, w)
	}},
}

// limit only ends a run that hangs.
var limit = map[bool]time.Duration{false: 7 * time.Minute, true: 5 * time.Hour}[os.Getenv("PUREVERBS_FULL") != ""]

// TestEmuPostsWire runs the table with a trace.
func TestEmuPostsWire(t *testing.T) {
	testutil.NeedEmu(t)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin, trace, posted := testutil.Binary(t, "test/posts"), filepath.Join(dir, "trace"), filepath.Join(dir, "posted")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(root, ".build/bin/emu"), "--strict", "--trace="+trace, "--trace-json",
		"--device", "mlx5_0", "--device", "mlx5_1",
		"--", bin, "-test.run=^TestRXE_Posts(Raw)?$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), "PUREVERBS_TEST_TIER=emu", "PUREVERBS_POSTS_WIRE="+posted)
	c.WaitDelay = time.Second
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, want := read(t, trace, "wqe"), read(t, posted, "")
	n, seen := 0, make([]int, len(explained))
	for qp, ws := range want {
		n += compare(t, qp, got[qp], ws, seen)
	}
	for qp, ws := range got {
		if want[qp] == nil {
			t.Errorf("%s: %d work requests that nobody posted", qp, len(ws))
		}
	}
	for i, x := range explained {
		t.Logf("%d times: %s", seen[i], x.what)
		if seen[i] == 0 {
			t.Error("that did not happen: it explains nothing")
		}
	}
	t.Logf("%d work requests of %d QPs are what they have to be", n, len(want))
	frames := 0 // raw packet QPs, one on each data path
	if os.Geteuid() == 0 {
		frames = 2
	}
	if n < 40_000 || len(want) != 5*8*3+frames {
		t.Error("that is too little: nothing was tested")
	}
}

func compare(t *testing.T, qp string, got, want []*wqe, seen []int) (n int) {
	t.Helper()
next:
	for i, w := range want {
		if i >= len(got) {
			break
		}
		g := got[i]
		g.Cell = w.Cell
		if reflect.DeepEqual(g, w) {
			n++
			continue
		}
		for k, x := range explained {
			if x.is(g, w) {
				seen[k]++
				n++
				continue next
			}
		}
		t.Errorf("%s, work request %d, %s:\n got %s\nwant %s", qp, i, w.Cell, text(g), text(w))
		return n
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d work requests, want %d", qp, len(got), len(want))
	}
	return n
}

func text(w *wqe) string { return fmt.Sprintf("%+v, %+v", *w, w.UMR) }
