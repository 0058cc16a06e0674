//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kind is a kind of object, with its number in the kernel's interface.
type kind uint16

const (
	pd   kind = 1
	cq   kind = 3
	qp   kind = 4
	srq  kind = 5
	ah   kind = 6
	mr   kind = 7
	mw   kind = 8
	xrcd kind = 10
	uar  kind = 0x1008
)

// objects holds the objects of a file, according to the responses. A thread may record that it destroyed an object
// before the thread that created it records that: such handles are in early meanwhile.
type objects struct {
	mu    sync.Mutex
	live  map[kind][]uint32
	early map[kind][]uint32
	qpns  []uint32
	errs  map[unix.Errno]int
}

func newObjects() *objects {
	return &objects{live: map[kind][]uint32{uar: nil}, early: map[kind][]uint32{}, errs: map[unix.Errno]int{},
		qpns: []uint32{7}}
}

// done counts a command that created or destroyed an object of kind k, and records the handle and the number after it
// in the response.
func (o *objects) done(k, gone kind, h, num uint32, e unix.Errno) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs[e]++
	if e == 0 && k != 0 {
		cancel(o.early, o.live, k, h)
	}
	if e == 0 && k == qp {
		o.qpns = append(o.qpns, num)
	}
	// The object is destroyed whether or not the response can be written.
	if (e == 0 || e == unix.EFAULT) && gone != 0 {
		cancel(o.live, o.early, gone, h)
	}
}

// cancel removes a handle from one list, or adds it to the other if it is not there.
func cancel(from, to map[kind][]uint32, k kind, h uint32) {
	if i := slices.Index(from[k], h); i >= 0 {
		from[k] = slices.Delete(from[k], i, i+1)
	} else {
		to[k] = append(to[k], h)
	}
}

// speaker sends commands, most of them valid.
type speaker struct {
	*objects
	*rand.Rand
	fd                  int
	good, end, readonly uint64
}

// handle returns a handle of this kind, or sometimes one of another kind or of none.
func (s *speaker) handle(k kind) uint32 {
	if s.IntN(20) == 0 {
		return s.Uint32()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.IntN(20) == 0 {
		k = slices.Sorted(maps.Keys(s.live))[s.IntN(len(s.live))]
	}
	if l := s.live[k]; len(l) > 0 {
		return l[s.IntN(len(l))]
	}
	return s.Uint32N(8)
}

// qpn returns the number of a QP that exists or existed.
func (s *speaker) qpn() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.qpns[s.IntN(len(s.qpns))]
}

// addr returns the address of memory for a ring or a region.
func (s *speaker) addr() uint64 { return s.good + 64*s.Uint64N(64) }

// small returns a number that is likely to be valid.
func (s *speaker) small() uint32 { return 1 << s.IntN(6) }

// command is a write() command: the objects that it creates and destroys, and its contents.
type command struct {
	number       uint32
	out          int // words of its answer; 0: it has none
	makes, takes kind
	body         func(s *speaker) []byte
}

var commands = []command{
	{3, 1, pd, 0, func(s *speaker) []byte { return nil }},
	{4, 0, 0, pd, func(s *speaker) []byte { return words(s.handle(pd)) }},
	{5, 4, ah, 0, func(s *speaker) []byte {
		return words(uint64(1), s.handle(pd), 0, make([]byte, 10), uint16(0xffff), 0x0100007f, 0, uint8(3), uint8(1),
			uint16(0), uint16(1), uint8(0), uint8(0), uint8(0), uint8(1), uint8(1), uint8(0))
	}},
	{8, 0, 0, ah, func(s *speaker) []byte { return words(s.handle(ah)) }},
	{9, 3, mr, 0, func(s *speaker) []byte {
		a := s.addr()
		return words(a, s.Uint64N(4096), a, s.handle(pd), s.Uint32N(32)|1)
	}},
	{11, 2, 0, 0, func(s *speaker) []byte {
		a := s.addr()
		return words(s.handle(mr), s.Uint32N(9), a, s.Uint64N(4096), a, s.handle(pd), s.Uint32N(32)|1)
	}},
	{13, 0, 0, mr, func(s *speaker) []byte { return words(s.handle(mr)) }},
	{14, 2, mw, 0, func(s *speaker) []byte { return words(s.handle(pd), uint8(1+s.IntN(2)), uint8(0), uint16(0)) }},
	{16, 0, 0, mw, func(s *speaker) []byte { return words(s.handle(mw)) }},
	{18, 4, cq, 0, func(s *speaker) []byte {
		return words(uint64(2), s.small(), s.Uint32N(8), -1, 0, s.addr(), s.addr(), 64, uint16(0), uint16(2),
			uint16(s.IntN(4)), uint16(0), 0)
	}},
	{19, 2, 0, 0, func(s *speaker) []byte {
		return words(s.handle(cq), s.small(), s.addr(), uint16(64), uint16(0), 0)
	}},
	{20, 2, 0, cq, func(s *speaker) []byte { return words(s.handle(cq), 0) }},
	{24, 8, qp, 0, func(s *speaker) []byte {
		typ := []uint8{2, 2, 3, 4, 8, 9, 10, 1}[s.IntN(8)]
		domain := s.handle(pd)
		if typ == 10 {
			domain = s.handle(xrcd)
		}
		return words(uint64(3), domain, s.handle(cq), s.handle(cq), s.handle(srq), s.small(), s.small(), 1, 1, 0,
			uint8(s.IntN(2)), typ, uint8(s.IntN(2)), uint8(0),
			s.addr(), s.addr(), s.small(), s.small(), 4, 1<<10, s.Uint32N(1<<24), s.Uint32N(4), s.addr(), 0,
			uint16(0), uint16(0))
	}},
	{25, 34, 0, 0, func(s *speaker) []byte { return words(s.handle(qp), s.Uint32()) }},
	{26, 0, 0, 0, func(s *speaker) []byte {
		masks := []uint32{1 | 1<<4 | 1<<5 | 1<<3, 1 | 1<<4 | 1<<5 | 1<<6, 1 | 1<<7 | 1<<8 | 1<<20 | 1<<12 | 1<<17 |
			1<<15, 1 | 1<<9 | 1<<10 | 1<<11 | 1<<16 | 1<<13, 1, 1 | 1<<16, s.Uint32() & (1<<21 - 1)}
		i := s.IntN(len(masks))
		state := []uint8{1, 1, 2, 3, uint8(s.IntN(8)), 3, uint8(s.IntN(8))}[i]
		dest := words(make([]byte, 10), uint16(0xffff), 0x0100007f, 0, uint16(0), uint16(0), uint8(3), uint8(1),
			uint8(0), uint8(0), uint8(0), uint8(0), uint8(1), uint8(1))
		return words(dest, make([]byte, 32), s.handle(qp), masks[i], s.Uint32(), s.Uint32(), s.Uint32(), s.qpn(),
			s.Uint32N(16), uint16(0), uint16(0),
			state, uint8(s.IntN(7)), uint8(1+s.IntN(3)), uint8(0), uint8(0), uint8(1), uint8(1), uint8(1), uint8(1),
			uint8(14), uint8(7), uint8(7), uint8(0), uint8(0), uint16(0))
	}},
	{27, 1, 0, qp, func(s *speaker) []byte { return words(s.handle(qp), 0) }},
	{30, 0, 0, 0, func(s *speaker) []byte {
		return words(uint16(0x12ff), make([]byte, 13), uint8(s.IntN(4)), s.handle(qp), 0)
	}},
	{31, 0, 0, 0, func(s *speaker) []byte {
		return words(uint16(0x12ff), make([]byte, 13), uint8(s.IntN(4)), s.handle(qp), 0)
	}},
	{32, 5, srq, 0, func(s *speaker) []byte {
		return words(uint64(4), s.handle(pd), s.small(), 1, 0, s.addr(), s.addr(), 0, 0, s.Uint32N(1<<24), 0)
	}},
	{39, 5, srq, 0, func(s *speaker) []byte {
		return words(uint64(4), 1, s.handle(pd), s.small(), 1, 0, 0, s.handle(xrcd), s.handle(cq), s.addr(), s.addr(),
			0, 0, s.Uint32N(1<<24), 0)
	}},
	{33, 0, 0, 0, func(s *speaker) []byte { return words(s.handle(srq), s.Uint32N(4), 4, s.small()) }},
	{34, 4, 0, 0, func(s *speaker) []byte { return words(s.handle(srq), 0) }},
	{35, 1, 0, srq, func(s *speaker) []byte { return words(s.handle(srq), 0) }},
	{37, 1, xrcd, 0, func(s *speaker) []byte { return words(s.IntN(4)-1, unix.O_CREAT) }},
	{38, 0, 0, xrcd, func(s *speaker) []byte { return words(s.handle(xrcd)) }},
	{40, 8, qp, 0, func(s *speaker) []byte {
		return words(uint64(5), s.handle(xrcd), s.qpn(), uint8(10), make([]byte, 7))
	}},
}

// words returns vs in the machine's byte order, each as wide as its type; an int has four bytes.
func words(vs ...any) (b []byte) {
	for _, v := range vs {
		switch v := v.(type) {
		case []byte:
			b = append(b, v...)
		case int:
			b = binary.NativeEndian.AppendUint32(b, uint32(v))
		default:
			b, _ = binary.Append(b, binary.NativeEndian, v)
		}
	}
	return b
}

// say sends one command, sometimes corrupted.
func (s *speaker) say() { s.send(&commands[s.IntN(len(commands))], s.IntN(8)) }

// command sends the command with this number, uncorrupted.
func (s *speaker) command(number uint32) {
	for i := range commands {
		if commands[i].number == number {
			s.send(&commands[i], 7)
		}
	}
}

func (s *speaker) send(c *command, spoilt int) {
	body := c.body(s)
	resp := make([]byte, 512)
	addr := where(resp)
	if len(body) > 0 && spoilt == 0 {
		body[s.IntN(len(body))] = byte(s.Uint32())
	}
	if spoilt == 1 {
		addr = []uint64{0, s.readonly, s.end - 1, 1 << 47, ^uint64(0)}[s.IntN(5)]
	}
	var b []byte
	if c.out > 0 {
		b = words(addr)
	}
	b = append(words(c.number, uint16(2+(len(b)+len(body))/4), uint16(c.out+32)), append(b, body...)...)
	if c.out == 0 {
		binary.NativeEndian.PutUint16(b[6:], 0)
	}
	at := 8
	e := syscall3(unix.SYS_WRITE, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	h, num := binary.NativeEndian.Uint32(resp), binary.NativeEndian.Uint32(resp[4:])
	if c.takes != 0 {
		if c.out > 0 {
			at += 8
		}
		h = binary.NativeEndian.Uint32(b[at:])
	}
	s.done(c.makes, c.takes, h, num, e)
}

// call sends a method call and returns the attributes as the kernel left them.
func call(fd int, object, method uint16, attrs ...[]byte) (unix.Errno, []byte) {
	b := words(uint16(24+16*len(attrs)), object, method, uint16(len(attrs)), uint64(0), uint32(1), uint32(0))
	for _, a := range attrs {
		b = append(b, a...)
	}
	return syscall3(unix.SYS_IOCTL, uintptr(fd), verbsIoctl, uintptr(unsafe.Pointer(&b[0]))), b[24:]
}

func attribute(id, n uint16, data uint64) []byte { return words(id, n, uint16(1), uint16(0), data) }

// toldHandles returns the handles of a kind that the device reports.
func toldHandles(fd int, k kind) (hs []uint32, _ unix.Errno) {
	list, n := make([]uint32, 16000), []uint64{0}
	e, _ := call(fd, 0, 1, attribute(0, 8, uint64(k)), attribute(1, 4, where(n)),
		attribute(2, uint16(4*len(list)), where(list)))
	return list[:min(n[0], uint64(len(list)))], e
}

// pages allocates doorbell pages.
func (o *objects) pages(fd int) error {
	for k := range 4 {
		out := make([]uint64, 3)
		at := where(out)
		e, a := call(fd, uint16(uar), 0x1000, attribute(0x1000, 0, 0), attribute(0x1001, 8, uint64(k&1)),
			attribute(0x1002, 8, at), attribute(0x1003, 4, at+8), attribute(0x1004, 4, at+16))
		if e != 0 {
			return fmt.Errorf("uar_alloc: %w", e)
		}
		runtime.KeepAlive(out)
		o.done(uar, 0, binary.NativeEndian.Uint32(a[8:]), 0, 0)
	}
	return nil
}

// commandStorm sends many valid commands and some invalid ones from several threads to one file, and compares the
// objects at the end.
func commandStorm() error {
	first, err := newSpeaker(0)
	if err != nil {
		return err
	}
	fd, o := first.fd, first.objects
	defer unix.Close(fd)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s := *first
			s.Rand = rand.New(rand.NewPCG(*seed, uint64(i)))
			for range *calls {
				s.say()
			}
		})
	}
	wg.Wait()
	var all []error
	n := 0
	for _, k := range []kind{pd, cq, qp, srq, ah, mr, mw, xrcd, uar} {
		hs, e := toldHandles(fd, k)
		if e != 0 {
			all = append(all, fmt.Errorf("info_handles of %d: %w", k, e))
		}
		want := slices.Sorted(slices.Values(o.live[k]))
		slices.Sort(hs)
		n += len(hs)
		if !slices.Equal(hs, want) || len(o.early[k]) > 0 {
			all = append(all, fmt.Errorf("objects of kind %d: the device has %d, its answers told of %d, and of %d "+
				"that went and never came", k, len(hs), len(want), len(o.early[k])))
		}
	}
	fmt.Println(n, "objects at the end")
	return errors.Join(append(all, told("commands", o.errs))...)
}

// races changes requests while the device reads them.
func races() error {
	s, err := newSpeaker(0)
	if err != nil {
		return err
	}
	defer unix.Close(s.fd)
	p := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&s.good))), 4096)
	right := words(uint16(24+3*16), uint16(0), uint16(1), uint16(3), uint64(0), uint32(1), uint32(0),
		attribute(0, 8, uint64(pd)), attribute(1, 4, s.good+2048), attribute(2, 256, s.good+2304))
	write := words(uint32(3), uint16(4), uint16(1), s.good+2048)
	var wg sync.WaitGroup
	errs := [2]map[unix.Errno]int{{}, {}}
	stop := make(chan struct{})
	for i := range 2 {
		wg.Go(func() {
			for range *calls {
				e := syscall3(unix.SYS_IOCTL, uintptr(s.fd), verbsIoctl, uintptr(s.good))
				e2 := syscall3(unix.SYS_WRITE, uintptr(s.fd), uintptr(s.good+1024), 16)
				errs[i][e]++
				errs[i][e2]++
			}
		})
	}
	var scribbler sync.WaitGroup
	scribbler.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			copy(p, right)
			copy(p[1024:], write)
			p[rnd.IntN(len(right))] = byte(rnd.Uint32())
			p[1024+rnd.IntN(len(write))] = byte(rnd.Uint32())
		}
	})
	wg.Wait()
	close(stop)
	scribbler.Wait()
	for e, n := range errs[1] {
		errs[0][e] += n
	}
	return told("races", errs[0])
}
