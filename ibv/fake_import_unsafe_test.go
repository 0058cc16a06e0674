package ibv

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(all)
}

// What is imported is forgotten by Close, and never destroyed.
func TestFake_Import(t *testing.T) {
	leavesNothing(t)
	before := descriptors(t)
	f := must(os.Open(os.DevNull))(t)
	dev := must(ImportDevice(f))(t)
	ok(t, f.Close()) // the device has its own
	cmd := must(dev.CommandFile())(t)
	if a, b := must(cmd.Stat())(t), must(os.Stat(os.DevNull))(t); !os.SameFile(a, b) {
		t.Errorf("CommandFile is %v", a)
	}
	ok(t, cmd.Close())
	for _, fn := range []string{"ibv_dealloc_pd", "ibv_dereg_mr", "free_dm"} {
		failing(t, fn, syscall.EIO)
	}
	pd := must(dev.ImportPD(7))(t)
	mr := must(pd.ImportMR(8, 0x10000))(t)
	dm := must(dev.ImportDM(9, 64))(t)
	if h, err := dm.Handle(); pd.Handle() != 7 || mr.Handle() != 8 || h != 9 || err != nil {
		t.Errorf("%d, %d, %d, %v", pd.Handle(), mr.Handle(), h, err)
	}
	if mr.Addr() != 0x10000 || mr.Len() != 4096 || mr.Bytes() != nil || mr.LKey() == 0 {
		t.Errorf("%d bytes at %#x", mr.Len(), mr.Addr())
	}
	must(dm.WriteAt([]byte("1234"), 60))(t)
	wantErr(t, mr.Rereg(&ReregOptions{PD: pd}), syscall.EINVAL, "imported")
	wantErr(t, pd.Close(), syscall.EBUSY, "1 mr")
	wantErr(t, dev.Close(), syscall.EBUSY)
	ok(t, mr.Close())
	ok(t, pd.Close())
	ok(t, dm.Close())
	if pd.Handle() != 0 || mr.Handle() != 0 {
		t.Error("a closed object has a handle")
	}
	for _, c := range []struct {
		fn   string
		call func() error
	}{
		{"ibv_import_pd", func() error { _, err := dev.ImportPD(1); return err }},
		{"ibv_import_dm", func() error { _, err := dev.ImportDM(1, 64); return err }},
	} {
		failing(t, c.fn, syscall.ENOENT)
		wantErr(t, c.call(), syscall.ENOENT, "has closed it")
		failing(t, c.fn, syscall.EOPNOTSUPP)
		wantUnsupported(t, c.call())
	}
	_, err := dev.ImportDM(1, 0)
	wantArg(t, err, "size")
	ok(t, dev.Close())
	_, err = dev.ImportPD(1)
	wantErr(t, err, ErrClosed)
	_, err = pd.ImportMR(1, 0)
	wantErr(t, err, ErrClosed)
	_, err = dev.CommandFile()
	wantErr(t, err, ErrClosed)
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

// A refused import leaves no descriptor, whether the library has closed its own or not.
func TestFake_ImportRefused(t *testing.T) {
	leavesNothing(t)
	f := closing(t, must(os.Open(os.DevNull))(t))
	before := descriptors(t)
	for _, closes := range []int{0, 1} {
		set(t, "import.closes", closes)
		failing(t, "ibv_import_device", syscall.EINVAL)
		_, err := ImportDevice(f)
		wantErr(t, err, syscall.EINVAL, "not one of a device's commands")
		failing(t, "ibv_import_device", syscall.EOPNOTSUPP)
		_, err = ImportDevice(f)
		wantUnsupported(t, err)
		if n := descriptors(t); n != before {
			t.Errorf("%d descriptors, %d before", n, before)
		}
	}
	_, err := ImportDevice(nil)
	wantArg(t, err, "cmd")
	closed := must(os.Open(os.DevNull))(t)
	ok(t, closed.Close())
	_, err = ImportDevice(closed)
	wantErr(t, err, syscall.EBADF)
}

// What is adopted works as usual, and its owner still has it after Close.
func TestFake_Adopt(t *testing.T) {
	s := fakeSide(t, nil)
	var ctx, pdHandle, mrHandle unsafe.Pointer
	get := func(to *unsafe.Pointer) func(unsafe.Pointer) { return func(h unsafe.Pointer) { *to = h } }
	ok(t, s.dev.Control(get(&ctx)))
	ok(t, s.pd.Control(get(&pdHandle)))
	ok(t, s.mr.Control(get(&mrHandle)))

	dev := must(AdoptDevice(ctx))(t)
	pd := must(dev.AdoptPD(pdHandle))(t)
	mr := must(pd.AdoptMR(mrHandle, s.mr.Addr()))(t)
	if mr.LKey() != s.mr.LKey() || mr.Len() != s.mr.Len() || mr.Addr() != s.mr.Addr() || mr.Bytes() != nil {
		t.Errorf("%d bytes at %#x", mr.Len(), mr.Addr())
	}
	wantErr(t, mr.Rereg(&ReregOptions{PD: pd}), syscall.EINVAL, "adopted")
	cq := must(dev.CreateCQ(16, nil))(t)
	qp := must(pd.CreateQP(cq, cq, nil))(t)
	ok(t, qp.Connect(must(qp.Endpoint(1, 1))(t), nil))
	fill(s.mr.Bytes()[:64], 5)
	post(t, qp, SendWR{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{mr.SGE(0, 64)}, Remote: mr.Remote().At(4096)})
	side := &side{dev: dev, cq: cq}
	side.good(t, 0)
	same(t, s.mr.Bytes()[4096:4096+64], 5)
	wantErr(t, pd.Close(), syscall.EBUSY)
	ok(t, qp.Close())
	ok(t, cq.Close())

	for _, fn := range []string{"ibv_dealloc_pd", "ibv_dereg_mr", "ibv_close_device"} {
		failing(t, fn, syscall.EIO)
	}
	ok(t, mr.Close())
	ok(t, pd.Close())
	ok(t, dev.Close())
	for _, fn := range []string{"ibv_dealloc_pd", "ibv_dereg_mr", "ibv_close_device"} {
		unset(t, "fail."+fn)
	}

	_, err := AdoptDevice(nil)
	wantArg(t, err, "context")
	_, err = s.dev.AdoptPD(nil)
	wantArg(t, err, "pd")
	_, err = s.pd.AdoptMR(nil, 0)
	wantArg(t, err, "mr")
	_, err = s.dev.AdoptPD(unsafe.Pointer(&abi.PD{Context: 8}))
	wantArg(t, err, "pd")
	other := closing(t, must(s.dev.AllocPD())(t))
	_, err = other.AdoptMR(mrHandle, 0)
	wantArg(t, err, "mr")
	_, err = dev.AdoptPD(pdHandle)
	wantErr(t, err, ErrClosed)
	_, err = pd.AdoptMR(mrHandle, 0)
	wantErr(t, err, ErrClosed)
}
