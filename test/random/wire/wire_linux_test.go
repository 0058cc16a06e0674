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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// line is the part of a line in the emulator's trace that is compared.
type line struct {
	Device, Kind, QP, CQ  string
	Index, Record, Blocks int
	CI, SN, PI, Bytes     int
	BlueFlame             bool
	Solicited             bool `json:"solicited_only"`
	Inline                int
	Op, Raw               string
	SRQN                  string // of XRC
}

func (l *line) String() string {
	switch l.Kind {
	case "wqe":
		return fmt.Sprintf("%s %s", l.Op, l.Raw)
	case "doorbell":
		return fmt.Sprintf("record %d, %d blocks, BlueFlame %v %s", l.Record, l.Blocks, l.BlueFlame, l.Raw)
	case "arm":
		return fmt.Sprintf("ci %d sn %d solicited %v %s", l.CI, l.SN, l.Solicited, l.Raw)
	case "recv":
		return fmt.Sprintf("entry %d, %d bytes %s", l.Index, l.Bytes, l.Raw)
	}
	return fmt.Sprintf("producer %d", l.PI)
}

// recording holds what a program did to each queue, in order.
type recording map[string][]*line

// summary is what the program says about itself.
type summary struct {
	events, xrc, dc int // completion events, ends of links
	single          bool
}

var summaryLines = regexp.MustCompile(`(\d+) ends of XRC, (\d+) of DC(?s:.*)` +
	`completion events: (\d+), thread domains: (\w+)`)

// record runs the program of a seed, in turn, on the emulated device.
func record(t *testing.T, bin, path string, seed int) (rec recording, sum summary) {
	t.Helper()
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), path)
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(wd, "../../../.build/bin/emu"), "--strict", "--trace="+file,
		"--trace-json", "--trace-raw", "--device", "mlx5_0,dmabuf=memfd", "--device", "mlx5_1",
		"--", bin, "-test.run=^TestRXE_RandomInTurn$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), "PUREVERBS_TEST_TIER=emu", "PUREVERBS_DATAPATH="+path,
		"PUREVERBS_SEED="+strconv.Itoa(seed), "PUREVERBS_SOAK=1")
	c.WaitDelay = time.Second
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, out)
	}
	m := summaryLines.FindSubmatch(out)
	if m == nil {
		t.Fatalf("%s: no number of events in\n%s", path, out)
	}
	for i, n := range []*int{&sum.xrc, &sum.dc, &sum.events} {
		*n, _ = strconv.Atoi(string(m[1+i]))
	}
	sum.single = string(m[4]) == "true"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rec = make(recording)
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			continue // a command: its fields are of other types
		}
		switch l.Kind {
		case "wqe", "doorbell", "arm", "recv", "comp_event":
			of := l.QP
			if of == "" {
				of = l.CQ
			}
			k := l.Kind + " " + l.Device + " " + of
			// Of two armings in a row the emulator may see the second alone: they are writes to one register.
			if n := len(rec[k]); l.Kind == "arm" && n > 0 && rec[k][n-1].CI == l.CI && rec[k][n-1].SN == l.SN {
				rec[k] = rec[k][:n-1]
			}
			rec[k] = append(rec[k], &l)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return rec, sum
}

func (r recording) count(kind string) (n int) {
	for _, ls := range r {
		if ls[0].Kind == kind {
			n += len(ls)
		}
	}
	return n
}

// explained lists the differences that are allowed between libmlx5 and the direct data path.
var explained = []struct {
	what string
	is   func(ops, direct *line, single bool) bool
}{
	{"libmlx5 copies a work request into a register that it shares under its own lock; the direct path, which cannot " +
		"take that lock, writes 8 bytes there", func(a, b *line, single bool) bool {
		return a.Kind == "doorbell" && !single && a.BlueFlame && !b.BlueFlame && a.Record == b.Record &&
			a.Blocks == b.Blocks
	}},
	{"a fetch-and-add compares nothing: libmlx5 leaves what stood in that field, the direct path writes 0",
		func(a, b *line, _ bool) bool {
			at := len(a.Raw) - 48 // before the one address
			return a.Kind == "wqe" && a.Op == "ATOMIC_FA" && a.Op == b.Op && len(a.Raw) == len(b.Raw) &&
				a.Raw[:at] == b.Raw[:at] && b.Raw[at:][:16] == "0000000000000000" && a.Raw[at+16:] == b.Raw[at+16:]
		}},
	{"behind inline data, up to the next 16 bytes, stands whatever stood there before", func(a, b *line, _ bool) bool {
		pad := 2 * ((a.Inline+4+15)&^15 - (a.Inline + 4))
		return a.Kind == "wqe" && a.Inline > 0 && a.Inline == b.Inline && len(a.Raw) == len(b.Raw) &&
			a.Raw[:len(a.Raw)-pad] == b.Raw[:len(b.Raw)-pad]
	}},
	{tornCopy, func(a, b *line, _ bool) bool {
		return a.Kind == "doorbell" && a.BlueFlame != b.BlueFlame && a.Record == b.Record && a.Blocks == b.Blocks
	}},
}

// staleImm returns the work request of libmlx5 with the immediate data of the direct path, where the opcode has none
// and only the direct path writes 0: libmlx5 does so in ibv_post_send, but not in ibv_wr_*.
func staleImm(ops, direct *line) *line {
	a, b := ops, direct
	if a.Kind != "wqe" || a.Op != b.Op || len(a.Raw) != len(b.Raw) || b.Raw[24:32] != "00000000" {
		return ops
	}
	switch a.Op {
	case "SEND_IMM", "RDMA_WRITE_IMM", "SEND_INVAL", "UMR":
		return ops
	}
	c := *a
	c.Raw = a.Raw[:24] + b.Raw[24:32] + a.Raw[32:]
	return &c
}

// staleXRC returns the work request of libmlx5 with the direct path's zeros behind the number of an XRC SRQ, where
// libmlx5 leaves what stood there.
func staleXRC(ops, direct *line) *line {
	a, b := ops, direct
	if a.Kind != "wqe" || a.SRQN == "" || b.SRQN == "" || len(a.Raw) != len(b.Raw) ||
		b.Raw[40:64] != strings.Repeat("0", 24) {
		return ops
	}
	c := *a
	c.Raw = a.Raw[:40] + b.Raw[40:64] + a.Raw[64:]
	return &c
}

// tornCopy must be rare.
const tornCopy = "the emulator looked at a register while a work request was being copied there: the thread lost its " +
	"processor"

// TestEmuSameWire runs the same programs on both data paths and compares what they write to the device: each work
// request, each doorbell with its record, and each arming. Queue numbers, keys and device addresses are equal in both
// runs.
func TestEmuSameWire(t *testing.T) {
	testutil.NeedEmu(t)
	bin := testutil.Binary(t, "test/random")
	var sum [5]int
	xrc, dc := 0, 0
	seen := make([]int, len(explained)+2) // the last are for staleImm and staleXRC
	for seed := 1; seed <= 12; seed++ {
		a, its := record(t, bin, "ops", seed)
		b, other := record(t, bin, "direct", seed)
		na, nb := its.events, other.events
		xrc, dc = xrc+its.xrc, dc+its.dc
		if na != nb || a.count("comp_event") != na || b.count("comp_event") != nb {
			t.Errorf("seed %d: %d events with ops, %d with direct; the model says %d and %d", seed,
				a.count("comp_event"), b.count("comp_event"), na, nb)
		}
		for i, k := range []string{"wqe", "doorbell", "arm", "recv", "comp_event"} {
			sum[i] += a.count(k)
		}
		var keys []string
		for k := range a {
			keys = append(keys, k)
		}
		for k := range b {
			if a[k] == nil {
				t.Errorf("seed %d: %s: with direct only, %d times", seed, k, len(b[k]))
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			compareLines(t, fmt.Sprintf("seed %d: %s", seed, k), a[k], b[k], its.single, seen)
			if t.Failed() {
				return
			}
		}
	}
	for i, x := range explained {
		t.Logf("%d times: %s", seen[i], x.what)
		if x.what == tornCopy && seen[i] > 2+sum[1]/100 {
			t.Errorf("%d of %d doorbells differ in that one data path copies the work request, and the other does not",
				seen[i], sum[1])
		}
	}
	t.Logf("%d times: immediate data where there is none; %d times: bytes behind an XRC SRQ's number",
		seen[len(explained)], seen[len(explained)+1])
	if seen[len(explained)] == 0 {
		t.Error("nothing was posted by ibv_wr_*")
	}
	t.Logf("the same on both data paths: %d work requests, %d doorbells, %d armings, %d receives used, %d completion "+
		"events", sum[0], sum[1], sum[2], sum[3], sum[4])
	if t.Logf("%d ends of XRC, %d of DC", xrc, dc); xrc == 0 || dc == 0 {
		t.Error("XRC or DC was not drawn")
	}
	for i, n := range sum {
		if n < 20 {
			t.Errorf("only %d of kind %d: nothing was tested", n, i)
		}
	}
}

func compareLines(t *testing.T, what string, a, b []*line, single bool, seen []int) {
	t.Helper()
	if len(a) != len(b) {
		t.Errorf("%s: %d with ops, %d with direct", what, len(a), len(b))
	}
next:
	for i := range min(len(a), len(b)) {
		for k, f := range []func(ops, direct *line) *line{staleImm, staleXRC} {
			if same := f(a[i], b[i]); same.Raw != a[i].Raw {
				a[i] = same
				seen[len(explained)+k]++
			}
		}
		if a[i].String() == b[i].String() {
			continue
		}
		for k, x := range explained {
			if x.is(a[i], b[i], single) {
				seen[k]++
				continue next
			}
		}
		t.Errorf("%s: number %d\n   ops %v\ndirect %v", what, i, a[i], b[i])
		return
	}
}
