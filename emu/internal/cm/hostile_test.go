//go:build linux

package cm

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

func TestHostile(t *testing.T) {
	s, p, q := pair(t)
	i := p.create(1, psTCP)
	for what, c := range map[string]struct {
		b    []byte
		want unix.Errno
	}{
		"short header":      {make([]byte, 7), unix.EINVAL},
		"unknown":           {[]byte{25, 0, 0, 0, 0, 0, 0, 0}, unix.EINVAL},
		"GET_OPTION":        {[]byte{13, 0, 0, 0, 0, 0, 0, 0}, unix.ENOSYS},
		"body beyond write": {[]byte{1, 0, 0, 0, 1, 0, 4, 0}, unix.EINVAL},
		"no room":           {[]byte{0, 0, 0, 0, 0, 0, 3, 0}, unix.ENOSPC},
		"short connect":     {append([]byte{6, 0, 0, 0, 0x17, 1, 0, 0}, make([]byte, 279)...), unix.EINVAL},
		"short accept":      {append([]byte{8, 0, 0, 0, 0x1f, 1, 0, 0}, make([]byte, 287)...), unix.EINVAL},
	} {
		clear(p.mem)
		if e := p.raw(c.b); e != c.want {
			t.Errorf("%s: %v, want %v", what, e, c.want)
		}
	}
	s.f.Lock()
	s.execute(p, p.fl, 0, 8)
	if p.e != unix.EFAULT {
		t.Errorf("header at 0: %v", p.e)
	}
	p.mem[len(p.mem)-8], p.mem[len(p.mem)-2] = 1, 4 // DESTROY_ID whose body ends beyond the memory
	s.execute(p, p.fl, base+uint64(len(p.mem))-8, 8)
	if p.e != unix.EFAULT {
		t.Errorf("body beyond the memory: %v", p.e)
	}
	s.f.Unlock()
	if e := cmd(p, 0, createID{UID: 1, Response: 8, PS: psTCP}, 4); e != unix.EFAULT || s.ids.used != 1 {
		t.Errorf("answer to a bad address: %v, %d ids", e, s.ids.used)
	}
	if e := cmd(p, 0, createID{UID: 1, Response: respAt, PS: 5}, 4); e != unix.EINVAL {
		t.Errorf("port space 5: %v", e)
	}
	// Ids that are not there, another's, without a device.
	for num := range uint32(len(commands)) {
		for id, want := range map[uint32]unix.Errno{1 << 30: unix.ENOENT, i: unix.EINVAL} {
			b := make([]byte, 296)
			var at int
			switch num {
			case 0, 12, 13, 17, 18, 23:
				continue
			case 1, 5, 11, 19:
				at = 8
			case 2:
				at, b[8] = 36, unix.AF_INET
			case 3:
				at, b[28] = 56, unix.AF_INET
			case 4, 7, 9, 10, 15:
			case 6:
				at, b[271] = 272, 1
			case 8:
				at = 280
			case 14:
				at = 8
			case 16:
				at, b[16] = 44, unix.AF_INET
			case 20:
				b[4], b[8] = 16, unix.AF_INET
			case 21:
				b[10], b[16+128] = 16, unix.AF_INET
			case 22:
				at, b[20], b[24] = 16, 16, unix.AF_INET
			case 24:
				b[8] = evUser
			}
			binary.LittleEndian.PutUint32(b[at:], id)
			h := header{Cmd: num, In: 296, Out: 400}
			if e := q.raw(append(uapi.Bytes(&h), b...)); e != want {
				t.Errorf("%s of id %d: %v, want %v", commands[num].name, id, e, want)
			}
		}
	}
	// Wrong states.
	for num, body := range map[uint32]idAndNumber{4: {i, 0}, 9: {i, 0}, 10: {i, 0}, 11: {i, 0}, 15: {i, 4}} {
		var b [296]byte
		copy(b[:], uapi.Bytes(&body))
		if num == 11 {
			clear(b[:])
			binary.LittleEndian.PutUint32(b[8:], i)
		}
		if e := cmd(p, num, b, 400); e != unix.EINVAL {
			t.Errorf("%s of a new id: %v", commands[num].name, e)
		}
	}
	// More ids than there may be.
	for s.ids.used < maxIDs {
		p.create(1, psTCP)
	}
	if e := cmd(p, 0, createID{UID: 1, Response: respAt, PS: psTCP}, 4); e != unix.ENOMEM {
		t.Errorf("one id too many: %v", e)
	}
	p.must(cmd(p, 1, destroyID{Response: respAt, ID: 77}, 4))
	if n := q.create(1, psTCP); n != 77 {
		t.Errorf("the free number 77 is not taken up: %d", n)
	}
	p.exit()
	q.exit()
	idle(t, s)
}

func FuzzWrite(f *testing.F) {
	for n := range len(commands) {
		f.Add([]byte{byte(n), 0, 0, 0, 64, 0, 80, 1, 0, 0x10, 1, 0, 0, 0, 0, 0, 2, 0, 0x1b, 0x58, 10, 0, 0, 1})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, p, v := pair(t)
		ci, _ := connected(t, p, v, "10.0.0.1:7000")
		p.resolve(1, psTCP, "10.0.0.1:7000")
		p.must(cmd(p, 10, idOnly{ci}, 0))
		for len(data) > 0 { // each command has a byte that says how long it is
			n := min(int(data[0])+8, len(data))
			p.raw(data[:n])
			v.raw(data[:n])
			data = data[n:]
		}
		p.exit()
		v.exit()
		idle(t, s)
	})
}
