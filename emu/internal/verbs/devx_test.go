//go:build linux

package verbs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// openDevX opens a device with DevX.
func openDevX(t *testing.T, flags ...string) *program {
	t.Helper()
	p := open(t, flags...)
	req := ucontextReq()
	req[8] = 1
	_, e := p.ioctl(0, 3, p.in(0x1000, req))
	p.must(e)
	_, p.page, _ = p.uar()
	return p
}

// prm is a command: its opcode, and fields.
func prm(op uint16, n int, fields ...any) []byte {
	b := make([]byte, n)
	uapi.CmdOpcode.Put(b, uint64(op))
	for i := 0; i < len(fields); i += 2 {
		fields[i].(uapi.Bits).Put(b, uint64(fields[i+1].(int)))
	}
	return b
}

func (p *program) general(in []byte, n int) ([]byte, unix.Errno) {
	out, a := p.out(0x1001, n)
	_, e := p.ioctl(0x1000, 0x1000, p.in(0x1000, in), a)
	return out, e
}

// object sends a command that creates (0), modifies (2) or queries (3) an object.
func (p *program) object(method int, handle uint32, in []byte, n int) (uint32, []byte, unix.Errno) {
	out, a := p.out(0x1002, n)
	as, e := p.ioctl(0x1001, 0x1000+method, at(0x1000, 0, uint64(handle)), p.in(0x1001, in), a)
	return u32(as, 8), out, e
}

func (p *program) wantStatus(what string, out []byte, e unix.Errno, want uapi.Status) {
	p.t.Helper()
	s, syn := uapi.Status(uapi.OutStatus.Get(out)), uapi.OutSyndrome.Get(out)
	if e != unix.EREMOTEIO || s != want || syn == 0 {
		p.t.Errorf("%s: errno %v, status %#x, syndrome %#x, want status %#x", what, e, s, syn, want)
	}
}

func TestDevxCommands(t *testing.T) {
	p := openDevX(t)
	for _, c := range []struct {
		what string
		in   []byte
		n    int
		e    unix.Errno
		s    uapi.Status
	}{
		{"nop", prm(uapi.OpNop, 16), 16, 0, 0},
		{"query_lag of what is no bond", prm(uapi.OpQueryLAG, 16), 16, 0, 0},
		{"query_nic_vport_context", prm(uapi.OpQueryNICVport, 16), 272, 0, 0},
		{"query_issi, which is not there", prm(uapi.OpQueryISSI, 16), 112, unix.EREMOTEIO, uapi.StatusBadOp},
		{"a general command that is not there", prm(0xb77, 16), 16, unix.EREMOTEIO, uapi.StatusBadOp},
		{"capabilities of no group", prm(uapi.OpQueryHCACap, 16, uapi.CmdOpMod, 0x77<<1), 4112, unix.EREMOTEIO,
			uapi.StatusBadParam},
		{"a command that makes an object", prm(uapi.OpAllocPD, 16), 16, unix.EINVAL, 0},
		{"init_hca", prm(0x102, 16), 16, unix.EINVAL, 0},
	} {
		out, e := p.general(c.in, c.n)
		if p.want(c.what, e, c.e); c.s != 0 {
			p.wantStatus(c.what, out, e, c.s)
		}
	}
	_, e := p.general(prm(uapi.OpNop, 16)[:15], 16)
	p.want("a command without its header", e, unix.EINVAL)
	_, e = p.general(prm(uapi.OpNop, 16), 15)
	p.want("an answer without room", e, unix.EINVAL)
}

func TestDevxOff(t *testing.T) {
	p := open(t, "mlx5_0,devx=off")
	req := ucontextReq()
	req[8] = 1
	_, e := p.ioctl(0, 3, p.in(0x1000, req))
	p.want("get_context with DevX where it is disabled", e, unix.EINVAL)
	p.getContext()
	_, e = p.general(prm(uapi.OpNop, 16), 16)
	p.want("a command", e, unix.EINVAL)
	_, e = p.general(prm(uapi.OpQueryHCACap, 16, uapi.CmdOpMod, 1), 4112)
	p.want("capabilities", e, unix.EOPNOTSUPP)
	_, _, e = p.object(0, 0, prm(uapi.OpAllocPD, 16), 16)
	p.want("alloc_pd", e, unix.EINVAL)
}

// A context without DevX learns what the adapter can do, and no more.
func TestDevxForAll(t *testing.T) {
	p := open(t)
	p.getContext()
	for op, want := range map[uint16]unix.Errno{uapi.OpQueryHCACap: 0, uapi.OpQueryHCAVport: unix.EREMOTEIO,
		uapi.OpQueryEswVport: unix.EREMOTEIO, uapi.OpQueryEswFunctions: unix.EREMOTEIO, uapi.OpNop: unix.EINVAL,
		uapi.OpQueryLAG: unix.EINVAL, uapi.OpAllocPD: unix.EINVAL} {
		_, e := p.general(prm(op, 16, uapi.CmdOpMod, 1), 4112)
		p.want(fmt.Sprintf("%#x", op), e, want)
	}
	_, _, e := p.object(0, 0, prm(uapi.OpAllocPD, 16), 16)
	p.want("alloc_pd", e, unix.EINVAL)
}

// TestDevxPorts asks for what an adapter says of its ports, on both link layers. Where each field is was taken from
// the kernel's structs by hand.
func TestDevxPorts(t *testing.T) {
	eth, ib := []string{"mlx5_0,ports=2,mtu=4096", "mlx5_1"}, []string{"mlx5_0,link=ib,ports=2,lid=7"}
	q := func(op uint16, words ...uint32) []byte {
		b := prm(op, 16)
		for i, w := range words {
			binary.BigEndian.PutUint32(b[8+4*i:], w)
		}
		return b
	}
	for _, c := range []struct {
		what    string
		devices []string
		in      []byte
		s       uapi.Status
		want    map[int]string // bytes from an offset on
	}{
		{"port of InfiniBand", ib, q(uapi.OpQueryHCAVport, 0x10000), 0, map[int]string{
			16 + 0x22: "\x50\x44", // LinkUp; ACTIVE, twice
			16 + 0x28: "\xe4\x1d\x2d\x03\x00\xe0\x00\x00", 16 + 0x30: "\xe4\x1d\x2d\x03\x00\xe0\x00\x00",
			16 + 0x38: "\xe4\x1d\x2d\x03\x00\xe0\x00\x00",
			16 + 0x60: "\x00\x07\x00\x12", // LID; subnet timeout of 18
			16 + 0x64: "\x00\x01"}},
		{"the same by 0", ib, q(uapi.OpQueryHCAVport, 0), 0, map[int]string{16 + 0x60: "\x00\x07"}},
		{"the second one", ib, q(uapi.OpQueryHCAVport, 0x20000), 0, map[int]string{
			16 + 0x30: "\xe4\x1d\x2d\x03\x00\xe0\x00\x01"}},
		{"a third one", ib, q(uapi.OpQueryHCAVport, 0x30000), uapi.StatusBadParam, nil},
		{"another function's", ib, q(uapi.OpQueryHCAVport, 0x80010000), uapi.StatusBadParam, nil},
		{"one of Ethernet", eth, q(uapi.OpQueryHCAVport, 0x10000), uapi.StatusBadParam, nil},
		{"the NIC of InfiniBand", ib, q(uapi.OpQueryNICVport), uapi.StatusBadParam, nil},
		{"the NIC", eth, q(uapi.OpQueryNICVport), 0, map[int]string{
			16 + 0x03: "\x01", 16 + 0x26: "\x23\x3e", // an MTU of 9000 + 22
			16 + 0x28: "\xe4\x1d\x2d\x03\x00\xe0\x00\x00"}},
		{"the state", eth, q(uapi.OpQueryVportState), 0, map[int]string{15: "\x11"}},
		{"the state of an uplink", eth, prm(uapi.OpQueryVportState, 16, uapi.CmdOpMod, 2), uapi.StatusBadParam, nil},
		{"the state of InfiniBand", ib, q(uapi.OpQueryVportState), uapi.StatusBadParam, nil},
		{"a GID of v1", eth, q(uapi.OpQueryRoceAddress, 2<<16), 0, map[int]string{
			16 + 10: "\xff\xff\x0a\x58\x00\x01\x00\x00\xe4\x1d\x2d\xe0\x00\x00\x00\x00\x00\x00"}},
		{"a GID of v2", eth, q(uapi.OpQueryRoceAddress, 3<<16), 0, map[int]string{
			16 + 10: "\xff\xff\x0a\x58\x00\x01\x00\x00\xe4\x1d\x2d\xe0\x00\x00\x00\x00\x00\x02"}},
		{"a GID of v2 and IPv6", eth, q(uapi.OpQueryRoceAddress, 5<<16), 0, map[int]string{16 + 26: "\x01\x02"}},
		{"a GID of the second port", eth, q(uapi.OpQueryRoceAddress, 3<<16|2), 0, map[int]string{
			16 + 12: "\x0a\x58\x00\x02"}},
		{"an entry that is empty", eth, q(uapi.OpQueryRoceAddress, 200<<16), 0, map[int]string{
			16: strings.Repeat("\x00", 32)}},
		{"no entry", eth, q(uapi.OpQueryRoceAddress, 256<<16), uapi.StatusBadParam, nil},
		{"a GID of InfiniBand", ib, q(uapi.OpQueryRoceAddress), uapi.StatusBadParam, nil},
	} {
		p := openDevX(t, c.devices...)
		out, e := p.general(c.in, 528)
		if c.s != 0 {
			p.wantStatus(c.what, out, e, c.s)
			continue
		}
		p.must(e)
		for at, want := range c.want {
			if got := string(out[at:][:len(want)]); got != want {
				t.Errorf("%s: at %#x % x, want % x", c.what, at, got, want)
			}
		}
	}
}

// Groups without a capability are answered with zeros, as rdma-core's own tests rely on: quality of service (0xc) of an
// old adapter, and device memory (0xf).
func TestEmptyCapabilities(t *testing.T) {
	p := openDevX(t, "mlx5_0,model=cx5")
	for _, g := range []int{0xc, 0xf} {
		out, e := p.general(prm(uapi.OpQueryHCACap, 16, uapi.CmdOpMod, g<<1|1), 4112)
		p.must(e)
		if len(bytes.TrimRight(out, "\x00")) != 0 {
			t.Errorf("group %#x is answered %x", g, out)
		}
	}
}

// Each capability is inside its group and over no other; some are as the device is.
func TestCapabilities(t *testing.T) {
	for _, dev := range []string{"mlx5_0,model=cx5", "mlx5_0,model=cx7,lag=2", "mlx5_0,link=ib"} {
		p := openDevX(t, dev)
		group := func(g int) []byte {
			out, e := p.general(prm(uapi.OpQueryHCACap, 16, uapi.CmdOpMod, g<<1|1), 4112)
			p.must(e)
			return out
		}
		used := map[uint16][4096 * 8]bool{}
		for _, c := range capabilities {
			v, u := c.value(p.x.Device), used[c.group]
			if bits.Len64(v) > c.bits.Len {
				t.Errorf("%s: %s is %#x, in %d bits", dev, c.name, v, c.bits.Len)
			}
			if got := c.bits.In(capabilityBits).Get(group(int(c.group))); got != v {
				t.Errorf("%s: %s is answered %#x, want %#x", dev, c.name, got, v)
			}
			for i := c.bits.At; i < c.bits.At+c.bits.Len; i++ {
				if u[i] {
					t.Errorf("%s lies over another", c.name)
				}
				u[i] = true
			}
			used[c.group] = u
		}
		ports := uapi.Bits{At: 0x80 + 0x1b8, Len: 8}
		kind := uapi.Bits{At: 0x80 + 0x1b6, Len: 2}
		if g := group(capGeneral); ports.Get(g) != 1 || kind.Get(g) == uint64(bit(dev == "mlx5_0,link=ib")) {
			t.Errorf("%s: %d ports of type %d", dev, ports.Get(g), kind.Get(g))
		}
	}
}

func TestDevxObjects(t *testing.T) {
	p := openDevX(t)
	pd, out, e := p.object(0, 0, prm(uapi.OpAllocPD, 16), 16)
	p.must(e)
	td, _, e := p.object(0, 0, prm(uapi.OpAllocTransportDomain, 16), 16)
	p.must(e)
	if o, ok := p.x.Object(pd).(*hca.DevxObject); !ok || uint64(o.Num) != uapi.CmdNum.Get(out) || o.Num == 0 {
		t.Errorf("alloc_pd answered %d, made %+v", uapi.CmdNum.Get(out), o)
	}
	if l := hca.Leaked(p.x); len(l) != 2 {
		t.Errorf("not destroyed: %v, want a PD and a transport domain, each once", l)
	}
	_, out, e = p.object(0, 0, prm(uapi.OpCreateGeneralObject, 16, uapi.CmdObjType, 0x77), 16)
	p.wantStatus("a general object of no type", out, e, uapi.StatusBadParam)
	reserve := prm(uapi.OpCreateGeneralObject, 16, uapi.CmdObjType, objReservedQPN, uapi.CmdObjRange, 9)
	_, out, e = p.object(0, 0, reserve, 16)
	p.wantStatus("too many reserved QPNs", out, e, uapi.StatusBadParam)
	_, _, e = p.object(0, 0, prm(uapi.OpCreatePSV, 16, uapi.Bits{At: 0x40, Len: 4}, 2), 32)
	p.want("two PSVs at once", e, unix.EINVAL)
	_, _, e = p.object(0, 0, prm(uapi.OpNop, 16), 16)
	p.want("nop as what makes an object", e, unix.EINVAL)

	// Ranges of QPNs do not overlap, and come again.
	uapi.CmdObjRange.Put(reserve, logReservedQPNs)
	a, first, e := p.object(0, 0, reserve, 16)
	p.must(e)
	b, second, e := p.object(0, 0, reserve, 16)
	p.must(e)
	n := uapi.OutObjID.Get(first)
	if m := uapi.OutObjID.Get(second); m != n+1<<logReservedQPNs || n%(1<<logReservedQPNs) != 0 ||
		n < hca.FirstQPN+uint64(p.x.Device.Config.Limits.MaxQP) {
		t.Errorf("QPNs from %#x and from %#x are reserved", n, m)
	}
	query := prm(uapi.OpQueryGeneralObject, 16, uapi.CmdObjType, objReservedQPN, uapi.CmdObjID, int(n))
	_, out, e = p.object(3, a, query, 16)
	if p.want("query", e, 0); uapi.OutObjID.Get(out) != n {
		t.Errorf("query answered %#x, want %#x", uapi.OutObjID.Get(out), n)
	}
	_, _, e = p.object(3, b, query, 16)
	p.want("query of another object than the command names", e, unix.EINVAL)
	_, _, e = p.object(2, a, query, 16)
	p.want("query as what modifies", e, unix.EINVAL)
	uapi.CmdOpcode.Put(query, uapi.OpModifyGeneralObject)
	_, out, e = p.object(2, a, query, 16)
	p.wantStatus("modify", out, e, uapi.StatusBadOp)
	uapi.CmdOpcode.Put(query, uapi.OpQueryGeneralObject)
	_, _, e = p.object(3, 4711, query, 16)
	p.want("query of no object", e, unix.ENOENT)
	for _, h := range []uint32{a, b, pd, td} {
		_, e = p.ioctl(0x1001, 0x1001, at(0x1000, 0, uint64(h)))
		p.want("destroy", e, 0)
	}
	if l := hca.Leaked(p.x); len(l) != 0 {
		t.Errorf("not destroyed: %v", l)
	}
	_, out, e = p.object(0, 0, reserve, 16)
	if p.must(e); uapi.OutObjID.Get(out) != n {
		t.Errorf("after destroy QPNs from %#x are reserved, want %#x again", uapi.OutObjID.Get(out), n)
	}
	_, e = p.ioctl(0x1001, 0x1001, at(0x1000, 0, uint64(p.pd())))
	p.want("destroy a PD of alloc_pd", e, unix.EINVAL)
	_, a2 := p.out(0x1002, 16)
	before := len(p.x.Handles())
	copy(a2[8:], le(uint64(1<<46)))
	_, e = p.ioctl(0x1001, 0x1000, at(0x1000, 0, 0), p.in(0x1001, prm(uapi.OpAllocPD, 16)), a2)
	p.want("an answer nowhere", e, unix.EFAULT)
	if n := len(p.x.Handles()); n != before {
		t.Errorf("%d objects stayed", n-before)
	}
}
