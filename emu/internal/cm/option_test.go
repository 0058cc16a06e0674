//go:build linux

package cm

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// option sets one, its value being beside the answers.
func (p *prog) option(i, level, name uint32, v []byte) unix.Errno {
	p.t.Helper()
	copy(p.mem[0x2000:], v)
	return cmd(p, 14, setOption{base + 0x2000, i, level, name, uint32(len(v))}, 0)
}

func TestOptions(t *testing.T) {
	s, p, v := pair(t)
	i := p.create(1, psTCP)
	on, off := []byte{1, 0, 0, 0}, []byte{0, 0, 0, 0}
	for _, c := range []struct {
		level, name uint32
		v           []byte
		want        unix.Errno
	}{
		{0, 0, []byte{0x68}, 0}, {0, 0, on, unix.EINVAL},
		{0, 1, on, 0}, {0, 1, []byte{1}, unix.EINVAL},
		{0, 2, off, 0}, {0, 2, nil, unix.EINVAL},
		{0, 3, []byte{14}, 0}, {0, 3, on, unix.EINVAL},
		{0, 4, on, unix.ENOSYS}, {7, 0, on, unix.ENOSYS}, {1, 0, on, unix.ENOSYS},
		{1, 1, nil, unix.EINVAL}, {1, 1, make([]byte, 71), unix.EINVAL}, {1, 1, make([]byte, 72), unix.EINVAL},
	} {
		if e := p.option(i, c.level, c.name, c.v); e != c.want {
			t.Errorf("option %d/%d of %d bytes: %v, want %v", c.level, c.name, len(c.v), e, c.want)
		}
	}
	u := p.create(1, psUDP)
	if e := p.option(u, 0, 3, []byte{14}); e != unix.EINVAL {
		t.Errorf("acknowledge timeout of a datagram id: %v", e)
	}
	for name, c := range map[string]setOption{"huge": {base, i, 0, 0, 1 << 31}, "pointer": {1, i, 0, 0, 1}} {
		if e := cmd(p, 14, c, 0); e != map[string]unix.Errno{"huge": unix.EINVAL, "pointer": unix.EFAULT}[name] {
			t.Errorf("%s: %v", name, e)
		}
	}
	v.listen(1, psTCP, "10.0.0.1:7000", 0)
	p.must(cmd(p, 3, resolveIP{Dst: sockaddr("10.0.0.1:7000"), ID: i}, 0))
	p.event(evAddrResolved)
	path := make([]byte, 72)
	binary.LittleEndian.PutUint32(path, 1|2|8|32)
	p.must(p.option(i, 1, 1, append(make([]byte, 72), path...)))
	p.event(evRouteResolved)
	p.dial(i, "")
	vi := v.event(evConnectRequest).ID
	v.must(cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: vi}, 0))
	p.event(evConnectResponse)
	if a := p.attr(i, hca.RTR); a.AH.GRH.TrafficClass != 0x68 {
		t.Errorf("RTR with a type of service %+v", a.AH)
	}
	if a := p.attr(i, hca.RTS); a.Timeout != 14 {
		t.Errorf("RTS with timeout %d, want 14", a.Timeout)
	}
	// NOTIFY says that data came before the RTU.
	if e := cmd(v, 15, idAndNumber{vi, 1}, 0); e != unix.EINVAL {
		t.Errorf("notify of another event: %v", e)
	}
	v.must(cmd(v, 15, idAndNumber{vi, 4}, 0))
	v.event(evEstablished)
	if e := cmd(v, 15, idAndNumber{vi, 4}, 0); e != unix.EISCONN {
		t.Errorf("notify twice: %v", e)
	}
	p.must(cmd(p, 8, accept{ID: i}, 0))
	v.quiet()
	p.must(cmd(p, 24, writeEvent{ID: i, Event: evUser, Status: 5, Param: [304]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}}, 0))
	if ev := p.status(evUser, 5); ev.UID != 1 || ev.Param != [304]byte{1, 2, 3, 4, 5, 6, 7, 8} {
		t.Errorf("event of the program %+v", ev)
	}
	if e := cmd(p, 24, writeEvent{ID: i, Event: evEstablished}, 0); e != unix.EINVAL {
		t.Errorf("a forged event: %v", e)
	}
	p.exit()
	v.exit()
	idle(t, s)
}
