//go:build linux

package fault

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func mustParse(t *testing.T, specs ...string) *Set {
	t.Helper()
	s, err := Parse(specs)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fired runs n operations and returns the numbers, from 1, of those that a fault befell.
func fired(s *Set, p Point, op Op, n int) (hits []int) {
	for i := range n {
		if s.At(p, &op, nil) != nil {
			hits = append(hits, i+1)
		}
	}
	return hits
}

func TestSpec_When(t *testing.T) {
	for _, tt := range []struct {
		spec string
		want []int
	}{
		{"cqe-lost", []int{1}},
		{"cqe-lost:after=5", []int{6}},
		{"cqe-lost:after=5,count=2", []int{6, 7}},
		{"cqe-lost:every=3", []int{3, 6, 9}},
		{"cqe-lost:every=3,count=2", []int{3, 6}},
		{"cqe-lost:every=3,after=2", []int{5, 8}},
		{"cqe-lost:every=1,after=7", []int{8, 9, 10}},
		{"cqe-lost:count=0,after=8", []int{9, 10}},
		{"cqe-lost:prob=1,after=8", []int{9, 10}},
		{"cqe-lost:prob=1,count=2", []int{1, 2}},
	} {
		s := mustParse(t, tt.spec)
		if got := fired(s, AtCQE, Op{Opcode: -1}, 10); !slices.Equal(got, tt.want) {
			t.Errorf("%s: fired at %v, want %v", tt.spec, got, tt.want)
		}
		if f := s.List()[0]; f.Seen != 10 || f.Fired != uint64(len(tt.want)) {
			t.Errorf("%s: seen %d, fired %d, want 10, %d", tt.spec, f.Seen, f.Fired, len(tt.want))
		}
	}
}

func TestSpec_Probability(t *testing.T) {
	const n = 20000
	run := func(spec string) []int { return fired(mustParse(t, spec), AtWQE, Op{Opcode: -1}, n) }
	a := run("rnr:prob=0.05,seed=7")
	if !slices.Equal(a, run("rnr:prob=0.05,seed=7")) {
		t.Error("the same seed gave other faults")
	}
	if slices.Equal(a, run("rnr:prob=0.05,seed=8")) {
		t.Error("another seed gave the same faults")
	}
	if dev := math.Abs(float64(len(a)) - n*0.05); dev > 5*math.Sqrt(n*0.05*0.95) {
		t.Errorf("%d of %d at a probability of 0.05", len(a), n)
	}
}

// TestSet_Independent shows that one fault's dice do not depend on another's.
func TestSet_Independent(t *testing.T) {
	alone := fired(mustParse(t, "rnr:prob=0.1,seed=7"), AtWQE, Op{QP: 1, Opcode: -1}, 500)
	s := mustParse(t, "remote-access:qp=2,prob=0.5,seed=1", "rnr:prob=0.1,seed=7")
	if both := fired(s, AtWQE, Op{QP: 1, Opcode: -1}, 500); !slices.Equal(alone, both) {
		t.Errorf("alone %v, with another %v", alone, both)
	}
}

func TestSpec_Selectors(t *testing.T) {
	wqe := Op{Device: "mlx5_0", PID: 7, QP: 0x45, CQ: 3, Opcode: 0x0a, Cmd: ""}
	for _, tt := range []struct {
		spec string
		p    Point
		op   Op
		want bool
	}{
		{"rnr:qp=0x45", AtWQE, wqe, true},
		{"rnr:qp=69", AtWQE, wqe, true},
		{"rnr:qp=0x46", AtWQE, wqe, false},
		{"rnr:opcode=send", AtWQE, wqe, true},
		{"rnr:opcode=0x0a", AtWQE, wqe, true},
		{"rnr:opcode=SEND_IMM", AtWQE, wqe, false},
		{"rnr:opcode=NOP", AtWQE, Op{Opcode: -1}, false},
		{"rnr:opcode=NOP", AtWQE, Op{Opcode: 0}, true},
		{"rnr:pid=7,device=mlx5_0,qp=0x45", AtWQE, wqe, true},
		{"rnr:pid=8", AtWQE, wqe, false},
		{"rnr:device=mlx5_1", AtWQE, wqe, false},
		{"rnr", AtCQE, wqe, false},
		{"cqe-lost:cq=3", AtCQE, wqe, true},
		{"cqe-lost:cq=4", AtCQE, wqe, false},
		{"doorbell-lost:qp=0x45", AtDoorbell, wqe, true},
		{"enomem:cmd=REG_MR", AtCommand, Op{Cmd: "reg_mr"}, true},
		{"enomem:cmd=reg_mr", AtCommand, Op{Cmd: "create_cq"}, false},
		{"enomem", AtCommand, Op{Cmd: "create_cq"}, true},
		{"enomem:cmd=CM_CONNECT", AtCommand, Op{Cmd: "cm_connect"}, true},
		{"enomem:pid=7", AtCommand, Op{Cmd: "create_cq"}, false},
	} {
		if got := mustParse(t, tt.spec).At(tt.p, &tt.op, nil) != nil; got != tt.want {
			t.Errorf("%s on %+v: %v, want %v", tt.spec, tt.op, got, tt.want)
		}
	}
}

func TestParseSpec(t *testing.T) {
	f := mustParse(t, "errno=EDQUOT:cmd=CREATE_QP,count=2", "122:count=3", "eagain", "cqe-delayed:us=1500",
		"gid-change:port=2,index=3,gid=10.0.0.1",
		"port-down:cmd=query_port,port=2").List()
	for i, tt := range []struct{ got, want any }{
		{f[0].Errno, unix.EDQUOT}, {f[0].Cmd, "create_qp"}, {f[0].Count, uint64(2)}, {f[1].Errno, unix.EDQUOT},
		{f[2].Errno, unix.EAGAIN},
		{f[3].Delay, 1500 * time.Microsecond}, {f[4].GID.IP().String(), "10.0.0.1"}, {f[4].Port, 2}, {f[4].Index, 3},
		{f[4].At, AtWQE}, {f[5].At, AtCommand}, {f[5].ID, 6},
	} {
		if tt.got != tt.want {
			t.Errorf("%d: %v, want %v", i, tt.got, tt.want)
		}
	}
	for k := RNR; k < kinds; k++ {
		text := map[Kind]string{CQEDelayed: "cqe-delayed:us=1", GIDChange: "gid-change:index=0", Errno: "errno=EIO"}[k]
		if text == "" {
			text = k.String()
		}
		if s, err := ParseSpec(text); err != nil || s.Kind != k || Kinds[k].Text == "" {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	if got := Kind(99).String(); got != "Kind(99)" {
		t.Error(got)
	}
}

func TestParseSpec_Errors(t *testing.T) {
	for _, tt := range []struct{ spec, part, want string }{
		{"", "", "unknown kind"},
		{"rnrr", "rnrr", "unknown kind; want one of rnr,"},
		{"errno=EFOO", "errno=EFOO", "unknown kind"},
		{"errno=0", "errno=0", "unknown kind"},
		{"rnr:qp", "qp", "want key=value"},
		{"rnr:qp=", "qp=", "want key=value"},
		{"rnr:qp=1,,after=2", "", "want key=value"},
		{"rnr:qp=0", "qp=0", "from 1 to 16777215"},
		{"rnr:qp=0x1000000", "qp=0x1000000", "from 1 to 16777215"},
		{"rnr:qp=1,qp=2", "qp=2", "given twice"},
		{"rnr:prob=1.5", "prob=1.5", "above 0, up to 1"},
		{"rnr:prob=nan", "prob=nan", "above 0, up to 1"},
		{"rnr:prob=0.5,every=2", "every", "exclude each other"},
		{"rnr:seed=7", "seed", "needs prob="},
		{"rnr:after=-1", "after=-1", "want a number"},
		{"rnr:every=0", "every=0", "want a number from 1"},
		{"rnr:color=red", "color=red", "unknown key"},
		{"rnr:us=5", "us=5", "no key of rnr"},
		{"rnr:cq=5", "cq=5", "no key of rnr"},
		{"rnr:cmd=reg_mr", "cmd=reg_mr", "counts work requests"},
		{"doorbell-lost:opcode=SEND", "opcode=SEND", "no key of doorbell-lost"},
		{"rnr:opcode=SENT", "opcode=SENT", "want a number from 0 to 255"},
		{"enomem:cmd=reg_mrr", "cmd=reg_mrr", "unknown command; want one of"},
		{"enomem:qp=5", "qp=5", "no key of errno=NAME"},
		{"cqe-delayed", "cqe-delayed", "needs us="},
		{"cqe-delayed:us=60000001", "us=60000001", "to 60000000"},
		{"gid-change:gid=fe80::1", "gid-change", "needs index="},
		{"gid-change:index=1,gid=fe80::1%eth0", "gid=fe80::1%eth0",
			`gid "fe80::1%eth0" is neither an IPv6 nor an IPv4 address: write fe80::1`},
		{"port-down:port=0", "port=0", "from 1 to 255"},
		{"port-down:qp=5", "qp=5", "no key of port-down"},
		{"device-removal:port=1", "port=1", "no key of device-removal"},
	} {
		_, err := Parse([]string{tt.spec})
		var se *SpecError
		if !errors.As(err, &se) || se.Part != tt.part || se.Spec != tt.spec || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q about %q", tt.spec, err, tt.want, tt.part)
		}
	}
}

func TestSet_MachineFaults(t *testing.T) {
	s := mustParse(t, "port-down:after=1", "rnr:after=1", "remote-access:count=0")
	var acts []Kind
	var hits []Kind
	for range 3 {
		if f := s.At(AtWQE, &Op{Opcode: -1}, func(f *Spec) { acts = append(acts, f.Kind) }); f != nil {
			hits = append(hits, f.Kind)
		}
	}
	if !slices.Equal(acts, []Kind{PortDown}) || !slices.Equal(hits, []Kind{RemoteAccess, RNR, RemoteAccess}) {
		t.Errorf("acts %v, hits %v", acts, hits)
	}
	if f := s.List()[2]; f.Seen != 3 || f.Fired != 2 {
		t.Errorf("the fault that another came before: seen %d, fired %d, want 3, 2", f.Seen, f.Fired)
	}
}

func TestSet_Clear(t *testing.T) {
	s := mustParse(t, "rnr", "cqe-lost", "cqe-lost:after=1")
	if !s.Active(AtCQE) || s.Active(AtCommand) {
		t.Error("active points are wrong")
	}
	if n := s.Clear(2); n != 1 || len(s.List()) != 2 || s.List()[1].ID != 3 || !s.Active(AtCQE) {
		t.Errorf("cleared %d, left %v", n, s.List())
	}
	if n := s.Clear(2); n != 0 {
		t.Errorf("cleared %d that were gone", n)
	}
	if n := s.Clear(0); n != 2 || s.Active(AtWQE) || s.Active(AtCQE) || len(s.List()) != 0 {
		t.Errorf("cleared %d, left %v", n, s.List())
	}
	for range MaxSpecs {
		if _, err := s.Add("rnr"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Add("rnr"); err == nil {
		t.Error("no bound on the number of faults")
	}
	if s.List()[0].ID != 4 {
		t.Error("an id was used again")
	}
}

func TestSet_NoAllocation(t *testing.T) {
	s := mustParse(t, "rnr:qp=5,prob=0.5", "cqe-lost:every=2")
	op := Op{QP: 5, Opcode: 10, Device: "mlx5_0"}
	if n := testing.AllocsPerRun(100, func() {
		s.At(AtWQE, &op, nil)
		s.At(AtCQE, &op, nil)
		s.At(AtDoorbell, &op, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"cqe-lost:qp=0x45,after=100", "rnr:prob=0.01,seed=7",
		"enomem:cmd=REG_MR,after=3,count=1", "gid-change:index=1,gid=fe80::1", "x:=,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		var se *SpecError
		if err != nil && !errors.As(err, &se) {
			t.Fatalf("untyped error %v", err)
		}
		if err == nil {
			for range 3 {
				s.due(&Op{QP: s.QP, CQ: s.CQ, Opcode: s.Opcode, PID: s.PID, Device: s.Device, Cmd: s.Cmd})
			}
			if s.Seen != 3 {
				t.Fatalf("%q does not match what it selects", text)
			}
		}
	})
}
