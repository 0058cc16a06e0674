//go:build linux

package cm

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// pair is two programs of one world.
func pair(t testing.TB) (s *Server, c, v *prog) {
	s = world(t)
	return s, newProg(t, s, "c"), newProg(t, s, "v")
}

func (p *prog) dial(i uint32, private string) {
	p.t.Helper()
	p.must(cmd(p, 6, connect{Param: param(0x111, private), ID: i}, 0))
}

// reqs asserts the program's next event, of a kind with a status.
func (p *prog) status(kind uint32, want int32) eventResp {
	p.t.Helper()
	ev := p.event(kind)
	if int32(ev.Status) != want {
		p.t.Errorf("%s: event %d with status %d, want %d", p.name, kind, int32(ev.Status), want)
	}
	return ev
}

func TestReject(t *testing.T) {
	_, c, v := pair(t)
	v.listen(1, psTCP, "10.0.0.1:7000", 0)

	// Nobody listens at the port; somebody listens there, at another address; at another device.
	i := c.resolve(2, psTCP, "10.0.0.1:7001")
	c.dial(i, "")
	c.status(evRejected, rejInvalidServiceID)
	i = c.resolve(2, psTCP, "127.0.0.1:7000")
	c.dial(i, "")
	c.status(evRejected, rejConsumer)
	i = c.resolve(2, psTCP, "10.0.0.2:7000")
	c.dial(i, "")
	c.status(evRejected, rejInvalidServiceID)

	i = c.resolve(2, psTCP, "10.0.0.1:7000")
	c.dial(i, "")
	vi := v.event(evConnectRequest).ID
	r := reject{ID: vi, Len: 3, Private: [256]byte{'n', 'o', '!'}}
	for _, bad := range []reject{{ID: vi, Reason: 5}, {ID: vi, Len: 149}} {
		if e := cmd(v, 9, bad, 0); e != unix.EINVAL {
			t.Errorf("reject with reason %d and %d bytes: %v", bad.Reason, bad.Len, e)
		}
	}
	v.must(cmd(v, 9, r, 0))
	p := c.conn(c.status(evRejected, rejConsumer))
	if p.Len != 148 || string(p.Private[:4]) != "no!\x00" {
		t.Errorf("private data of the REJ: %d bytes, %q", p.Len, p.Private[:4])
	}
	if e := cmd(v, 9, r, 0); e != unix.EINVAL {
		t.Errorf("a second reject: %v", e)
	}
	if e := cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: vi}, 0); e != unix.EINVAL {
		t.Errorf("accept after reject: %v", e)
	}

	// Rejecting the answer, for want of an ECE option.
	i = c.resolve(2, psTCP, "10.0.0.1:7000")
	c.dial(i, "")
	vi = v.event(evConnectRequest).ID
	v.must(cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: vi}, 0))
	c.event(evConnectResponse)
	c.must(cmd(c, 9, reject{ID: i, Reason: rejVendorOption}, 0))
	v.status(evRejected, rejVendorOption)

	// Private data that does not fit a REP is refused, and the connection with it, as the kernel does.
	i = c.resolve(2, psTCP, "10.0.0.1:7000")
	c.dial(i, "")
	vi = v.event(evConnectRequest).ID
	long := param(1, "")
	long.Len = 197
	if e := cmd(v, 8, accept{UID: 9, Param: long, ID: vi}, 0); e != unix.EINVAL {
		t.Errorf("accept with 197 bytes: %v", e)
	}
	c.status(evRejected, rejConsumer)
	long.Len = 57
	i = c.resolve(2, psTCP, "10.0.0.1:7000")
	if e := cmd(c, 6, connect{Param: long, ID: i}, 0); e != unix.EINVAL {
		t.Errorf("connect with 57 bytes: %v", e)
	}
	c.quiet()
	v.quiet()
}

func TestBacklog(t *testing.T) {
	s, c, v := pair(t)
	s.response = 20 * time.Millisecond
	v.listen(1, psTCP, "10.0.0.1:7000", 2)
	for n := range 3 {
		c.dial(c.resolve(uint64(10+n), psTCP, "10.0.0.1:7000"), "")
	}
	if v.sig != 2 {
		t.Fatalf("%d requests arrived at a backlog of 2", v.sig)
	}
	v.event(evConnectRequest)
	soon(t, s, "the repeated REQ", func() bool { return v.sig == 2 })
	v.event(evConnectRequest)
	v.event(evConnectRequest)
	v.quiet()
}

func TestTimeouts(t *testing.T) {
	s, c, v := pair(t)
	s.response, s.timewait = 2*time.Millisecond, 2*time.Millisecond
	l := v.listen(1, psTCP, "10.0.0.1:7000", 1)

	// Nobody accepts.
	i := c.resolve(2, psTCP, "10.0.0.1:7000")
	c.dial(i, "")
	soon(t, s, "UNREACHABLE", func() bool { return c.sig == 1 })
	c.status(evUnreachable, -int32(unix.ETIMEDOUT))
	// The accept comes late: nobody answers it.
	vi := v.event(evConnectRequest).ID
	v.must(cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: vi}, 0))
	soon(t, s, "UNREACHABLE of the REP", func() bool { return v.sig == 1 })
	v.status(evUnreachable, -int32(unix.ETIMEDOUT))

	// A DREQ that nobody answers, and the wait after it.
	v.must(cmd(v, 1, destroyID{Response: respAt, ID: l}, 4))
	s.response = time.Minute
	ci, vi := connected(t, c, v, "10.0.0.1:7001")
	s.f.Lock()
	s.response = time.Millisecond
	s.f.Unlock()
	c.must(cmd(c, 10, idOnly{ci}, 0))
	soon(t, s, "DISCONNECTED and TIMEWAIT_EXIT", func() bool { return c.sig == 2 })
	c.status(evDisconnected, -int32(unix.ETIMEDOUT))
	c.event(evTimewaitExit)
	v.event(evDisconnected)
	v.must(cmd(v, 10, idOnly{vi}, 0))
	soon(t, s, "TIMEWAIT_EXIT", func() bool { return v.sig == 1 })
	v.event(evTimewaitExit)

	// No such host: after the time asked for. No route: at once.
	i = c.create(5, psTCP)
	c.must(cmd(c, 3, resolveIP{Dst: sockaddr("198.51.100.9:1"), ID: i, Timeout: 5}, 0))
	busy := c.create(6, psTCP)
	c.must(cmd(c, 3, resolveIP{Dst: sockaddr("198.51.100.9:1"), ID: busy, Timeout: 3_600_000}, 0))
	if e := cmd(c, 3, resolveIP{Dst: sockaddr("10.0.0.1:1"), ID: busy, Timeout: 5}, 0); e != unix.EINVAL {
		t.Errorf("resolving while resolving: %v", e)
	}
	soon(t, s, "ADDR_ERROR", func() bool { return c.sig == 1 })
	c.status(evAddrError, -int32(unix.ETIMEDOUT))
	c.must(cmd(c, 3, resolveIP{Dst: sockaddr("10.0.0.1:1"), ID: i, Timeout: 5}, 0))
	c.event(evAddrResolved)
	i = c.create(5, psTCP)
	if e := cmd(c, 3, resolveIP{Dst: sockaddr("203.0.113.1:1"), ID: i, Timeout: 5}, 0); e != unix.ENETUNREACH {
		t.Errorf("no route: %v", e)
	}

	// A port that is down swallows the request.
	s.f.Devices[0].Ports[0].Active = false
	v.listen(1, psTCP, "10.0.0.1:7002", 1)
	i = c.resolve(2, psTCP, "10.0.0.1:7002")
	c.dial(i, "")
	soon(t, s, "UNREACHABLE", func() bool { return c.sig == 1 })
	c.status(evUnreachable, -int32(unix.ETIMEDOUT))
	v.quiet()
	c.exit()
	v.exit()
	idle(t, s)
}

// TestDeath kills either end in each state of a connection.
func TestDeath(t *testing.T) {
	for name, f := range map[string]func(c, v *prog) (victim, mourner *prog, event uint32, status int32){
		"client asks": func(c, v *prog) (*prog, *prog, uint32, int32) {
			v.listen(1, psTCP, "10.0.0.1:7000", 0)
			c.dial(c.resolve(2, psTCP, "10.0.0.1:7000"), "")
			v.event(evConnectRequest)
			return c, v, 0, -1 // an id without uid says nothing
		},
		"server was asked": func(c, v *prog) (*prog, *prog, uint32, int32) {
			v.listen(1, psTCP, "10.0.0.1:7000", 0)
			c.dial(c.resolve(2, psTCP, "10.0.0.1:7000"), "")
			return v, c, evRejected, rejConsumer
		},
		"server was asked and knows": func(c, v *prog) (*prog, *prog, uint32, int32) {
			v.listen(1, psTCP, "10.0.0.1:7000", 0)
			c.dial(c.resolve(2, psTCP, "10.0.0.1:7000"), "")
			v.event(evConnectRequest)
			return v, c, evRejected, rejConsumer
		},
		"client was answered": func(c, v *prog) (*prog, *prog, uint32, int32) {
			v.listen(1, psTCP, "10.0.0.1:7000", 0)
			c.dial(c.resolve(2, psTCP, "10.0.0.1:7000"), "")
			i := v.event(evConnectRequest).ID
			v.must(cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: i}, 0))
			return c, v, evRejected, rejConsumer
		},
		"client connected": func(c, v *prog) (*prog, *prog, uint32, int32) {
			connected(c.t, c, v, "10.0.0.1:7000")
			return c, v, evDisconnected, 0
		},
		"server connected": func(c, v *prog) (*prog, *prog, uint32, int32) {
			connected(c.t, c, v, "10.0.0.1:7000")
			return v, c, evDisconnected, 0
		},
		"server heard of the end": func(c, v *prog) (*prog, *prog, uint32, int32) {
			i, _ := connected(c.t, c, v, "10.0.0.1:7000")
			c.must(cmd(c, 10, idOnly{i}, 0))
			return v, c, evDisconnected, 0
		},
		"client said the end": func(c, v *prog) (*prog, *prog, uint32, int32) {
			i, _ := connected(c.t, c, v, "10.0.0.1:7000")
			c.must(cmd(c, 10, idOnly{i}, 0))
			v.event(evDisconnected)
			return c, v, 0, -1
		},
		"UD server was asked": func(c, v *prog) (*prog, *prog, uint32, int32) {
			v.listen(1, psUDP, "10.0.0.1:7000", 0)
			c.dial(c.resolve(2, psUDP, "10.0.0.1:7000"), "")
			return v, c, evUnreachable, sidrReject
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, v := pair(t)
			victim, mourner, kind, status := f(c, v)
			victim.gone = true
			victim.exit()
			if status >= 0 {
				mourner.status(kind, status)
			}
			mourner.quiet()
			mourner.exit()
			idle(t, s)
		})
	}
}

func TestBlocked(t *testing.T) {
	s, c, v := pair(t)
	// Two threads wait, one of them is dead when the event comes.
	dead, live := *v, *v
	for _, w := range []*prog{&dead, &live} {
		w.wait = true
		w.mem = make([]byte, 1<<16)
		if cmd(w, 12, getEvent{respAt}, 336); w.done {
			t.Fatalf("GET_EVENT of an empty queue was answered: %v", w.e)
		}
	}
	dead.gone = true
	l := v.listen(7, psTCP, "10.0.0.1:7000", 0)
	i := c.resolve(2, psTCP, "10.0.0.1:7000")
	c.dial(i, "")
	if dead.done || !live.done || live.e != 0 || live.n != 16 {
		t.Fatalf("the dead thread: %v; the living: %v, %v, %d", dead.done, live.done, live.e, live.n)
	}
	if ev := answer[eventResp](&live); ev.Event != evConnectRequest || ev.UID != 7 {
		t.Fatalf("event %+v", ev)
	}
	v.quiet()
	// A bad pointer leaves the event for the next.
	if cmd(&live, 12, getEvent{1}, 336); live.done {
		t.Fatal("answered")
	}
	c.must(cmd(c, 1, destroyID{Response: respAt, ID: i}, 4))
	i = c.resolve(3, psTCP, "10.0.0.1:7000")
	c.dial(i, "")
	if !live.done || live.e != unix.EFAULT {
		t.Fatalf("a bad pointer: %v, %v", live.done, live.e)
	}
	if ev := v.event(evConnectRequest); ev.UID != 7 {
		t.Fatalf("event %+v of listening id %d", ev, l)
	}
	// A signal interrupts, and the dead are forgotten.
	dead = live
	dead.mem = make([]byte, 1<<16)
	live.hit = true
	cmd(&live, 12, getEvent{respAt}, 336)
	cmd(&dead, 12, getEvent{respAt}, 336)
	dead.gone = true
	soon(t, s, "the interruption", func() bool { return len(v.fl.waiters) == 0 })
	if !live.done || live.e != restart || dead.done {
		t.Fatalf("a signal: %v, %v; the dead thread: %v", live.done, live.e, dead.done)
	}
	live.hit = false
	// A close leaves those who wait as they are: in the kernel they hold the file.
	live.done = false
	cmd(&live, 12, getEvent{respAt}, 336)
	v.exit()
	if live.done {
		t.Fatalf("a close answered a thread that waits: %v", live.e)
	}
	c.status(evRejected, rejConsumer)
	c.exit()
	idle(t, s)
}

func TestMigrate(t *testing.T) {
	s, c, v := pair(t)
	w := newProg(t, s, "w")
	w.fds[5] = "v"
	l := v.listen(1, psTCP, "10.0.0.1:7000", 0)
	c.dial(c.resolve(2, psTCP, "10.0.0.1:7000"), "")
	i := v.event(evConnectRequest).ID
	c.dial(c.resolve(3, psTCP, "10.0.0.1:7000"), "")
	c.dial(c.resolve(4, psTCP, "10.0.0.1:7000"), "")

	for fd, want := range map[uint32]unix.Errno{9: unix.ENOENT, 3: unix.EINVAL} {
		if e := cmd(w, 18, migrateID{respAt, i, fd}, 4); e != want {
			t.Errorf("migration from descriptor %d: %v, want %v", fd, e, want)
		}
	}
	w.fds[6] = "a file of another kind"
	if e := cmd(w, 18, migrateID{respAt, i, 6}, 4); e != unix.EINVAL {
		t.Errorf("migration from a file of another kind: %v", e)
	}
	w.must(cmd(w, 18, migrateID{respAt, i, 5}, 4))
	if e := cmd(v, 8, accept{UID: 9, Param: param(1, ""), ID: i}, 0); e != unix.EINVAL {
		t.Errorf("accept through the old file: %v", e)
	}
	w.must(cmd(w, 8, accept{UID: 9, Param: param(1, ""), ID: i}, 0))
	// The listening id moves with the requests that it has, but not with their ids.
	if w.must(cmd(w, 18, migrateID{respAt, l, 5}, 4)); answer[uint32](w) != 1 {
		t.Errorf("%d events reported, want 1", answer[uint32](w))
	}
	v.quiet()
	stays := w.event(evConnectRequest).ID
	if e := cmd(w, 8, accept{UID: 9, Param: param(1, ""), ID: stays}, 0); e != unix.EINVAL {
		t.Errorf("accept of a request whose id is left behind: %v", e)
	}
	moved := 0
	for n := range uint32(20) {
		if n != stays && cmd(w, 18, migrateID{respAt, n, 5}, 4) == 0 {
			moved++
		}
	}
	if moved != 1 {
		t.Errorf("%d ids are left behind besides, want 1", moved)
	}
	v.exit()
	w.must(cmd(w, 8, accept{UID: 9, Param: param(1, ""), ID: w.event(evConnectRequest).ID}, 0))
	w.quiet()
	c.event(evConnectResponse)
	c.status(evRejected, rejConsumer)
	c.event(evConnectResponse)
	w.exit()
	c.status(evRejected, rejConsumer)
	c.status(evRejected, rejConsumer)
	c.exit()
	idle(t, s)
}

func TestDatagrams(t *testing.T) {
	s, c, v := pair(t)
	l := v.listen(1, psUDP, "0.0.0.0:7000", 1)
	i := c.resolve(2, psUDP, "10.0.0.1:7000")
	a := c.attr(i, hca.Init)
	if a.Mask != 1|1<<4|1<<5|1<<6 || a.QKey != qkeyUDP || a.Port != 1 {
		t.Errorf("INIT %+v", a)
	}
	c.dial(i, "knock")
	ev := v.event(evConnectRequest)
	if u := v.ud(ev); ev.UID != 1 || u.Len != 180 || string(u.Private[:6]) != "knock\x00" || u.QPNum != 0 {
		t.Errorf("CONNECT_REQUEST %+v", ev)
	}
	vi := ev.ID
	v.must(cmd(v, 8, accept{UID: 9, Param: param(0x222, "enter"), ID: vi}, 0))
	v.quiet()
	ev = c.event(evEstablished)
	if u := c.ud(ev); u.Len != 136 || string(u.Private[:6]) != "enter\x00" || u.QPNum != 0x222 || u.QKey != qkeyUDP ||
		u.AH.IsGlobal != 1 || u.AH.GRH.DGID != s.f.Devices[0].Ports[0].Config.GIDs[3].GID || u.AH.GRH.SGIDIndex != 3 ||
		u.AH.PortNum != 1 {
		t.Errorf("ESTABLISHED %+v", c.ud(ev))
	}
	if e := cmd(v, 8, accept{UID: 9, Param: param(0x222, ""), ID: vi}, 0); e != unix.EINVAL {
		t.Errorf("a second accept: %v", e)
	}
	c.must(cmd(c, 10, idOnly{i}, 0))
	v.quiet()

	// Turned down by the program, by a full backlog, by nobody.
	i = c.resolve(2, psUDP, "10.0.0.1:7000")
	c.dial(i, "")
	v.must(cmd(v, 9, reject{ID: v.event(evConnectRequest).ID, Len: 2, Private: [256]byte{'n', 'o'}}, 0))
	if u := c.ud(c.status(evUnreachable, sidrReject)); string(u.Private[:2]) != "no" {
		t.Errorf("private data %q", u.Private[:2])
	}
	c.dial(c.resolve(2, psUDP, "10.0.0.1:7000"), "")
	c.dial(c.resolve(2, psUDP, "10.0.0.1:7000"), "")
	c.status(evUnreachable, sidrReject)
	c.dial(c.resolve(2, psUDP, "10.0.0.1:7001"), "")
	c.status(evUnreachable, sidrUnsupported)
	// The TCP space is another one.
	c.dial(c.resolve(2, psTCP, "10.0.0.1:7000"), "")
	c.status(evRejected, rejInvalidServiceID)
	v.must(cmd(v, 1, destroyID{Response: respAt, ID: l}, 4))
	c.status(evUnreachable, sidrReject)
	v.exit()
	c.exit()
	idle(t, s)
}

func TestMulticast(t *testing.T) {
	s, c, v := pair(t)
	i := c.create(2, psUDP)
	group := joinIP{Response: respAt, UID: 0x77, Addr: sockaddr("239.1.2.3:0"), ID: i}
	if e := cmd(c, 16, group, 4); e != unix.EINVAL {
		t.Errorf("join before an address: %v", e)
	}
	c.must(cmd(c, 3, resolveIP{Dst: sockaddr("239.1.2.3:0"), ID: i}, 0))
	c.event(evAddrResolved)
	c.must(cmd(c, 16, group, 4))
	mc := answer[uint32](c)
	ev := c.event(evMulticastJoin)
	want := [16]byte{10: 0xff, 11: 0xff, 239, 1, 2, 3}
	if u := c.ud(ev); ev.UID != 0x77 || ev.ID != mc || u.QPNum != 0xffffff || u.QKey != qkeyUDP ||
		u.AH.GRH.DGID != want || u.AH.IsGlobal != 1 {
		t.Errorf("MULTICAST_JOIN %+v", u)
	}
	var j join
	j.Response, j.UID, j.ID, j.Size, j.Flags = respAt, 0x78, i, 28, 1
	a := sockaddr("[ff0e::1]:0")
	copy(j.Addr[:], a[:])
	if e := cmd(c, 22, j, 4); e != unix.Errno(524) {
		t.Errorf("an IPv6 group on RoCE v2: %v", e)
	}
	j.Size = 16
	a = sockaddr("239.1.2.4:0")
	copy(j.Addr[:], a[:])
	c.must(cmd(c, 22, j, 4))
	second := answer[uint32](c)
	if e := cmd(v, 17, destroyID{Response: respAt, ID: mc}, 4); e != unix.EINVAL {
		t.Errorf("leaving another's group: %v", e)
	}
	c.must(cmd(c, 17, destroyID{Response: respAt, ID: mc}, 4))
	if n := answer[uint32](c); n != 1 {
		t.Errorf("%d events of the group reported, want 1", n)
	}
	c.must(cmd(c, 17, destroyID{Response: respAt, ID: second}, 4))
	if n := answer[uint32](c); n != 0 {
		t.Errorf("%d events of the second group reported, want 0", n)
	}
	c.quiet()
	if e := cmd(c, 17, destroyID{Response: respAt, ID: mc}, 4); e != unix.ENOENT {
		t.Errorf("leaving twice: %v", e)
	}
	c.must(cmd(c, 16, group, 4))
	c.exit()
	v.exit()
	idle(t, s)
}

func TestDeviceRemoved(t *testing.T) {
	s, c, v := pair(t)
	ci, vi := connected(t, c, v, "10.0.0.1:7000")
	far, _ := connected(t, c, v, "10.0.0.2:7001")
	l := v.listen(3, psTCP, "0.0.0.0:7002", 0)
	c.dial(c.resolve(4, psTCP, "10.0.0.1:7002"), "") // a request that was not fetched yet
	s.f.Lock()
	s.f.Devices[0].Gone = true
	s.DeviceRemoved(s.f.Devices[0])
	s.f.Unlock()
	for range 2 {
		c.event(evDeviceRemoval)
	}
	v.event(evDeviceRemoval)
	c.quiet()
	v.quiet()
	for _, e := range []unix.Errno{cmd(c, 10, idOnly{ci}, 0), cmd(v, 11, query{respAt, vi, 1}, 144)} {
		if e != unix.EIO {
			t.Errorf("a command of a device that is gone: %v", e)
		}
	}
	c.must(cmd(c, 1, destroyID{Response: respAt, ID: ci}, 4))
	// The other device and the wildcard listener live on.
	c.must(cmd(c, 10, idOnly{far}, 0))
	v.event(evDisconnected)
	c.dial(c.resolve(4, psTCP, "10.0.0.2:7002"), "")
	v.event(evConnectRequest)
	i := c.create(5, psTCP)
	c.must(cmd(c, 3, resolveIP{Dst: sockaddr("10.0.0.1:7002"), ID: i, Timeout: 1}, 0))
	soon(t, s, "ADDR_ERROR", func() bool { return c.sig == 1 })
	c.event(evAddrError)
	v.must(cmd(v, 1, destroyID{Response: respAt, ID: l}, 4))
	c.exit()
	v.exit()
	idle(t, s)
}
