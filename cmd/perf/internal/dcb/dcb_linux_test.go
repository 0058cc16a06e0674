package dcb

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// attr is an attribute of netlink, padded as the kernel pads it.
func attr(typ uint16, parts ...[]byte) []byte {
	v := slices.Concat(parts...)
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(v)))
	b = append(binary.NativeEndian.AppendUint16(b, typ), v...)
	return append(b, make([]byte, -len(b)&3)...)
}

func app(selector, priority uint8, protocol uint16) []byte {
	return attr(appIEEE, binary.NativeEndian.AppendUint16([]byte{selector, priority}, protocol))
}

// answer is a kernel that sends one message, or none if the type is 0, and then an error.
type answer struct {
	typ  uint16
	body []byte
	err  error
}

func (a answer) parse() (*Port, error) {
	return port(func(typ, flags uint16, body []byte, do func(uint16, []byte) error) error {
		want := slices.Concat([]byte{0, cmdIEEEGet, 0, 0}, attr(attrIfName, []byte("eth2\x00")))
		if typ != unix.RTM_GETDCB || flags != 0 || !slices.Equal(body, want) {
			return syscall.EINVAL
		}
		if a.typ == 0 {
			return a.err
		}
		return errors.Join(do(a.typ, a.body), a.err)
	}, "eth2")
}

// reply is what dcbnl_ieee_fill of net/dcb/dcbnl.c (Linux 6.1) writes for an adapter with PFC on priority 3 and DSCP 26
// of that priority: name, nested attributes in the order ETS, maximum rates, PFC, buffers, applications, then the mode.
func reply() []byte {
	ets := make([]byte, sizeETS)
	ets[0], ets[1] = 1, 8
	copy(ets[27:], []byte{0, 0, 0, 3, 0, 0, 0, 7})
	pfc := make([]byte, sizePFC)
	pfc[0], pfc[1] = 8, 1<<3
	return slices.Concat([]byte{0, cmdIEEEGet, 0, 0}, attr(attrIfName, []byte("eth2\x00")),
		attr(attrIEEE, attr(ieeeETS, ets), attr(7, make([]byte, 64)), attr(ieeePFC, pfc), attr(10, make([]byte, 44)),
			attr(ieeeApps, app(SelDSCP, 3, 26), app(SelDSCP, 0, 0), app(3, 3, 4791), attr(9, []byte{1}),
				attr(appDCB, []byte{SelPCP, 3, 3, 0})),
			attr(ieeeTrust|0x8000, attr(appIEEE, []byte{SelDSCP}), attr(appDCB, []byte{SelPCP}))),
		attr(attrDCBX, []byte{byte(Host | 8)}))
}

func TestParse(t *testing.T) {
	p, err := answer{unix.RTM_GETDCB, reply(), nil}.parse()
	if err != nil {
		t.Fatal(err)
	}
	if c := p.Class; c == nil || *c != [8]uint8{3: 3, 7: 7} {
		t.Errorf("classes %v", c)
	}
	if f := p.PFC; f == nil || !f.On(3) || f.On(0) || f.On(8) {
		t.Errorf("PFC %+v", f)
	}
	if m := p.DSCP(); len(m) != 2 || m[26] != 3 || len(p.Apps) != 4 || p.Apps[2] != (App{3, 3, 4791}) ||
		p.Apps[3] != (App{SelPCP, 3, 3}) {
		t.Errorf("%v, %v", p.Apps, m)
	}
	if !slices.Equal(p.Trust, []uint8{SelDSCP, SelPCP}) || p.Mode == nil || *p.Mode != Host|8 {
		t.Errorf("%v %v", p.Trust, p.Mode)
	}
	// A driver without anything.
	p, err = parse([]byte{0, cmdIEEEGet, 0, 0})
	if err != nil || p.PFC != nil || p.Class != nil || p.DSCP() != nil || p.Trust != nil || p.Mode != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestParseRefuses(t *testing.T) {
	short := func(attrs []byte) answer { return answer{unix.RTM_GETDCB, append(reply()[:4], attrs...), nil} }
	for name, a := range map[string]answer{
		"nothing":           {},
		"an empty message":  {unix.RTM_GETDCB, nil, nil},
		"another command":   {unix.RTM_GETDCB, []byte{0, 1, 0, 0}, nil},
		"another type":      {99, reply(), nil},
		"cut off":           {unix.RTM_GETDCB, reply()[:40], nil},
		"short PFC":         short(attr(attrIEEE, attr(ieeePFC, make([]byte, 8)))),
		"short ETS":         short(attr(attrIEEE, attr(ieeeETS, []byte{1}))),
		"short application": short(attr(attrIEEE, attr(ieeeApps, attr(1, []byte{5})))),
		"no mode":           short(attr(attrDCBX)),
		"an attribute of 0": short([]byte{0, 0, 1, 0}),
	} {
		if p, err := a.parse(); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, err := (answer{err: syscall.EOPNOTSUPP}).parse(); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("%v", err)
	}
}

// TestRead: the kernel refuses what virtual interfaces do not have, whether or not it has DCB at all.
func TestRead(t *testing.T) {
	if _, err := Read("lo"); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("lo: %v", err)
	}
	for _, name := range []string{"", "nothere0", "longer-than-any-interface"} {
		if p, err := Read(name); err == nil {
			t.Errorf("%q: %+v", name, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(reply())
	f.Add(append(reply()[:4], attr(attrIEEE, attr(ieeeApps, app(5, 9, 64)))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parse(b)
		if (p == nil) == (err == nil) {
			t.Fatalf("%+v, %v", p, err)
		}
		if p == nil {
			return
		}
		for dscp, priority := range p.DSCP() {
			if dscp > 63 || priority > 7 {
				t.Errorf("DSCP %d has priority %d", dscp, priority)
			}
		}
		if len(p.Apps)*8 > len(b) {
			t.Errorf("%d applications in %d bytes", len(p.Apps), len(b))
		}
	})
}
