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

func message(typ uint16, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	return append(append(b, make([]byte, 10)...), body...)
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
	p, err := parseMessage(message(unix.RTM_GETDCB, reply()))
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
	whole := message(unix.RTM_GETDCB, reply())
	short := func(attrs []byte) []byte { return message(unix.RTM_GETDCB, append(reply()[:4], attrs...)) }
	for name, b := range map[string][]byte{
		"nothing":           nil,
		"half a header":     whole[:10],
		"another command":   message(unix.RTM_GETDCB, []byte{0, 1, 0, 0}),
		"another type":      message(99, reply()),
		"cut off":           message(unix.RTM_GETDCB, reply()[:40]),
		"longer than read":  whole[:len(whole)-1],
		"short PFC":         short(attr(attrIEEE, attr(ieeePFC, make([]byte, 8)))),
		"short ETS":         short(attr(attrIEEE, attr(ieeeETS, []byte{1}))),
		"short application": short(attr(attrIEEE, attr(ieeeApps, attr(1, []byte{5})))),
		"no mode":           short(attr(attrDCBX)),
		"an attribute of 0": short([]byte{0, 0, 1, 0}),
		"no errno":          message(unix.NLMSG_ERROR, []byte{1, 2}),
		"errno 0":           message(unix.NLMSG_ERROR, make([]byte, 4)),
	} {
		if p, err := parseMessage(b); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	e := int32(-int(syscall.EOPNOTSUPP))
	_, err := parseMessage(message(unix.NLMSG_ERROR, binary.NativeEndian.AppendUint32(nil, uint32(e))))
	if !errors.Is(err, syscall.EOPNOTSUPP) {
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
	f.Add(message(unix.RTM_GETDCB, reply()))
	f.Add(message(unix.NLMSG_ERROR, []byte{0xa1, 0xff, 0xff, 0xff}))
	f.Add(message(unix.RTM_GETDCB, append(reply()[:4], attr(attrIEEE, attr(ieeeApps, app(5, 9, 64)))...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseMessage(b)
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
