//go:build linux

package uapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeMem is a program's memory of one range; whatever lies outside faults.
type fakeMem struct {
	base uint64
	b    []byte
	ro   bool
}

var errFault = errors.New("fault")

func (m *fakeMem) at(addr uint64, n int) ([]byte, error) {
	off := addr - m.base
	if addr < m.base || off > uint64(len(m.b)) || uint64(n) > uint64(len(m.b))-off {
		return nil, errFault
	}
	return m.b[off : off+uint64(n)], nil
}

func (m *fakeMem) Read(addr uint64, b []byte) error {
	p, err := m.at(addr, len(b))
	copy(b, p)
	return err
}

func (m *fakeMem) WriteSpans(all []Span) error {
	for _, s := range all {
		if err := m.Write(s.Addr, s.Bytes); err != nil {
			return err
		}
	}
	return nil
}

func (m *fakeMem) Write(addr uint64, b []byte) error {
	p, err := m.at(addr, len(b))
	if err == nil && m.ro {
		err = errFault
	}
	if err == nil {
		copy(p, b)
	}
	return err
}

func find(object, id uint16) *Method {
	for i := range Methods {
		if Methods[i].Object == object && Methods[i].ID == id {
			return &Methods[i]
		}
	}
	return nil
}

func cmd(number uint32) *Cmd {
	for i := range Cmds {
		if Cmds[i].Number == number {
			return &Cmds[i]
		}
	}
	return nil
}

const base = 0x7f00_0000_0000

// attr is 16 bytes as the headers lay them out: id, len, flags, two bytes of enum or nothing, data.
func attr(id, n, flags uint16, data uint64) []byte {
	b := binary.LittleEndian.AppendUint16(nil, id)
	b = binary.LittleEndian.AppendUint16(b, n)
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = append(b, 0, 0)
	return binary.LittleEndian.AppendUint64(b, data)
}

func request(object, method uint16, attrs ...[]byte) *fakeMem {
	b := binary.LittleEndian.AppendUint16(nil, uint16(24+16*len(attrs)))
	b = binary.LittleEndian.AppendUint16(b, object)
	b = binary.LittleEndian.AppendUint16(b, method)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(attrs)))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
	for _, a := range attrs {
		b = append(b, a...)
	}
	return &fakeMem{base: base, b: append(b, make([]byte, 256)...)}
}

// destroyCQ as libibverbs sends it, its answer at the end.
func destroyCQ() *fakeMem {
	return request(3, 1, attr(1, 8, 1, base+100), attr(0, 0, 1, 7))
}

func TestReadIoctl(t *testing.T) {
	m := destroyCQ()
	b, e := ReadIoctl(m, base, find)
	if e != 0 {
		t.Fatal(e)
	}
	if b.Method.Name != "destroy_cq" || b.Uint(0) != 7 || b.Has(2) {
		t.Errorf("got %s, handle %d", b.Method.Name, b.Uint(0))
	}
	v := DestroyCQResp{3, 4}
	if e := b.Room(1).Put(Bytes(&v), true); e != 0 {
		t.Fatal(e)
	}
	if e := b.Flush(); e != 0 {
		t.Fatal(e)
	}
	if want := []byte{3, 0, 0, 0, 4, 0, 0, 0}; !bytes.Equal(m.b[100:108], want) {
		t.Errorf("answer % x, want % x", m.b[100:108], want)
	}
	if m.b[24+4] != 3 {
		t.Errorf("flags of the answered attribute are %d, want MANDATORY|VALID_OUTPUT", m.b[24+4])
	}
}

func TestReadIoctlErrors(t *testing.T) {
	long := make([][]byte, 255)
	for i := range long {
		long[i] = attr(uint16(0x800+i), 0, 0, 0)
	}
	for _, c := range []struct {
		name string
		m    *fakeMem
		want unix.Errno
	}{
		{"ok", destroyCQ(), 0},
		{"length", func() *fakeMem { m := destroyCQ(); m.b[0]++; return m }(), unix.EINVAL},
		{"count", func() *fakeMem { m := destroyCQ(); m.b[6] = 255; m.b[7] = 255; return m }(), unix.EINVAL},
		{"more than a page", request(3, 1, append(long, destroyCQ().b[24:40])...), unix.EINVAL},
		{"reserved", func() *fakeMem { m := destroyCQ(); m.b[8] = 1; return m }(), unix.EPROTONOSUPPORT},
		{"reserved2", func() *fakeMem { m := destroyCQ(); m.b[20] = 1; return m }(), unix.EPROTONOSUPPORT},
		{"driver", func() *fakeMem { m := destroyCQ(); m.b[16] = 2; return m }(), unix.EINVAL},
		{"object", request(13, 0), unix.EPROTONOSUPPORT},
		{"method", request(3, 9), unix.EPROTONOSUPPORT},
		{"unknown mandatory", request(3, 1, attr(1, 8, 1, base), attr(0, 0, 1, 7), attr(9, 0, 1, 0)),
			unix.EPROTONOSUPPORT},
		{"unknown optional", request(3, 1, attr(1, 8, 1, base), attr(0, 0, 1, 7), attr(9, 0, 0, 0)), 0},
		{"missing", request(3, 1, attr(0, 0, 1, 7)), unix.EINVAL},
		{"twice", request(3, 1, attr(1, 8, 1, base), attr(0, 0, 1, 7), attr(0, 0, 1, 7)), unix.EINVAL},
		{"handle with a length", request(3, 1, attr(1, 8, 1, base), attr(0, 4, 1, 7)), unix.EINVAL},
		{"room too small", request(3, 1, attr(1, 4, 1, base), attr(0, 0, 1, 7)), unix.EINVAL},
		{"longer room", request(3, 1, attr(1, 64, 1, base), attr(0, 0, 1, 7)), 0},
		{"header faults", &fakeMem{base: base, b: make([]byte, 23)}, unix.EFAULT},
		{"attributes fault", &fakeMem{base: base, b: destroyCQ().b[:40]}, unix.EFAULT},
		{"data faults", request(4, 0, attr(8, 20, 1, 64)), unix.EFAULT},
		{"data too long", request(0, 2, attr(0, 16, 1, base)), unix.EINVAL},
		{"tail not zero", request(4, 0, attr(8, 40, 1, base)), unix.EOPNOTSUPP},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, e := ReadIoctl(c.m, base, find); e != c.want {
				t.Errorf("got %v, want %v", e, c.want)
			}
		})
	}
}

func TestRoomCutsAndClears(t *testing.T) {
	m := &fakeMem{base: base, b: bytes.Repeat([]byte{0xee}, 16)}
	for _, c := range []struct {
		n     int
		clear bool
		want  []byte
	}{
		{2, true, []byte{1, 2, 0xee, 0xee, 0xee, 0xee}},
		{5, false, []byte{1, 2, 3, 0xee, 0xee, 0xee}},
		{5, true, []byte{1, 2, 3, 0, 0, 0xee}},
	} {
		m.b = bytes.Repeat([]byte{0xee}, 6)
		if e := (Room{mem: m, Addr: base, Len: c.n}).Put([]byte{1, 2, 3}, c.clear); e != 0 ||
			!bytes.Equal(m.b, c.want) {
			t.Errorf("room of %d: %v, % x, want % x", c.n, e, m.b, c.want)
		}
	}
	if e := (Room{mem: m, Addr: 1, Len: 4}).Put([]byte{1}, false); e != unix.EFAULT {
		t.Errorf("outside memory: %v", e)
	}
	if e := (Room{}).Put([]byte{1}, true); e != 0 {
		t.Errorf("no room: %v", e)
	}
}

// wr is a write() command: header, body.
func wr(command uint32, in, out uint16, body ...byte) *fakeMem {
	b := binary.LittleEndian.AppendUint32(nil, command)
	b = binary.LittleEndian.AppendUint16(b, in)
	b = binary.LittleEndian.AppendUint16(b, out)
	return &fakeMem{base: base, b: append(b, body...)}
}

func u64(v ...uint64) (b []byte) {
	for _, v := range v {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func TestReadWrite(t *testing.T) {
	// alloc_pd with room for the driver's four bytes.
	m := wr(3, 4, 2, u64(base+16)...)
	m.b = append(m.b, make([]byte, 8)...)
	m.b = m.b[:16:24]
	m.b = append(m.b, 0, 0, 0, 0, 0, 0, 0, 0)
	r, e := ReadWrite(m, base, 16, cmd)
	if e != 0 {
		t.Fatal(e)
	}
	if r.Cmd.Name != "alloc_pd" || len(r.Core) != 8 || len(r.Driver) != 0 || r.Out.Len != 4 || r.DrvOut.Len != 4 ||
		r.DrvOut.Addr != base+20 {
		t.Errorf("got %+v", r)
	}
	r.Out.Put([]byte{1, 0, 0, 0}, true)
	r.DrvOut.Put([]byte{2, 0, 0, 0}, false)
	if want := []byte{1, 0, 0, 0, 2, 0, 0, 0}; !bytes.Equal(m.b[16:], want) {
		t.Errorf("answer % x, want % x", m.b[16:], want)
	}

	// Extended create_cq: header 8, extended header 16, request 32, driver 32.
	m = wr(0x80000000|18, 4, 2, append(u64(base, 4|1<<16), make([]byte, 64)...)...)
	m.b[24] = 0xab
	if r, e = ReadWrite(m, base, uint64(len(m.b)), cmd); e != 0 {
		t.Fatal(e)
	}
	q, e := Take[ExCreateCQ](r)
	if e != 0 || q.UserHandle != 0xab || len(r.Driver) != 32 || r.Out.Len != 16 || r.DrvOut.Len != 8 ||
		r.DrvOut.Addr != base+16 {
		t.Errorf("%v, got %+v", e, r)
	}
}

func TestReadWriteErrors(t *testing.T) {
	ext := func(in, out, pin, pout uint16, resp uint64, reserved uint32, n int) *fakeMem {
		x := binary.LittleEndian.AppendUint64(nil, resp)
		x = binary.LittleEndian.AppendUint16(x, pin)
		x = binary.LittleEndian.AppendUint16(x, pout)
		x = binary.LittleEndian.AppendUint32(x, reserved)
		return wr(0x80000000|18, in, out, append(x, make([]byte, n)...)...)
	}
	for _, c := range []struct {
		name string
		m    *fakeMem
		n    int // of the write; 0 = all
		want unix.Errno
	}{
		{"no header", wr(3, 4, 1), 7, unix.EINVAL},
		{"header faults", &fakeMem{}, 8, unix.EFAULT},
		{"flags", wr(0x100, 2, 0), 0, unix.EINVAL},
		{"no such command", wr(41, 2, 0), 0, unix.EOPNOTSUPP},
		{"unsupported", wr(21, 2, 0), 0, unix.EOPNOTSUPP},
		{"unsupported extended", wr(0x80000000|58, 2, 0), 0, unix.EOPNOTSUPP},
		{"in_words", wr(3, 5, 1, u64(base)...), 0, unix.EINVAL},
		{"too short", wr(9, 4, 3, u64(base)...), 0, unix.ENOSPC},
		{"room too small", wr(3, 4, 0, u64(base)...), 0, unix.ENOSPC},
		{"body faults", wr(3, 4, 1), 16, unix.EFAULT},
		{"huge", wr(3, 4, 1), 1 << 40, unix.EINVAL},
		{"old destroy_cq", wr(20, 4, 2, u64(base)...), 0, 0},
		{"extended, too short for its header", wr(0x80000000|18, 0, 0), 16, unix.EINVAL},
		{"extended", ext(4, 2, 4, 1, base, 0, 64), 0, 0},
		{"extended, words", ext(4, 2, 3, 1, base, 0, 64), 0, unix.EINVAL},
		{"extended, core too short", ext(1, 2, 1, 1, base, 0, 16), 0, unix.ENOSPC},
		{"extended, reserved", ext(4, 2, 4, 1, base, 1, 64), 0, unix.EINVAL},
		{"extended, no response but room", ext(4, 2, 4, 1, 0, 0, 64), 0, unix.EINVAL},
		{"extended, response but no room", ext(4, 0, 4, 0, base, 0, 64), 0, unix.EINVAL},
		{"extended, small room", ext(4, 1, 4, 1, base, 0, 64), 0, unix.ENOSPC},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := c.n
			if n == 0 {
				n = len(c.m.b)
			}
			if _, e := ReadWrite(c.m, base, uint64(n), cmd); e != c.want {
				t.Errorf("got %v, want %v", e, c.want)
			}
		})
	}
}

func TestInvoke(t *testing.T) {
	for _, c := range []struct {
		name  string
		attrs [][]byte
		want  unix.Errno
	}{
		{"libibverbs' probe", [][]byte{attr(2, 8, 1, 1)}, unix.ENOSPC},
		{"no such command", [][]byte{attr(2, 8, 1, 99)}, unix.EOPNOTSUPP},
		{"high bits", [][]byte{attr(2, 8, 1, 1<<32|3)}, unix.EINVAL},
		{"alloc_pd", [][]byte{attr(2, 8, 1, 3), attr(0, 8, 1, base), attr(1, 4, 1, base), attr(0x1001, 4, 1, base)}, 0},
		{"room too small", [][]byte{attr(2, 8, 1, 3), attr(0, 8, 1, base), attr(1, 3, 1, base)}, unix.ENOSPC},
	} {
		b, e := ReadIoctl(request(0, 0, c.attrs...), base, find)
		if e != 0 {
			t.Fatal(e)
		}
		if _, e := Invoke(b, cmd); e != c.want {
			t.Errorf("%s: got %v, want %v", c.name, e, c.want)
		}
	}
}

func TestTake(t *testing.T) {
	type ask struct{ Response uint64 }
	r := &Request{Core: append(u64(5), 0, 0, 0, 0)}
	if q, e := Take[ask](r); e != 0 || q.Response != 5 {
		t.Errorf("a longer request with a zero tail: %v, %v", q, e)
	}
	r.Core[10] = 1
	if _, e := Take[ask](r); e != unix.EOPNOTSUPP {
		t.Errorf("a longer request with something in its tail: %v", e)
	}
	r.Core = []byte{7}
	if q, e := Take[ask](r); e != 0 || q.Response != 7 {
		t.Errorf("a shorter request: %v, %v", q, e)
	}
}

// use touches whatever a parsed request offers.
func use(b *Bundle) {
	for _, s := range b.Method.Attrs {
		b.Uint(s.ID)
		b.Bytes(s.ID)
		b.Room(s.ID).Put(make([]byte, 8), true)
		b.SetID(s.ID, 1)
	}
	b.Handles()
	b.Flush()
	if b.Method.Name == "invoke_write" {
		if r, e := Invoke(b, cmd); e == 0 {
			useRequest(r)
		}
	}
}

func useRequest(r *Request) {
	Take[ModifyQP](r)
	Decode[Mlx5CreateQP](r.Driver)
	r.Out.Put(make([]byte, r.Cmd.Resp), true)
	r.DrvOut.Put(make([]byte, 8), false)
}

func FuzzReadIoctl(f *testing.F) {
	f.Add(destroyCQ().b)
	f.Add(request(0, 0, attr(2, 8, 1, 3), attr(0, 8, 1, base), attr(1, 4, 1, base+16), attr(0x1001, 4, 1, base)).b)
	for _, m := range Methods {
		var as [][]byte
		for _, s := range m.Attrs {
			as = append(as, attr(s.ID, s.Min, 1, base))
		}
		f.Add(request(m.Object, m.ID, as...).b)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		m := &fakeMem{base: base, b: p}
		if b, e := ReadIoctl(m, base, find); e == 0 {
			use(b)
		}
	})
}

func FuzzReadWrite(f *testing.F) {
	for _, c := range Cmds {
		n := (c.Req + 7) &^ 7
		m := wr(c.Number, uint16(8+n)/4, 64, make([]byte, n)...)
		if c.Number&CmdExtended != 0 {
			m = wr(c.Number, uint16(n/8), 32, append(u64(base, 0), make([]byte, n)...)...)
		}
		f.Add(m.b, uint64(len(m.b)))
	}
	f.Fuzz(func(t *testing.T, p []byte, n uint64) {
		m := &fakeMem{base: base, b: p}
		if r, e := ReadWrite(m, base, n, cmd); e == 0 {
			useRequest(r)
		}
	})
}
