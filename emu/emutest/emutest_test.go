package emutest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/control"
)

func TestMain(m *testing.M) {
	Run(m, Devices("mlx5_0", "mlx5_1,link=ib", "gone"), Strict(), Fault("rnr:after=1000000"), Trace(os.DevNull))
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile("/sys/class/infiniband/" + path)
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(b))
}

func TestDevices(t *testing.T) {
	e := Need(t)
	list, err := e.Devices()
	if err != nil || len(list) < 2 {
		t.Fatalf("%v, %v", list, err)
	}
	eth, ib := list[0], list[1]
	if eth.Name != "mlx5_0" || len(eth.Ports) != 1 || eth.Addr() != netip.MustParseAddr("10.88.0.1") {
		t.Errorf("%+v with address %v", eth, eth.Addr())
	}
	p := eth.Ports[0]
	want := GID{3, netip.MustParseAddr("::ffff:10.88.0.1"), "RoCEv2", "emu0", 0}
	if p.Number != 1 || p.Link != "Ethernet" || !p.Up || p.Netdev != "emu0" || !slices.Contains(p.GIDs, want) {
		t.Errorf("%+v", p)
	}
	if p := ib.Ports[0]; ib.Name != "mlx5_1" || p.Link != "InfiniBand" || p.Netdev != "" || len(p.GIDs) != 1 ||
		ib.Addr().IsValid() {
		t.Errorf("%+v", ib)
	}
	if d, err := e.Device("mlx5_1"); err != nil || d.Name != "mlx5_1" {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := e.Device("mlx5_9"); err == nil || !strings.Contains(err.Error(), `"mlx5_9"`) {
		t.Errorf("%v, %v", d, err)
	}
}

func TestSetPort(t *testing.T) {
	e := Need(t)
	for _, up := range []bool{false, true} {
		if err := e.SetPort("mlx5_0", 1, up); err != nil {
			t.Fatal(err)
		}
		d, err := e.Device("mlx5_0")
		if err != nil || d.Ports[0].Up != up {
			t.Errorf("%+v, %v, want up %v", d, err, up)
		}
		want := map[bool]string{true: "4: ACTIVE", false: "1: DOWN"}[up]
		if s := read(t, "mlx5_0/ports/1/state"); s != want {
			t.Errorf("the state is %q, want %q", s, want)
		}
	}
}

func TestSetGID(t *testing.T) {
	e := Need(t)
	gid := netip.MustParseAddr("10.1.2.3")
	for _, a := range []netip.Addr{gid, {}} {
		if err := e.SetGID("mlx5_0", 1, 20, a); err != nil {
			t.Fatal(err)
		}
		d, err := e.Device("mlx5_0")
		if err != nil {
			t.Fatal(err)
		}
		there := slices.ContainsFunc(d.Ports[0].GIDs, func(g GID) bool { return g.Index == 20 && g.GID.Unmap() == gid })
		if there != a.IsValid() {
			t.Errorf("%v: %+v", a, d.Ports[0].GIDs)
		}
		want := map[bool]string{true: "0000:0000:0000:0000:0000:ffff:0a01:0203",
			false: "0000:0000:0000:0000:0000:0000:0000:0000"}[a.IsValid()]
		if s := read(t, "mlx5_0/ports/1/gids/20"); s != want {
			t.Errorf("the entry is %q, want %q", s, want)
		}
	}
}

func TestRemove(t *testing.T) {
	e := Need(t)
	if _, err := os.Stat("/sys/class/infiniband/gone"); err != nil {
		t.Error(err)
	}
	if err := e.Remove("gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/sys/class/infiniband/gone"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("sysfs still has it: %v", err)
	}
	if d, err := e.Device("gone"); err == nil {
		t.Errorf("the emulator still has it: %+v", d)
	}
}

func TestFaults(t *testing.T) {
	e := Need(t)
	id, err := e.Inject("cqe-lost:after=7")
	if err != nil {
		t.Fatal(err)
	}
	specs := func() (out []string) {
		list, err := e.Faults()
		if err != nil {
			t.Error(err)
		}
		for _, f := range list {
			out = append(out, f.Spec)
		}
		return out
	}
	if got := specs(); !slices.Equal(got, []string{"rnr:after=1000000", "cqe-lost:after=7"}) {
		t.Errorf("%q", got)
	}
	if err := e.ClearFault(id); err != nil {
		t.Error(err)
	}
	if got := specs(); !slices.Equal(got, []string{"rnr:after=1000000"}) {
		t.Errorf("%q", got)
	}
	if err := e.ClearFaults(); err != nil {
		t.Error(err)
	}
	if got := specs(); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// TestCounters: nothing has used the adapters.
func TestCounters(t *testing.T) {
	e := Need(t)
	if list, err := e.Violations(); err != nil || len(list) > 0 {
		t.Errorf("violations: %v, %v", list, err)
	}
	s, err := e.Stats()
	if err != nil || s.Contexts != 0 || s.Objects != 0 || s.Goroutines < 1 || s.Descriptors < 3 || s.Heap == 0 ||
		s.Mapped < s.Heap || s.MaxRSS == 0 {
		t.Errorf("stats: %+v, %v", s, err)
	}
	if p, err := e.Paging("mlx5_0"); err != nil || p != (Paging{}) {
		t.Errorf("paging: %+v, %v", p, err)
	}
	if n, err := e.Blocks("mlx5_0"); err != nil || n != 0 {
		t.Errorf("blocks: %d, %v", n, err)
	}
	if l, err := e.Listeners(); err != nil || len(l) > 0 {
		t.Errorf("listeners: %v, %v", l, err)
	}
	if n, err := e.Receivers(); err != nil || n != 0 {
		t.Errorf("receivers: %d, %v", n, err)
	}
	for _, on := range []bool{false, true} {
		if err := e.SetTrace(on); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	e := Need(t)
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"port":    {e.SetPort("mlx5_0", 2, true), `no port "2" of mlx5_0; want 1 to 1`},
		"gid":     {e.SetGID("mlx5_0", 1, 1000, netip.Addr{}), `no index "1000"`},
		"remove":  {e.Remove("mlx5_9"), `no device "mlx5_9"; there are: mlx5_0`},
		"clear":   {e.ClearFault(99), "no fault 99"},
		"inject":  {second(e.Inject("nosuch")), "nosuch"},
		"paging":  {second(e.Paging("mlx5_9")), "no device"},
		"blocks":  {second(e.Blocks("mlx5_9")), "no device"},
		"nothing": {second((&Emulator{"@nobody-listens-here"}).Devices()), "nobody-listens-here"},
	} {
		if tt.err == nil || !strings.HasPrefix(tt.err.Error(), "emulator: ") ||
			!strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, tt.err, tt.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// verdict is a testing.TB that remembers how it ended.
type verdict struct {
	testing.TB
	how string
}

func (v *verdict) Helper()           {}
func (v *verdict) Skip(args ...any)  { v.end("skip: " + fmt.Sprint(args...)) }
func (v *verdict) Fatal(args ...any) { v.end("fatal: " + fmt.Sprint(args...)) }
func (v *verdict) end(how string) {
	v.how = how
	runtime.Goexit()
}

func TestNeed(t *testing.T) {
	t.Setenv(control.Env, "")
	t.Setenv(RequireEnv, "")
	defer func(r bool, u error) { ran, unavailable = r, u }(ran, unavailable)
	for _, tt := range []struct {
		ran         bool
		unavailable error
		require     string
		want        string
	}{
		{false, nil, "", "fatal: emutest: no emulator: call emutest.Run(m) in TestMain"},
		{true, errors.New("no kernel"), "", "skip: emutest: no emulated adapters: no kernel"},
		{true, errors.New("no kernel"), "1", "fatal: emutest: no emulated adapters: no kernel"},
		{true, nil, "", "fatal: emutest: no emulator: EMU_CONTROL is not set"},
	} {
		ran, unavailable = tt.ran, tt.unavailable
		t.Setenv(RequireEnv, tt.require)
		v := &verdict{TB: t}
		done := make(chan bool)
		go func() {
			defer close(done)
			Need(v)
		}()
		<-done
		if !strings.HasPrefix(v.how, tt.want) {
			t.Errorf("%q, want %q", v.how, tt.want)
		}
	}
}

// TestMistakes: a mistake in an option is none of the machine's.
func TestMistakes(t *testing.T) {
	Need(t)
	for want, opt := range map[string]Option{
		`model "b" is none of`:  Devices("a,model=b"),
		"want NAME=NUMBER":      Limits("a"),
		"unknown kind":          Fault("a"),
		`no strict rule "a"`:    Strict("a"),
		"/nosuch/file":          Trace("/nosuch/file"),
		"open /nosuch/file: no": TraceJSON("/nosuch/file"),
	} {
		o := options{network: "own"}
		opt(&o)
		code, err := emulate(&o)
		if code != 0 || err == nil || isUnavailable(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d, %v, want %q", code, err, want)
		}
	}
}

// TestUnavailable: below an emulator there can be no other.
func TestUnavailable(t *testing.T) {
	Need(t)
	code, err := emulate(&options{network: "own"})
	if code != 0 || !isUnavailable(err) {
		t.Errorf("%d, %v", code, err)
	}
}
