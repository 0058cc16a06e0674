package uverbs

import (
	"bytes"
	"errors"
	"fmt"
	"github.com/pureverbs/pureverbs/internal/abi"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/cmem"
)

// fakeKernel answers commands with the bytes of fill, and notes what it was asked.
type fakeKernel struct {
	lacks    func(object, method uint16) syscall.Errno // of the ioctl; nil: nothing
	fill     byte
	data     []byte // comes before fill
	silent   bool   // it answers nothing, and says so
	short    int    // bytes of a write that it does not take
	wide     bool   // numbers of new objects have more than 32 bits
	numbers  int    // of new objects
	errno    syscall.Errno
	calls    []string
	in, drv  []byte // of the last command
	outBytes int
	out      int // bytes of the answer to INVOKE_WRITE, without the driver's part
}

func (k *fakeKernel) file(forms *Forms) *File {
	return NewFile(3, 1, forms, System{Ioctl: k.ioctl, Write: k.write})
}

func data(a *Attr) []byte {
	if a.Len <= 8 {
		return Bytes(&a.Data)[:a.Len]
	}
	return cmem.Slice[byte](uintptr(a.Data), int(a.Len))
}

// outs are the attributes of methods that the kernel answers, by object and method; -1 is that of a new object.
var outs = map[[2]uint16][]uint16{
	{0, 0}: {1}, {0, 1}: {1, 2}, {0, 2}: {1}, {0, 3}: {0, 1}, {0, 4}: {0, 1, driverIn}, {0, 5}: {2, 3}, {0, 6}: {3},
	{3, 0}: {6}, {3, 1}: {1}, {4, 0}: {13, 14}, {4, 1}: {1}, {5, 0}: {11, 12, 13}, {5, 1}: {1}, {7, 0}: {6, 7},
	{7, 3}: {1, 2, 3}, {7, 4}: {7, 8}, {7, 5}: {9, 10}, {12, 0}: {9, 10, 11}, {12, 1}: {1},
}

func (k *fakeKernel) ioctl(_ int, c *Command) syscall.Errno {
	k.calls = append(k.calls, fmt.Sprintf("%d.%d", c.Object, c.Method))
	if int(c.length) != 24+16*int(c.Num) || c.driver != 1 {
		return syscall.EINVAL
	}
	if k.lacks != nil {
		if e := k.lacks(c.Object, c.Method); e != 0 {
			return e
		}
	}
	if k.errno != 0 {
		return k.errno
	}
	for i := range c.Attrs[:c.Num] {
		a := &c.Attrs[i]
		switch {
		case a.ID == driverOut || slices.Contains(outs[[2]uint16{c.Object, c.Method}], a.ID):
			if !k.silent {
				k.answer(cmem.Slice[byte](uintptr(a.Data), int(a.Len)))
				a.Flags |= ValidOutput
			}
			if a.ID != driverOut {
				k.out = int(a.Len)
			}
		case a.ID == driverIn:
			k.drv = bytes.Clone(data(a))
		case c.Object == 0 && c.Method == 0 && a.ID == 0:
			k.in = bytes.Clone(data(a))
		case a.Len == 0 && a.ID == 0 && c.Method == 0: // a new object
			old := a.Data // of an object that ends: these methods also have number 0
			a.Data = uint64(k.fill)
			k.data = k.data[copy(Bytes(&a.Data), k.data):]
			if old == 0 {
				k.numbers++
			}
			if k.wide {
				a.Data |= 1 << 32
			}
		}
	}
	return 0
}

func (k *fakeKernel) answer(b []byte) {
	k.outBytes += len(b)
	n := copy(b, k.data)
	k.data = k.data[n:]
	for i := range b[n:] {
		b[n+i] = k.fill
	}
}

func (k *fakeKernel) write(_ int, b []byte) (int, error) {
	h := (*abi.UverbsCmdHdr)(unsafe.Pointer(&b[0]))
	k.calls = append(k.calls, fmt.Sprintf("write %#x", h.Command))
	if k.errno != 0 {
		return -1, k.errno
	}
	body, n, resp := b[8:], int(h.OutWords)*4, uint64(0)
	if h.Command&extended != 0 {
		x := (*abi.UverbsExCmdHdr)(unsafe.Pointer(&b[8]))
		n, resp, body = (int(h.OutWords)+int(x.ProviderOutWords))*8, x.Response, b[24:]
		if len(body) != (int(h.InWords)+int(x.ProviderInWords))*8 {
			return -1, syscall.EINVAL
		}
	} else {
		if len(b) != int(h.InWords)*4 {
			return -1, syscall.EINVAL
		}
		if n > 0 {
			resp = *(*uint64)(unsafe.Pointer(&body[0]))
		}
	}
	k.in = bytes.Clone(body)
	if n > 0 && !k.silent {
		k.answer(cmem.Slice[byte](uintptr(resp), n))
	}
	return len(b) - k.short, nil
}

// driverPart is what each command gets as the driver's, where it has one.
func driverPart() Driver { return Driver{In: bytes.Repeat([]byte{7}, 24), Out: make([]byte, 16)} }

// all calls each command once.
var all = []struct {
	name string
	do   func(f *File) error
}{
	{"get_context", func(f *File) error { return second(f.GetContext(driverPart())) }},
	{"query_context", func(f *File) error { return second(f.QueryContext(driverIn, make([]byte, 8))) }},
	{"create_comp_channel", func(f *File) error { return second(f.CreateCompChannel()) }},
	{"query_device", func(f *File) error { return second(f.QueryDevice(true)) }},
	{"query_device_ex", func(f *File) error { return second(f.QueryDeviceEx(driverPart())) }},
	{"query_port", func(f *File) error { return second(f.QueryPort(1)) }},
	{"query_gid_entry", func(f *File) error { return f.QueryGIDEntry(1, 2, new(abi.GIDEntry)) }},
	{"query_gid_table", func(f *File) error { return second(f.QueryGIDTable(make([]abi.GIDEntry, 4))) }},
	{"alloc_pd", func(f *File) error { return second(f.AllocPD(Driver{Out: make([]byte, 4)})) }},
	{"dealloc_pd", func(f *File) error { return f.DeallocPD(9) }},
	{"reg_mr", func(f *File) error {
		return second(f.RegMR(&abi.UverbsRegMR{Start: 1, Length: 2, HCAVA: 3, PDHandle: 4, AccessFlags: 5}))
	}},
	{"dereg_mr", func(f *File) error { return f.DeregMR(9) }},
	{"create_ah", func(f *File) error { return second(f.CreateAH(1, 2, &abi.AHAttr{DLID: 3}, driverPart())) }},
	{"destroy_ah", func(f *File) error { return f.DestroyAH(9) }},
	{"rereg_mr", func(f *File) error { _, _, err := f.ReregMR(&abi.UverbsReregMR{MRHandle: 1, Flags: 2}); return err }},
	{"advise_mr", func(f *File) error { return f.AdviseMR(1, 2, 3, make([]abi.SGE, 2)) }},
	{"query_mr", func(f *File) error { _, _, err := f.QueryMR(9); return err }},
	{"reg_dm_mr", func(f *File) error { return second(f.RegDMMR(1, 2, 3, 4, 5)) }},
	{"reg_dmabuf_mr", func(f *File) error { return second(f.RegDmabufMR(1, 2, 3, 4, 5, 6)) }},
	{"alloc_mw", func(f *File) error { _, _, err := f.AllocMW(1, 2); return err }},
	{"dealloc_mw", func(f *File) error { return f.DeallocMW(9) }},
	{"alloc_dm", func(f *File) error { return second(f.AllocDM(1, 2)) }},
	{"free_dm", func(f *File) error { return f.FreeDM(9) }},
	{"modify_cq", func(f *File) error { return f.ModerateCQ(1, 2, 3) }},
	{"create_xsrq", func(f *File) error {
		q := &abi.UverbsCreateSRQ{UserHandle: 1, PDHandle: 2, MaxWR: 3}
		return second(f.CreateSRQ(q, &XRC{XRCD: 4, CQ: 5}, driverPart()))
	}},
	{"create_qp_ex", func(f *File) error {
		q := &abi.UverbsCreateQP{UserHandle: 1, PDHandle: 2, QPType: 8}
		return second(f.CreateQP(q, QPOptions{Flags: 1 << 8}, driverPart()))
	}},
	{"open_qp", func(f *File) error { return second(f.OpenQP(1, 2, 3, 4)) }},
	{"modify_qp_ex", func(f *File) error { return f.ModifyQPEx(&abi.UverbsModifyQP{QPHandle: 1}, 2, driverPart()) }},
	{"open_xrcd", func(f *File) error { return second(f.OpenXRCD(-1, 2)) }},
	{"close_xrcd", func(f *File) error { return f.CloseXRCD(9) }},
	{"create_flow", func(f *File) error {
		return second(f.CreateFlow(1, &abi.UverbsFlowAttr{Type: 2}, make([]byte, 40), driverPart()))
	}},
	{"destroy_flow", func(f *File) error { return f.DestroyFlow(9) }},
	{"create_wq", func(f *File) error {
		return second(f.CreateWQ(&abi.UverbsExCreateWQ{UserHandle: 1, PDHandle: 2, CreateFlags: 3}, driverPart()))
	}},
	{"modify_wq", func(f *File) error {
		return f.ModifyWQ(&abi.UverbsExModifyWQ{AttrMask: 1, WQHandle: 2}, make([]byte, 8))
	}},
	{"destroy_wq", func(f *File) error { return second(f.DestroyWQ(9)) }},
	{"create_rwq_ind_tbl", func(f *File) error { return second(f.CreateTable(1, []uint32{1, 2}, driverPart())) }},
	{"destroy_rwq_ind_tbl", func(f *File) error { return f.DestroyTable(9) }},
	{"create_cq", func(f *File) error {
		q := &abi.UverbsCreateCQ{UserHandle: 1, CQE: 2, CompVector: 3, CompChannel: 4}
		return second(f.CreateCQ(q, 0, driverPart()))
	}},
	{"resize_cq", func(f *File) error { return f.ResizeCQ(1, 2, make([]byte, 16)) }},
	{"destroy_cq", func(f *File) error { _, _, err := f.DestroyCQ(9); return err }},
	{"create_srq", func(f *File) error {
		return second(f.CreateSRQ(&abi.UverbsCreateSRQ{UserHandle: 1, PDHandle: 2, MaxWR: 3}, nil, driverPart()))
	}},
	{"modify_srq", func(f *File) error { return f.ModifySRQ(1, 2, 3, 4) }},
	{"query_srq", func(f *File) error { _, _, _, err := f.QuerySRQ(9); return err }},
	{"destroy_srq", func(f *File) error { return second(f.DestroySRQ(9)) }},
	{"create_qp", func(f *File) error {
		q := &abi.UverbsCreateQP{UserHandle: 1, PDHandle: 2, SRQHandle: 3, IsSRQ: 1, SQSigAll: 1, QPType: 2}
		return second(f.CreateQP(q, QPOptions{}, driverPart()))
	}},
	{"modify_qp", func(f *File) error { return f.ModifyQP(&abi.UverbsModifyQP{QPHandle: 1, AttrMask: 2}) }},
	{"query_qp", func(f *File) error { return second(f.QueryQP(1, 2)) }},
	{"destroy_qp", func(f *File) error { return second(f.DestroyQP(9)) }},
	{"attach_mcast", func(f *File) error { return f.Mcast(true, 1, [16]byte{}, 2) }},
	{"detach_mcast", func(f *File) error { return f.Mcast(false, 1, [16]byte{}, 2) }},
}

func second[T any](_ T, err error) error { return err }

// plausible reports whether an error is one that a good kernel's fill may cause: it knows no descriptors and sizes.
func plausible(err error) bool {
	var e *ReplyError
	return err == nil || errors.As(err, &e) && errors.Is(err, syscall.EPROTO)
}

// TestForms gives each command to kernels that lack forms, twice: the second time the File does not ask again.
func TestForms(t *testing.T) {
	kernels := []struct {
		name  string
		lacks func(object, method uint16) syscall.Errno
		// want returns the calls for a command with these forms.
		want func(method, number bool) (first, again []string)
	}{
		{"all", nil, func(m, n bool) (a, b []string) {
			if m {
				return []string{"method"}, []string{"method"}
			}
			return []string{"0.0"}, []string{"0.0"}
		}},
		{"no methods", func(o, m uint16) syscall.Errno {
			if o == 0 && m == 0 {
				return 0
			}
			return syscall.EPROTONOSUPPORT
		}, func(m, n bool) (a, b []string) {
			switch {
			case !n:
				return []string{"method"}, []string{"method"}
			case m:
				return []string{"method", "0.0"}, []string{"0.0"}
			}
			return []string{"0.0"}, []string{"0.0"}
		}},
		{"no INVOKE_WRITE", func(o, m uint16) syscall.Errno { return syscall.EPROTONOSUPPORT },
			func(m, n bool) (a, b []string) {
				switch {
				case !n:
					return []string{"method"}, []string{"method"}
				case m:
					return []string{"method", "0.0", "write"}, []string{"write"}
				}
				return []string{"0.0", "write"}, []string{"write"}
			}},
		{"no ioctl", func(o, m uint16) syscall.Errno { return syscall.ENOTTY }, func(m, n bool) (a, b []string) {
			switch {
			case !n:
				return []string{"method"}, nil
			case m:
				return []string{"method", "write"}, []string{"write"}
			}
			return []string{"0.0", "write"}, []string{"write"}
		}},
	}
	for _, kernel := range kernels {
		for _, c := range all {
			k := &fakeKernel{lacks: kernel.lacks, fill: 1}
			f := k.file(new(Forms))
			forms := commandsByName(t)[c.name]
			first, again := kernel.want(forms.method != noMethod, forms.number != noNumber)
			for i, want := range [][]string{first, again} {
				k.calls = nil
				err := c.do(f)
				if forms.number == noNumber && kernel.lacks != nil {
					if !Absent(err) {
						t.Errorf("%s, %s: %v, want that it is absent", kernel.name, c.name, err)
					}
				} else if !plausible(err) {
					t.Errorf("%s, %s: %v", kernel.name, c.name, err)
				}
				for j, w := range want {
					switch w {
					case "method":
						want[j] = fmt.Sprintf("%d.%d", forms.object, forms.method)
					case "write":
						want[j] = fmt.Sprintf("write %#x", forms.number)
					}
				}
				got := k.calls
				if strings.HasSuffix(c.name, "_context") && len(got) > len(want) { // the file of events comes by itself
					got = got[:len(want)]
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %s, time %d: called %v, want %v", kernel.name, c.name, i+1, got, want)
				}
			}
		}
	}
}

// commandsByName returns the table.
func commandsByName(t *testing.T) map[string]*command {
	t.Helper()
	m := make(map[string]*command)
	for _, c := range []*command{&getContext, &queryContext, &queryGIDTable, &queryGIDEntry, &queryDevice,
		&queryDeviceEx, &queryPort, &allocPD, &deallocPD, &createAH, &destroyAH, &regMR, &deregMR, &reregMR, &adviseMR,
		&queryMR, &regDMMR, &regDmabufMR, &allocMW, &deallocMW, &allocDM, &freeDM, &createCompChannel, &createCQ,
		&resizeCQ, &modifyCQ, &destroyCQ, &createQP, &createQPEx, &openQP, &queryQP, &modifyQP, &modifyQPEx,
		&destroyQP, &attachMcast, &detachMcast, &createSRQ, &createXSRQ, &modifySRQ, &querySRQ, &destroySRQ, &openXRCD,
		&closeXRCD, &createFlow, &destroyFlow, &createWQ, &modifyWQ, &destroyWQ, &createTable, &destroyTable} {
		m[c.name] = c
	}
	if len(m) != len(all) {
		t.Fatalf("%d commands, of which %d are called", len(m), len(all))
	}
	return m
}

// TestSameStruct compares what INVOKE_WRITE and write() carry.
func TestSameStruct(t *testing.T) {
	for _, c := range all {
		if commandsByName(t)[c.name].number == noNumber {
			continue
		}
		var got [2][]byte
		for i, form := range []Form{ByInvoke, ByWrite} {
			k := &fakeKernel{fill: 1}
			forms := new(Forms)
			forms.From(form)
			if err := c.do(k.file(forms)); !plausible(err) {
				t.Errorf("%s: %v", c.name, err)
			}
			got[i] = append(k.in, k.drv...)
		}
		if len(got[0]) == len(got[1]) && len(got[0]) >= 8 && !bytes.Equal(got[0], got[1]) {
			clear(got[1][:8]) // the address of the answer
			clear(got[0][:8])
		}
		if !bytes.Equal(got[0], got[1]) {
			t.Errorf("%s: INVOKE_WRITE has\n% x\nwrite() has\n% x", c.name, got[0], got[1])
		}
	}
}

// TestBadReplies has kernels that answer nothing, or anything: each command returns, with a typed error or none.
func TestBadReplies(t *testing.T) {
	for _, form := range []Form{ByMethod, ByInvoke, ByWrite} {
		for _, k := range []*fakeKernel{{silent: true}, {fill: 0xff}, {fill: 0x80}, {}, {fill: 1, short: 1}} {
			for _, c := range all {
				forms := new(Forms)
				forms.From(form)
				err := c.do(k.file(forms))
				if !plausible(err) && !Absent(err) {
					t.Errorf("form %d, %+v, %s: %v", form, k, c.name, err)
				}
			}
		}
	}
}

// TestImpossibleReplies has kernels whose answer is no answer, whatever it says: each command refuses it with a type.
func TestImpossibleReplies(t *testing.T) {
	for _, row := range []struct {
		form    Form
		bad     fakeKernel
		applies func(good *fakeKernel) bool
		least   int // commands
	}{
		{ByWrite, fakeKernel{fill: 1, short: 1}, func(*fakeKernel) bool { return true }, 20},
		{ByMethod, fakeKernel{silent: true}, func(g *fakeKernel) bool { return g.out > 0 }, 10},
		{ByInvoke, fakeKernel{silent: true}, func(g *fakeKernel) bool { return g.out > 0 }, 10},
		{ByMethod, fakeKernel{fill: 1, wide: true}, func(g *fakeKernel) bool { return g.numbers > 0 }, 5},
	} {
		n := 0
		for _, c := range all {
			try := func(k *fakeKernel) error {
				forms := new(Forms)
				forms.From(row.form)
				return c.do(k.file(forms))
			}
			good, bad := fakeKernel{fill: 1}, row.bad
			if err := try(&good); Absent(err) || !row.applies(&good) {
				continue
			}
			n++
			var e *ReplyError
			if err := try(&bad); !errors.As(err, &e) {
				t.Errorf("form %d, %+v, %s: %v, want a ReplyError", row.form, row.bad, c.name, err)
			}
		}
		if n < row.least {
			t.Errorf("form %d, %+v: %d commands", row.form, row.bad, n)
		}
	}
}

// TestErrors passes errnos through, and has them explained.
func TestErrors(t *testing.T) {
	why := errors.New("explained")
	for _, e := range []syscall.Errno{syscall.EINVAL, syscall.ENOMEM, syscall.EIO, syscall.EACCES, syscall.EAGAIN,
		syscall.EBUSY} {
		for _, form := range []Form{ByMethod, ByInvoke, ByWrite} {
			for _, c := range all {
				k, forms := &fakeKernel{errno: e}, new(Forms)
				forms.From(form)
				f := k.file(forms)
				f.Explain(func(err error) error { return fmt.Errorf("%w: %w", err, why) })
				err := c.do(f)
				if errors.Is(err, syscall.ENOTTY) || errors.Is(err, syscall.EPROTONOSUPPORT) {
					continue
				}
				if !errors.Is(err, e) || !errors.Is(err, why) {
					t.Errorf("%s: %v, want %v, explained", c.name, err, e)
				}
				f.Explain(nil)
				if err := c.do(f); err != error(e) {
					t.Errorf("%s: %v, want %v alone", c.name, err, e)
				}
			}
		}
	}
}

// TestTooMany refuses more attributes than there is room for.
func TestTooMany(t *testing.T) {
	k := new(fakeKernel)
	if err := k.file(new(Forms)).Method("x", 1, 1, make([]Arg, maxAttrs+1)...); err != syscall.E2BIG || k.calls != nil {
		t.Errorf("%v, %v", err, k.calls)
	}
}

// TestTooLong refuses attributes whose length does not fit in its 16 bits.
func TestTooLong(t *testing.T) {
	long := make([]byte, 1<<16)
	for name, a := range map[string]Arg{"in": In(1, long), "out": Out(1, long)} {
		k := new(fakeKernel)
		if err := k.file(new(Forms)).Method("x", 1, 1, a); err != syscall.EINVAL || k.calls != nil {
			t.Errorf("%s: %v, %v", name, err, k.calls)
		}
	}
}

// FuzzReplies: the replies to a command begin with data.
func FuzzReplies(f *testing.F) {
	for i := range all {
		f.Add([]byte{1}, byte(0), byte(i%3), byte(i), false)
		f.Add([]byte{0xff, 0xff, 0xff, 0x7f, 0x10}, byte(0xff), byte(i%3), byte(i), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, fill, form, which byte, silent bool) {
		k, forms := &fakeKernel{fill: fill, data: data, silent: silent}, new(Forms)
		forms.From(Form(form % 3))
		c := all[int(which)%len(all)]
		if err := c.do(k.file(forms)); !plausible(err) && !Absent(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	})
}
