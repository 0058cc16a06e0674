//go:build linux

package umad

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// space is the memory of a program, from address 0x1000 on.
type space [4096]byte

const base = 0x1000

func (m *space) at(addr uint64, n int) ([]byte, error) {
	if addr < base || addr-base > uint64(len(m)) || uint64(n) > uint64(len(m))-(addr-base) {
		return nil, unix.EFAULT
	}
	return m[addr-base:][:n], nil
}

func (m *space) Read(addr uint64, b []byte) error {
	p, err := m.at(addr, len(b))
	copy(b, p)
	return err
}

func (m *space) Write(addr uint64, b []byte) error {
	p, err := m.at(addr, len(b))
	copy(p, b)
	return err
}

// inbox is what a program could read.
type inbox struct{ got [][]byte }

func (i *inbox) Packet(b []byte) bool { i.got = append(i.got, b); return true }
func (i *inbox) Close() error         { return nil }

// rig is port n of mlx5_0 on Ethernet, and of mlx5_1 on InfiniBand with two ports, opened.
type rig struct {
	t *testing.T
	s *Server
	m space
	f *file
	i inbox
}

func newRig(t *testing.T, n int) *rig {
	t.Helper()
	c, err := config.Parse([]string{"mlx5_0", "mlx5_1,link=ib,ports=2"})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, s: New(hca.New(c))}
	r.f = r.s.open("pipe:[1]", r.s.f.Ports[n], n, &r.i)
	return r
}

// register asks for an agent by the second form of the request.
func (r *rig) register(qpn uint32, class, version byte) (id uint32, e unix.Errno) {
	b := r.m[:40]
	clear(b)
	binary.NativeEndian.PutUint32(b[4:], qpn)
	b[8], b[9] = class, version
	e = r.s.ioctl(&r.m, r.f, RegisterAgent2, base)
	return binary.NativeEndian.Uint32(b), e
}

// mad is a request; the answer, if there is one, is what comes after the header.
type mad struct {
	class, method byte
	attr          uint16
	mod           uint32
	lid           uint16
	hops          byte
	sel           byte // of counters
	agent         uint32
	timeout       uint32
}

func (r *rig) send(q mad) (answer []byte, e unix.Errno) {
	b := r.m[:headerSize+madSize]
	clear(b)
	binary.NativeEndian.PutUint32(b, q.agent)
	binary.NativeEndian.PutUint32(b[8:], q.timeout)
	binary.BigEndian.PutUint16(b[28:], q.lid)
	p := b[headerSize:]
	p[0], p[1], p[2], p[3], p[offHop+1] = 1, q.class, 1, q.method, q.hops
	binary.BigEndian.PutUint32(p[12:], 0xabcd)
	binary.BigEndian.PutUint16(p[offAttr:], q.attr)
	binary.BigEndian.PutUint32(p[offMod:], q.mod)
	p[offData+1] = q.sel
	before := len(r.i.got)
	e = r.s.write(&r.m, r.f, base, uint64(len(b)))
	if len(r.i.got) == before {
		return nil, e
	}
	return r.i.got[before], e
}

// TestAnswers looks at what each attribute tells.
func TestAnswers(t *testing.T) {
	r := newRig(t, 2) // the second port of mlx5_1, with LID 4
	for i, class := range []byte{classLID, classDirected} {
		if id, e := r.register(0, class, 1); e != 0 || id != uint32(i) {
			t.Fatalf("agent %d: %v", id, e)
		}
	}
	if id, e := r.register(1, classCounter, 1); e != 0 || id != 2 {
		t.Fatalf("agent %d: %v", id, e)
	}
	r.s.f.Ports[1].Count[hca.RcvData] = 1 << 40
	r.s.f.Ports[1].Count[hca.XmitPackets] = 77
	u64 := func(v uint64) string { return string(binary.BigEndian.AppendUint64(nil, v)) }
	for _, tt := range []struct {
		what   string
		q      mad
		status uint16 // 0xffff: no answer
		at     int    // of the datagram
		want   string
	}{
		{"directed NodeInfo", mad{class: classDirected, method: 1, attr: 0x11, lid: permissive, agent: 1}, directed, 64,
			"\x01\x01\x01\x02" + u64(0xe41d2d0300e00010) + u64(0xe41d2d0300e00010) + u64(0xe41d2d0300e00011) +
				"\x00\x80\x10\x21\x00\x00\x00\x00\x02\x00\x02\xc9"},
		{"NodeInfo by LID", mad{class: classLID, method: 1, attr: 0x11, lid: 3}, 0, 84, u64(0xe41d2d0300e00010)},
		{"NodeDescription", mad{class: classLID, method: 1, attr: 0x10, lid: 4}, 0, 64, "emulated\x00"},
		{"PortInfo", mad{class: classLID, method: 1, attr: 0x15, lid: 3}, 0, 72, u64(0xfe80<<48) + "\x00\x03\x00\x01"},
		{"PortInfo of the other port", mad{class: classLID, method: 1, attr: 0x15, mod: 2, lid: 3}, 0, 80, "\x00\x04"},
		{"PortInfo of no port", mad{class: classLID, method: 1, attr: 0x15, mod: 3, lid: 3}, noAttribute, 64, "\x00"},
		{"GUIDInfo", mad{class: classLID, method: 1, attr: 0x14, lid: 4}, 0, 64, u64(0xe41d2d0300e00011)},
		{"GUIDInfo beyond", mad{class: classLID, method: 1, attr: 0x14, mod: 1 << 31, lid: 4}, noAttribute, 64, "\x00"},
		{"P_KeyTable", mad{class: classLID, method: 1, attr: 0x16, mod: 3, lid: 4}, 0, 64, "\x00\x00"},
		{"P_KeyTable beyond", mad{class: classLID, method: 1, attr: 0x16, mod: 4, lid: 4}, noAttribute, 64, "\x00"},
		{"SwitchInfo", mad{class: classLID, method: 1, attr: 0x12, lid: 4}, noAttribute, 64, "\x00"},
		{"Set", mad{class: classLID, method: 2, attr: 0x15, lid: 4}, noAttribute, 3, "\x81"},
		{"a method that is none", mad{class: classLID, method: 9, attr: 0x15, lid: 4}, noMethod, 3, "\x81"},
		{"a LID of nobody", mad{class: classLID, method: 1, attr: 0x11, lid: 9}, 0xffff, 0, ""},
		{"behind the port", mad{class: classDirected, method: 1, attr: 0x11, hops: 1, agent: 1}, 0xffff, 0, ""},
		{"an answer to nothing", mad{class: classLID, method: 0x81, attr: 0x11, lid: 4}, 0xffff, 0, ""},
		{"subnet management on QP 1", mad{class: classLID, method: 1, attr: 0x11, lid: 4, agent: 2}, 0xffff, 0, ""},
		{"the subnet's administrator", mad{class: 3, method: 1, attr: 0x11, lid: 1, agent: 2}, 0xffff, 0, ""},
		{"counters", mad{class: classCounter, method: 1, attr: 0x12, lid: 3, sel: 1, agent: 2}, 0, 88,
			"\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x4d\x00\x00\x00\x00"},
		{"wide counters", mad{class: classCounter, method: 1, attr: 0x1d, lid: 3, sel: 1, agent: 2}, 0, 72,
			u64(0) + u64(1<<40) + u64(77)},
		{"counters of no port", mad{class: classCounter, method: 1, attr: 0x12, lid: 3, sel: 3, agent: 2}, noAttribute,
			3, "\x81"},
		{"counters' class", mad{class: classCounter, method: 1, attr: 1, lid: 3, agent: 2}, 0, 64, "\x01\x01\x02\x00"},
	} {
		got, e := r.send(tt.q)
		if e != 0 || (got == nil) != (tt.status == 0xffff) {
			t.Errorf("%s: %v, %x", tt.what, e, got)
		} else if got != nil {
			head, p := got[:headerSize], got[headerSize:]
			if st := binary.BigEndian.Uint16(p[offStatus:]); st != tt.status || len(p) != madSize ||
				!strings.HasPrefix(string(p[tt.at:]), tt.want) || p[3] != 0x81 {
				t.Errorf("%s: status %#x, %x", tt.what, st, p[tt.at:tt.at+48])
			}
			if id, n := binary.NativeEndian.Uint32(head), binary.NativeEndian.Uint32(head[16:]); id != tt.q.agent ||
				n != uint32(len(got)) || binary.BigEndian.Uint32(p[12:]) != 0xabcd {
				t.Errorf("%s: header %x", tt.what, head)
			}
		}
	}
	r.s.f.Ports[1].Active = false
	if got, _ := r.send(mad{class: classLID, method: 1, attr: 0x11, lid: 3}); got != nil {
		t.Error("a port that is down answered")
	}
}

// TestRegister has what a kernel refuses.
func TestRegister(t *testing.T) {
	for _, tt := range []struct {
		what           string
		port           int
		qpn            uint32
		class, version byte
		want           unix.Errno
	}{
		{"subnet management", 1, 0, classLID, 1, 0},
		{"subnet management of RoCE", 0, 0, classDirected, 1, unix.EPROTONOSUPPORT},
		{"QP 0 of RoCE without a class", 0, 0, 0, 0, unix.EPROTONOSUPPORT},
		{"connections of RoCE", 0, 1, 7, 2, 0},
		{"no class", 1, 1, 0, 0, 0},
		{"QP 2", 1, 2, 7, 1, unix.EINVAL},
		{"subnet management by QP 1", 1, 1, classLID, 1, unix.EINVAL},
		{"counters by QP 0", 1, 0, classCounter, 1, unix.EINVAL},
		{"a class that is none", 1, 1, 80, 1, unix.EINVAL},
		{"a version that is none", 1, 1, 7, 0x83, unix.EINVAL},
	} {
		if _, e := newRig(t, tt.port).register(tt.qpn, tt.class, tt.version); e != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, e, tt.want)
		}
	}
	r := newRig(t, 1)
	for i := range maxAgents {
		if id, e := r.register(1, 7, 1); e != 0 || id != uint32(i) {
			t.Fatalf("agent %d: %d, %v", i, id, e)
		}
	}
	if _, e := r.register(1, 7, 1); e != unix.ENOMEM {
		t.Errorf("one agent more: %v", e)
	}
	binary.NativeEndian.PutUint32(r.m[:], 5)
	if e := r.s.ioctl(&r.m, r.f, UnregisterAgent, base); e != 0 {
		t.Error(e)
	}
	if e := r.s.ioctl(&r.m, r.f, UnregisterAgent, base); e != unix.EINVAL {
		t.Errorf("unregistered twice: %v", e)
	}
	if id, e := r.register(1, 7, 1); e != 0 || id != 5 {
		t.Errorf("agent %d: %v", id, e)
	}
	if e := r.s.ioctl(&r.m, r.f, EnablePKey, 0); e != unix.EINVAL {
		t.Errorf("another header later: %v", e)
	}
	r.m[12] = 2
	if e := r.s.ioctl(&r.m, r.f, RegisterAgent2, base); e != unix.EINVAL || r.m[12] != userRMPP {
		t.Errorf("unknown flags: %v, %d", e, r.m[12])
	}
	r.f.port.Device.Gone = true
	if _, e := r.register(1, 7, 1); e != unix.EPIPE {
		t.Errorf("after the device: %v", e)
	}
	if _, e := r.send(mad{class: 7, method: 1}); e != unix.EINVAL {
		t.Errorf("after the device: %v", e)
	}
}

// TestTimeout awaits an answer that does not come.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.s.f.Lock()
		if _, e := r.register(0, classLID, 1); e != 0 {
			t.Fatal(e)
		}
		q := mad{class: classLID, method: 1, attr: 0x11, lid: 99, timeout: 1000}
		if got, e := r.send(q); e != 0 || got != nil {
			t.Fatalf("%x, %v", got, e)
		}
		if _, e := r.send(q); e != unix.EINVAL {
			t.Errorf("the same once more: %v", e)
		}
		r.s.f.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.s.f.Lock()
		defer r.s.f.Unlock()
		if len(r.i.got) != 1 || len(r.i.got[0]) != headerSize+echoed ||
			binary.NativeEndian.Uint32(r.i.got[0][4:]) != uint32(unix.ETIMEDOUT) {
			t.Errorf("%x", r.i.got)
		}
		if _, e := r.send(q); e != 0 {
			t.Errorf("later: %v", e)
		}
		r.s.close("pipe:[1]")
	})
}

// TestGarbage sends what no program means.
func TestGarbage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		r := newRig(t, rnd.IntN(3))
		r.s.f.Lock()
		for range 600 {
			for i := range r.m[:headerSize+madSize] {
				r.m[i] = byte(rnd.IntN(3) * rnd.IntN(256))
			}
			clear(r.m[:20])
			r.m[0] = byte(rnd.IntN(3))
			head := r.f.header()
			class := []byte{classLID, classDirected, classCounter, 7}[rnd.IntN(4)]
			copy(r.m[head:], []byte{1, class, 1, byte(1 + rnd.IntN(3))})
			binary.BigEndian.PutUint16(r.m[head+offAttr:], uint16(rnd.IntN(32)))
			addr, n := uint64(base), uint64(rnd.IntN(400))
			if rnd.IntN(20) == 0 {
				addr, n = rnd.Uint64(), rnd.Uint64()
			}
			if rnd.IntN(3) == 0 {
				requests := []uint32{RegisterAgent, RegisterAgent2, UnregisterAgent, EnablePKey, rnd.Uint32()}
				_ = r.s.ioctl(&r.m, r.f, requests[rnd.IntN(len(requests))], addr)
			} else {
				_ = r.s.write(&r.m, r.f, addr, n)
			}
		}
		r.s.close("pipe:[1]")
		r.s.f.Unlock()
	}
}
