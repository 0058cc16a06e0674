//go:build linux && amd64 && !race

package emu

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuStrict runs a program that breaks a rule. The rules that an adapter itself enforces are tested in the engine.
func TestEmuStrict(t *testing.T) {
	testutil.NeedEmu(t)
	bin := filepath.Join(t.TempDir(), "careless")
	if out, err := exec.Command("gcc", "-O1", "-o", bin, "testdata/careless.c",
		"-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	for _, tt := range []struct {
		how, code, want string
	}{
		{"", "", ""},
		{"leak", "exit status 99", `leak: careless \(\d+\): mlx5_0: not destroyed: 1 QP, 1 CQ, .*1 PD`},
		{"killed", "exit status 137", ""},
		{"unacked", "exit status 142", `event-unacked: careless \(\d+\): destroy_cq: the object got 1 events`},
	} {
		t.Run(tt.how, func(t *testing.T) {
			out, err := here.emulate(t, nil, bin, tt.how)
			code := ""
			if err != nil {
				code = err.Error()
			}
			if code != tt.code || !regexp.MustCompile(tt.want).MatchString(out) || tt.want == "" &&
				strings.Contains(out, "strict") {
				t.Errorf("%q, want %q and %q\n%s", code, tt.code, tt.want, out)
			}
		})
	}
}

// TestEmuGranted runs a program that compares the limits it is granted with those it is told, and uses them.
func TestEmuGranted(t *testing.T) {
	testutil.NeedEmu(t)
	bin := filepath.Join(t.TempDir(), "granted")
	if out, err := exec.Command("gcc", "-O1", "-o", bin, "testdata/granted.c", "-libverbs",
		"-lmlx5").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	// it wants a libc no older than this one
	for _, w := range []way{here, {name: "trixie", release: "trixie"}, {name: "sid", release: "sid"}} {
		t.Run(w.name, func(t *testing.T) {
			command := w.command(bin)
			if out, err := w.emulate(t, nil, command...); err != nil || !strings.Contains(out, "all as it should be") {
				t.Errorf("%v\n%s", err, tail(out))
			}
		})
	}
}

// TestEmuFaults checks that programs notice each fault.
func TestEmuFaults(t *testing.T) {
	testutil.NeedEmu(t)
	const rc = "ibv_rc_pingpong -g 3 -n 50 -c"
	for _, tt := range []struct {
		fault, command string
		ok             bool // the program succeeds all the same
		want           string
	}{
		{"rnr:after=5,count=3", rc, true, `retry qp=.*why=RNR(?s:.*)50 iters`},
		{"retry-exceeded:after=5", rc, false, `transport retry counter exceeded`},
		{"remote-access:after=5", "ib_write_bw -n 20", false, `(?i)remote access error|status 10`},
		{"flush:after=5", rc, false, `Flushed|flushed`},
		{"bit-flip:after=5", rc, true, `invalid data in page`},
		{"qp-fatal:after=5", "ib_write_bw -n 20", false, `async_event name=QP_FATAL`},
		{"wrong-owner:after=5", rc + " -t", false, `killed`},
		{"cqe-lost:after=5", rc, false, `killed`},
		{"cqe-delayed:after=5,us=400000", rc, true, `50 iters in 0\.[4-9]|50 iters in [1-9]`},
		{"cq-error:after=5", rc, false, `async_event name=CQ_ERR`},
		{"doorbell-lost:after=5", rc, false, `killed`},
		{"enomem:cmd=create_qp", rc, false, `Couldn't create QP`},
		{"eagain:cmd=reg_mr", rc, false, `Couldn't register MR`},
		{"enomem:cmd=cm_create_id,after=1", "rping -C 1 -v", false, `rdma_create_id.*: Cannot allocate memory`},
		{"port-down:cmd=create_qp", rc, false, `async_event name=PORT_ERR`},
		{"gid-change:cmd=create_qp,index=3", rc, false, `async_event name=GID_CHANGE`},
		{"device-removal:cmd=create_qp", rc, false, `async_event name=DEVICE_FATAL`},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel() // they wait much
			r := row{command: tt.command, emu: []string{"--strict-ignore=leak", "--trace", "--fault", tt.fault}}
			fired := regexp.MustCompile(`fault spec=` + regexp.QuoteMeta(tt.fault))
			// Most end by themselves. A program that waits for ever is killed once the fault has happened.
			wait := limit
			if tt.want == "killed" {
				wait = 2 * time.Second
			}
			var out string
			var err error
			for again := true; again; wait *= 4 {
				p := strconv.Itoa(21000 + int(port.Add(1)))
				s, c := r.ends(here, p)
				args := []string{filepath.Join(root, ".build/bin/pair"), "-t", min(wait, limit).String()}
				args = append(args, awaited(s, p)...)
				out, err = here.emulate(t, r.emu, append(append(append(args, s...), "--"), c...)...)
				again = !fired.MatchString(out) && wait < limit
			}
			if (err == nil) != tt.ok {
				t.Errorf("%v; succeeds: want %v", err, tt.ok)
			}
			if !regexp.MustCompile(tt.want).MatchString(out) {
				t.Errorf("no %s", tt.want)
			}
			if !fired.MatchString(out) {
				t.Error("the trace does not tell of the fault")
			}
			if t.Failed() {
				t.Log(tail(out))
			}
		})
	}
}

// TestEmuControl changes the emulated machine while programs run on it.
func TestEmuControl(t *testing.T) {
	testutil.NeedEmu(t)
	emu := filepath.Join(root, ".build/bin/emu")
	for _, tt := range []struct{ name, script, want string }{
		{"port", "EMU control port mlx5_0 1 down; ibv_devinfo", `(?s)true.*PORT_DOWN`},
		{"up", "EMU control port mlx5_0 1 down; EMU control port mlx5_0 1 up; ibv_devinfo",
			`(?s)true\ntrue.*PORT_ACTIVE`},
		{"gid", "EMU control gid mlx5_0 1 3 10.1.2.3; ibv_devinfo -v; cat /sys/class/infiniband/mlx5_0/ports/1/gids/3",
			`(?s)GID\[ +3\]:\s+::ffff:10\.1\.2\.3.*ffff:0a01:0203`},
		{"no gid", "EMU control gid mlx5_0 1 3 none; ibv_devinfo -v", `(?s)GID\[ +2\][^\n]*\n\s+GID\[ +4\]`},
		{"remove", "EMU control remove mlx5_0; ibv_devices; ls /sys/class/infiniband",
			`(?s)node GUID\n[\s-]*mlx5_1 .*\nmlx5_1$`},
		{"faults", "EMU control fault add enomem:cmd=alloc_pd,after=1000; EMU control fault list; EMU control fault " +
			"clear 1; EMU control fault list",
			`1\n\[{"id":1,"spec":"enomem:cmd=alloc_pd,after=1000","seen":0,"fired":0}\]\n1\n\[\]`},
		{"injected", "EMU control fault add eio:cmd=alloc_pd >/dev/null; ibv_rc_pingpong -g 3", `Couldn't allocate PD`},
		{"strict", "EMU control strict", `^\[\]$`},
		{"bad", "EMU control port mlx5_0 2 down; EMU control gid mlx5_0 1 999 ::1; EMU control port mlx5_9 1 up; EMU " +
			"control shout; EMU control trace on",
			`(?s)no port "2" of mlx5_0; want 1 to 1.*no index "999".*want 0 to 255.*no device "mlx5_9"; there are: mlx5_0, mlx5_1.*no request "shout".*start emu with --trace`},
		{"counters", "D=/sys/class/infiniband/mlx5_0/ports/1; cat $D/counters/port_xmit_data " +
			"$D/hw_counters/rx_write_requests; PAIR -t 3m -p 21910 ib_write_bw -p 21910 -n 100 -s 65536 -- " +
			"ib_write_bw -p 21910 -n 100 -s 65536 127.0.0.1 >/dev/null; cat $D/counters/port_xmit_data " +
			"$D/hw_counters/rx_write_requests",
			`^0\n0\n16384\d\d\n10[05]\n$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := strings.NewReplacer("EMU", emu, "PAIR", filepath.Join(root, ".build/bin/pair")).Replace(tt.script)
			out, _ := here.emulate(t, append([]string{"--strict-ignore=leak"}, two...), "sh", "-c", script)
			if !regexp.MustCompile(tt.want).MatchString(strings.TrimRight(out, " ")) &&
				!regexp.MustCompile(tt.want).MatchString(strings.TrimSpace(out)) {
				t.Errorf("no %s in\n%s", tt.want, tail(out))
			}
		})
	}
}

// TestEmuStats checks that nothing stays behind of programs that ended or were killed.
func TestEmuStats(t *testing.T) {
	testutil.NeedEmu(t)
	emu, pair := filepath.Join(root, ".build/bin/emu"), filepath.Join(root, ".build/bin/pair")
	round := strings.NewReplacer("EMU", emu, "PAIR", pair).Replace(
		`PAIR -t 3m -p 21920 ib_send_bw -p 21920 -n 50 -- ib_send_bw -p 21920 -n 50 127.0.0.1 >/dev/null; PAIR -t 3m -cm 21921 rping -s -a 127.0.0.1 -p 21921 -C 3 -- rping -c -a 127.0.0.1 -p 21921 -C 3 >/dev/null
ib_write_bw -p 21922 >/dev/null & k=$!; sleep 0.1; kill -9 $k; wait $k 2>/dev/null; ` + released)
	out, err := here.emulate(t, []string{"--strict-ignore=leak"}, "sh", "-c", strings.Repeat(round, 6))
	var all []map[string]int64
	for line := range strings.Lines(out) {
		var m map[string]int64
		if json.Unmarshal([]byte(line), &m) == nil {
			all = append(all, m)
		}
	}
	if err != nil || len(all) != 6 {
		t.Fatalf("%v, %d answers\n%s", err, len(all), tail(out))
	}
	first, last := all[1], all[5]
	t.Logf("after two rounds %v, after six %v", first, last)
	if last["contexts"] != 0 || last["objects"] != 0 {
		t.Errorf("contexts and objects are left: %v", last)
	}
	for _, k := range []string{"goroutines", "descriptors"} {
		if last[k] > first[k]+2 {
			t.Errorf("%s grow from %d to %d", k, first[k], last[k])
		}
	}
	if last["heap"] > first["heap"]+first["heap"]/4+1<<20 {
		t.Errorf("the heap grows from %d to %d", first["heap"], last["heap"])
	}
}
