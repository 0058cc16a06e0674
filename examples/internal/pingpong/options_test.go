package pingpong

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pureverbs/pureverbs/ibv"
)

var srq = Program{Name: "srq_pingpong", Size: 4096, MTU: true, QPs: 16}

func TestParse(t *testing.T) {
	defaults := Options{Program: srq, TCPPort: 18515, Port: 1, GID: ibv.BestGID, Size: 4096, MTU: ibv.MTU1024, QPs: 16,
		RxDepth: 500, Iters: 1000, Timeout: 30 * time.Second}
	all := Options{Program: srq, Server: "host", TCPPort: 7, Device: "rxe1", Port: 2, GID: 3, Size: 64,
		MTU: ibv.MTU4096, QPs: 4, RxDepth: 8, Iters: 9, SL: 5, Events: true, Check: true, Timeout: time.Second}
	ud := Options{Program: Program{Name: "ud_pingpong", Size: 1024}, TCPPort: 18515, Port: 1, GID: ibv.BestGID,
		Size: 1024, MTU: ibv.MTU1024, QPs: 1, RxDepth: 500, Iters: 1000, Timeout: 30 * time.Second}
	for _, tt := range []struct {
		args string
		want Options
	}{
		{"", defaults},
		{"-p 7 -d rxe1 -i 2 -s 64 -m 4096 -q 4 -r 8 -n 9 -l 5 -e -g 3 -c --timeout 1s host", all},
		{"-p7 -drxe1 -i2 -s0x40 -m4096 -q4 -r8 -n9 -l5 -ecg3 --timeout=1s host", all},
		{"host --port 7 --ib-dev rxe1 --ib-port 2 --size 64 --mtu 4096 --num-qp 4 --rx-depth 8 --iters 9 --sl 5 " +
			"--events --gid-idx 3 --chk --timeout 1s", all},
		{"", ud},
	} {
		var out, errs bytes.Buffer
		got, code := Parse(tt.want.Program, strings.Fields(tt.args), &out, &errs)
		if got == nil || code != ExitOK {
			t.Errorf("%q: code %d, %s", tt.args, code, errs.String())
			continue
		}
		if d := cmp.Diff(tt.want, *got); d != "" {
			t.Errorf("%q (-want +got)\n%s", tt.args, d)
		}
	}
}

func TestParse_Wrong(t *testing.T) {
	for args, want := range map[string]string{
		"-p 0":          "-p 0: want 1 to 65535",
		"-p 65536":      "-p 65536",
		"-i 0":          "-i 0: want 1 to 255",
		"-i 256":        "-i 256",
		"-s 0":          "-s 0: want 1 to",
		"-s 4294967296": "-s 4294967296",
		"-s x":          `"x"`,
		"-m 1000":       "-m 1000: want 256, 512",
		"-m 8192":       "-m 8192",
		"-q 0":          "-q 0: want 1 to 255",
		"-q 256":        "-q 256: want 1 to 255",
		"-q 8 -r 7":     "-r 7: want at least one receive for each of 8",
		"-r 0":          "-r 0",
		"-n 0":          "-n 0",
		"-l 16":         "-l 16: want 0 to 15",
		"-g -2":         "-g -2",
		"-g 256":        "-g 256",
		"--timeout 0s":  "--timeout 0s: want more than 0",
		"-Z":            "-Z",
		"a b":           "one host, not 2",
		"-p 0 -s 0":     "-s 0",
	} {
		var out, errs bytes.Buffer
		got, code := Parse(srq, strings.Fields(args), &out, &errs)
		if got != nil || code != ExitUsage || out.Len() > 0 || !strings.Contains(errs.String(), want) ||
			!strings.HasPrefix(errs.String(), "srq_pingpong: ") {
			t.Errorf("%q: code %d, stdout %q, stderr %q", args, code, out.String(), errs.String())
		}
	}
	// Only some have -m and -q.
	var errs bytes.Buffer
	for _, flag := range []string{"-m", "-q"} {
		if _, code := Parse(Program{Name: "ud_pingpong", Size: 1024}, []string{flag, "1"}, &errs,
			&errs); code != ExitUsage {
			t.Errorf("ud_pingpong has %s", flag)
		}
	}
}

func TestParse_Help(t *testing.T) {
	var out, errs bytes.Buffer
	if got, code := Parse(srq, []string{"-h"}, &out, &errs); got != nil || code != ExitOK || errs.Len() > 0 {
		t.Errorf("code %d, stderr %q", code, errs.String())
	}
	for _, want := range []string{"srq_pingpong [options] HOST", "-q, --num-qp number", "--timeout time"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestOptions_CQOptions(t *testing.T) {
	if o := (&Options{Events: true}).CQOptions(); o.NoEvents || o.Spin >= 0 {
		t.Errorf("-e polls: %+v", o)
	}
	if o := (&Options{}).CQOptions(); !o.NoEvents {
		t.Errorf("without -e it does not only poll: %+v", o)
	}
}
