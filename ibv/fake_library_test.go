package ibv

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/loader"
)

// The tests of this file run in processes of their own, each with another
// library.

func TestNoLibrary(t *testing.T) {
	inChild(t, t.TempDir(), nil, func(t *testing.T) {
		_, err := Devices()
		var le *loader.LibraryError
		if !errors.As(err, &le) || le.Name != loader.IBVerbs || !errors.Is(err, loader.ErrLibrary) {
			t.Fatalf("devices without libibverbs: %v", err)
		}
		wantErr(t, err, ErrLibrary, "libibverbs.so.1", loader.PathEnv)
		var packages []string
		for _, p := range le.Install {
			packages = append(packages, p.Packages)
		}
		if !strings.Contains(strings.Join(packages, " "), "libibverbs1") &&
			!strings.Contains(strings.Join(packages, " "), "rdma-core") {
			t.Errorf("packages to install: %v", packages)
		}
		for _, open := range []func() (*Device, error){
			func() (*Device, error) { return Open("") },
			func() (*Device, error) { return Open("mlx5_0") },
			func() (*Device, error) { return OpenIndex(0) },
			func() (*Device, error) { return OpenGUID(1) },
			DeviceInfo{Name: "mlx5_0"}.Open,
		} {
			if _, err := open(); !errors.As(err, &le) {
				t.Errorf("open without libibverbs: %v", err)
			}
		}
	})
}

// A library without functions that every release has is broken or something
// else; what needs them says so, the rest works.
func TestSparseLibrary(t *testing.T) {
	inChild(t, variant(t, "SPARSE"), nil, func(t *testing.T) {
		_, err := Devices()
		wantErr(t, err, ErrNotSupported, "ibv_get_device_name")
		var se *loader.SymbolError
		if !errors.As(err, &se) || se.Symbol != "ibv_get_device_name" {
			t.Errorf("%v does not tell the symbol", err)
		}
		_, err = Open("")
		wantErr(t, err, ErrNotSupported, "ibv_get_device_name")
		if n := live(t); n != 0 {
			t.Errorf("%d device lists were not freed", n)
		}
	})
}

func TestOldLibrary(t *testing.T) {
	for _, old := range []struct {
		name, macro string
		size        int
		ex, port    bool // the ops query_device_ex and query_port are there
	}{
		{"v15", "OLD=15", 496, true, false},
		{"v17", "OLD=17", 536, true, false},
		{"v25", "OLD=25", 648, true, true},
	} {
		t.Run(old.name, func(t *testing.T) {
			inChild(t, variant(t, old.macro), nil, func(t *testing.T) {
				testOldLibrary(t, old.size, old.ex, old.port)
			})
		})
	}
	// Contexts as MLNX_OFED makes them: in 4.x the last op is query_device_ex, before
	// 4.0 there is no such op.
	for _, old := range []struct {
		name, env, level string
		size             int
		ex               bool
	}{
		{"legacy", "sz=424,comp_mask=0x4000000000000000", "MLNX_OFED before 4.0, not rdma-core", 424, false},
		{"legacy4", "sz=432,comp_mask=0x4000000000000000", "MLNX_OFED 4.x, not rdma-core", 432, true},
	} {
		t.Run(old.name, func(t *testing.T) {
			inChild(t, variant(t, "OLD=15"), []string{"FAKEVERBS=" + old.env}, func(t *testing.T) {
				testOldLibrary(t, old.size, old.ex, false)
				if r := loader.Report(); r.Level != old.level {
					t.Errorf("the report takes %d bytes for %q, want %q", r.ContextSize, r.Level, old.level)
				}
			})
		})
	}
}

func testOldLibrary(t *testing.T, size int, ex, port bool) {
	devs := must(Devices())(t)
	if devs[0].Index != -1 {
		t.Errorf("index %d from a library that cannot tell", devs[0].Index)
	}
	s := fakeSide(t, nil)
	if n := s.dev.v.Context(s.dev.handle).Size; n != size && n != size+8 {
		t.Errorf("context of %d bytes, want %d", n, size)
	}
	a := must(s.dev.QueryDevice())(t)
	if (a.Ex != nil) != ex {
		t.Errorf("extended attributes %+v", a.Ex)
	}
	p := must(s.dev.QueryPort(1))(t)
	if p.State != PortActive || p.LinkLayer != LinkEthernet || p.RateGbps() == 0 {
		t.Errorf("port %+v", p)
	}

	// The GID table comes entry by entry, types from sysfs, which knows no fake0.
	table := must(s.dev.GIDTable())(t)
	if len(table) != 4 || table[1].GID.Addr().String() != "10.8.0.1" {
		t.Errorf("GID table %+v", table)
	}
	_, err := s.dev.QueryGIDEntry(1, 5)
	wantErr(t, err, ErrNotFound)

	// Optional access flags are left out, since the kernel call would refuse them.
	mr := closing(t, must(s.pd.AllocMR(4096, LocalWrite|RelaxedOrdering, nil))(t))
	if got := AccessFlags(get(t, "last.access")); got != LocalWrite {
		t.Errorf("registered with %v", got)
	}
	access := LocalWrite | RemoteWrite | RelaxedOrdering
	ok(t, mr.Rereg(&ReregOptions{Access: &access}))
	// An address of its own takes a call from v25.
	if m, err := s.pd.RegMemory(mr.addr, 4096, 0x1000, LocalWrite); needFake(t).Has("ibv_reg_mr_iova") {
		ok(t, err)
		ok(t, m.Close())
	} else {
		wantErr(t, err, ErrNotSupported, "ibv_reg_mr_iova")
	}

	qp := s.newQP(t, nil)
	ok(t, qp.Connect(must(qp.Endpoint(1, BestGID))(t), nil))
	fill(s.mr.Bytes()[:64], 1)
	post(t, qp, write(s, 1, Signaled))
	s.good(t, 1)
	same(t, s.mr.Bytes()[4096:4160], 1)
}

func TestSparseObjects(t *testing.T) {
	inChild(t, variant(t, "SPARSE", "WITH_NAMES"), nil, func(t *testing.T) {
		s := fakeSide(t, nil)
		wantErr(t, s.cq.Resize(1000), ErrNotSupported, "ibv_resize_cq")
		access := LocalWrite
		wantErr(t, s.mr.Rereg(&ReregOptions{Access: &access}), ErrNotSupported, "ibv_rereg_mr")
	})
}

// A test that leaves an object open fails the run, and the report says where the
// object was made.
func TestLeakFailsTheRun(t *testing.T) {
	needFake(t)
	if os.Getenv(childEnv) == t.Name() {
		must(Open("fake0"))(t)
		return
	}
	out, err := runChild(t, os.Getenv(loader.PathEnv), nil)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the run ended with %v", err)
	}
	for _, want := range []string{"--- PASS: TestLeakFailsTheRun", "1 objects were not closed", "device of fake0",
		"ibv.TestLeakFailsTheRun"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// An MR of Go memory that is dropped without Close is reported. The collector
// finds its pins, too, which would be the end of the process, and of the memory,
// to which the device may still write.
func TestDroppedMR(t *testing.T) {
	needFake(t)
	if os.Getenv(childEnv) == t.Name() {
		d := must(Open("fake0"))(t)
		pd := must(d.AllocPD())(t)
		memory := make(chan struct{})
		func() {
			buf := new([8192]byte)
			runtime.SetFinalizer(buf, func(*[8192]byte) { close(memory) })
			must(pd.RegMR(buf[:], LocalWrite))(t)
			mr := must(pd.RegMR(make([]byte, 64), LocalWrite))(t)
			ok(t, mr.Rereg(&ReregOptions{Buf: make([]byte, 128)}))
		}()
		collect(t)
		collect(t)
		select {
		case <-memory:
			t.Error("the memory of a registration was collected")
		default:
		}
		runtime.KeepAlive(pd)
		return
	}
	out, err := runChild(t, os.Getenv(loader.PathEnv), nil)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the run ended with %v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestDroppedMR", "mr of fake0/1 was never closed; made at",
		"ibv.TestDroppedMR"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// On a device that was removed every Close succeeds, although the library frees
// nothing; on one that is there none does.
func TestRemovedDevice(t *testing.T) {
	needFake(t)
	inChild(t, os.Getenv(loader.PathEnv), nil, func(t *testing.T) {
		c := must(Open("fake0"))(t)
		pd := must(c.AllocPD())(t)
		td := must(c.AllocThreadDomain())(t)
		parent := must(c.AllocParentDomain(pd, td))(t)
		ch := must(c.CreateCompChannel())(t)
		manual := must(c.CreateManualCompChannel())(t)
		cq := must(c.CreateCQ(8, &CQOptions{Channel: ch}))(t)
		srq := must(pd.CreateSRQ(nil))(t)
		qp := must(parent.CreateQP(cq, cq, &QPOptions{SRQ: srq}))(t)
		mr := must(pd.AllocMR(4096, LocalWrite, nil))(t)
		ah := must(pd.CreateAH(&AHAttr{Port: 1}))(t)
		destroys := []struct {
			fn  string
			obj interface{ Close() error }
		}{
			{"ibv_destroy_ah", ah}, {"ibv_dereg_mr", mr}, {"ibv_destroy_qp", qp}, {"ibv_destroy_srq", srq},
			{"ibv_destroy_cq", cq},
			{"ibv_destroy_comp_channel", ch}, {"ibv_destroy_comp_channel", manual}, {"ibv_dealloc_pd", parent},
			{"dealloc_td", td}, {"ibv_dealloc_pd", pd},
		}
		for _, d := range destroys {
			for _, e := range []syscall.Errno{syscall.EIO, syscall.ENODEV, syscall.EBUSY} {
				failing(t, d.fn, e)
				if err := d.obj.Close(); !errors.Is(err, e) && !errors.Is(err, syscall.EBUSY) {
					t.Errorf("%s that fails with %v: %v", d.fn, e, err)
				}
			}
		}
		failing(t, "ibv_query_device", syscall.EIO)
		for i, d := range destroys {
			failing(t, d.fn, []syscall.Errno{syscall.EIO, syscall.ENODEV, syscall.EBUSY}[i%3])
			if err := d.obj.Close(); err != nil {
				t.Errorf("%s on a removed device: %v", d.fn, err)
			}
		}
		ok(t, c.Close())
	})
}

// collect runs the collector until the finalizers and cleanups of what was
// garbage have run, each kind in order.
func collect(t *testing.T) {
	t.Helper()
	ran, done := make(chan struct{}), make(chan struct{})
	runtime.SetFinalizer(new([64]byte), func(*[64]byte) { close(ran) })
	runtime.AddCleanup(new([64]byte), func(done chan struct{}) { <-ran; close(done) }, done)
	for deadline := time.Now().Add(time.Minute); ; {
		runtime.GC()
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the collector does not run finalizers")
		}
	}
}
