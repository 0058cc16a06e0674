//go:build linux

// Hostile does to the emulated device what no sane program does: garbage in commands, rings and registers, files closed
// under calls, processes that die.
//
//	emu -- hostile [-seed N] [-n CALLS] WHAT...
//
// It exits with 0 if every call returned. It does not judge the results. The caller checks that the emulator still
// works.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	device     = "/dev/infiniband/uverbs0"
	cmDevice   = "/dev/infiniband/rdma_cm"
	verbsIoctl = 0xc0181b01
	childEnv   = "HOSTILE_CHILD"
)

var (
	seed  = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random numbers")
	calls = flag.Int("n", 4000, "calls of each kind")
	rnd   *rand.Rand
)

func main() {
	flag.Parse()
	mode, number, isChild := strings.Cut(os.Getenv(childEnv), " ")
	if isChild {
		*seed, _ = strconv.ParseUint(number, 10, 64)
	} else {
		fmt.Println("seed", *seed)
	}
	rnd = rand.New(rand.NewPCG(*seed, 0))
	if isChild {
		if err := child(mode); err != nil {
			fmt.Fprintf(os.Stderr, "hostile: %s: %v\n", mode, err)
			os.Exit(1)
		}
		return
	}
	attacks := map[string]func() error{"ioctl": ioctls, "write": writes, "commands": commandStorm, "cm": cmWrites,
		"mmap": mmaps, "close": closes, "signals": signals, "races": races, "forks": forks, "rings": rings}
	if _, _, err := os.Pipe(); err != nil { // starts the runtime's poller, whose files stay
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	before := files()
	for _, what := range flag.Args() {
		do := attacks[what]
		if do == nil {
			fmt.Fprintf(os.Stderr, "hostile: no attack %q\n", what)
			os.Exit(2)
		}
		if err := do(); err != nil {
			fmt.Fprintf(os.Stderr, "hostile: %s: %v\n", what, err)
			os.Exit(1)
		}
		sweep(before)
	}
}

// memory holds the pages that pointers may point to: writable ones, read-only ones, and unmapped ones after them. The
// addresses around them are reserved, so that an address with a random byte changed does not point to memory of Go's
// runtime.
func memory() (good, end, readonly uint64, err error) {
	const page, around = 4096, 1 << 40
	const reserved = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE
	p, err := unix.MmapPtr(-1, 0, nil, 2*around, unix.PROT_NONE, reserved)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("reserve addresses: %w", err)
	}
	base := (uint64(uintptr(p))+around-1)&^(around-1) | around/2 | 0x55_5000
	err = unix.Mprotect(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&base))), 8*page),
		unix.PROT_READ|unix.PROT_WRITE)
	end = base + 8*page
	if err == nil {
		err = unix.Mprotect(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&end))), page), unix.PROT_READ)
	}
	return base, end, end, err
}

// pointer returns an address, good or bad.
func pointer(good, end, readonly uint64) uint64 {
	switch rnd.IntN(10) {
	case 0:
		return 0
	case 1:
		return ^uint64(rnd.IntN(16))
	case 2:
		return end - uint64(rnd.IntN(64))
	case 3:
		return readonly
	case 4:
		return rnd.Uint64()
	case 5:
		return 1 << 47
	}
	return good + uint64(rnd.IntN(1024))
}

// opened opens the device and creates a context as the library does, or leaves the file without one: then every command
// is refused at once.
func opened(context bool) (int, error) {
	fd, _, err := openedBoth(context)
	return fd, err
}

// openedBoth is opened, and also returns the file of events that comes with a context, or -1.
func openedBoth(context bool) (fd, events int, err error) {
	fd, err = unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("open: %w", err)
	}
	events = -1
	if context {
		// GET_CONTEXT, legacy: header, response, and mlx5's request.
		resp := make([]byte, 256)
		b := words(0, uint16(12), uint16(len(resp)/4), where(resp), 16, 4, 0, 0, 1, 0, 3, 0)
		if _, err := unix.Write(fd, b); err != nil {
			unix.Close(fd)
			return -1, -1, fmt.Errorf("get_context: %w", err)
		}
		events = int(int32(binary.NativeEndian.Uint32(resp)))
	}
	return fd, events, nil
}

// files returns the descriptors of this process.
func files() map[int]bool {
	open := map[int]bool{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		open[fd] = true
	}
	return open
}

// sweep closes the files that an attack left open: contexts and random commands create files of events, which no attack
// closes.
func sweep(before map[int]bool) {
	for fd := range files() {
		if !before[fd] {
			unix.Close(fd)
		}
	}
}

// kept keeps memory in its place: the stack may move.
var kept atomic.Pointer[byte]

// where returns the address of p, to be written into requests.
func where[T any](p []T) uint64 {
	kept.Store((*byte)(unsafe.Pointer(&p[0])))
	return uint64(uintptr(unsafe.Pointer(&p[0])))
}

//go:uintptrescapes
func syscall3(nr, a, b, c uintptr) unix.Errno {
	_, _, e := unix.Syscall(nr, a, b, c)
	return e
}

// ioctls sends method calls with wrong objects, methods, attributes, lengths and pointers.
func ioctls() error {
	good, end, ro, err := memory()
	if err != nil {
		return err
	}
	fd, err := opened(true)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	errnos := map[unix.Errno]int{}
	for range *calls {
		n := rnd.IntN(12)
		b := make([]byte, 24+16*n)
		length := len(b)
		switch rnd.IntN(10) {
		case 0:
			length = rnd.IntN(1 << 16)
		case 1:
			n = rnd.IntN(1 << 16)
		}
		object, method := uint16(rnd.IntN(24)), uint16(rnd.IntN(10))
		if rnd.IntN(4) == 0 {
			object, method = uint16(rnd.Uint32()), uint16(rnd.Uint32())
		}
		copy(b, words(uint16(length), object, method, uint16(n)))
		if rnd.IntN(20) == 0 {
			binary.NativeEndian.PutUint64(b[8:], rnd.Uint64())
		}
		driver := uint32(1)
		if rnd.IntN(20) == 0 {
			driver = rnd.Uint32()
		}
		binary.NativeEndian.PutUint32(b[16:], driver)
		for a := b[24:]; len(a) >= 16; a = a[16:] {
			id := uint16(rnd.IntN(16))
			if rnd.IntN(3) == 0 {
				id = 0x1000 | uint16(rnd.IntN(8))
			}
			binary.NativeEndian.PutUint16(a, id)
			size := []int{0, 1, 4, 8, 16, 64, 96, 4096, 65535}[rnd.IntN(9)]
			binary.NativeEndian.PutUint16(a[2:], uint16(size))
			binary.NativeEndian.PutUint16(a[4:], uint16(rnd.IntN(3)))
			if rnd.IntN(20) == 0 {
				binary.NativeEndian.PutUint16(a[6:], uint16(rnd.Uint32()))
			}
			v := pointer(good, end, ro)
			if rnd.IntN(3) == 0 {
				v = uint64(rnd.IntN(16))
			}
			binary.NativeEndian.PutUint64(a[8:], v)
		}
		addr := uintptr(where(b))
		if rnd.IntN(20) == 0 {
			addr = uintptr(pointer(good, end, ro))
		}
		errnos[syscall3(unix.SYS_IOCTL, uintptr(fd), verbsIoctl, addr)]++
	}
	return told("ioctl", errnos)
}

// told prints the errnos that were returned, and complains if there was only one.
func told(what string, errnos map[unix.Errno]int) error {
	var s []string
	for e, n := range errnos {
		s = append(s, fmt.Sprintf("%s %d", unix.ErrnoName(e), n))
	}
	fmt.Printf("%s: %s\n", what, strings.Join(s, ", "))
	if len(errnos) < 2 {
		return fmt.Errorf("all calls ended alike: %v", errnos)
	}
	return nil
}

// legacy sends write() commands to a file. Command numbers below most are known.
func legacy(what, path string, most int, header func(cmd uint32, in, out int) []byte) error {
	good, end, ro, err := memory()
	if err != nil {
		return err
	}
	errnos := map[unix.Errno]int{}
	for round := 0; round < 8; round++ {
		fd, err := opened(round > 0)
		if path != device && err == nil {
			unix.Close(fd)
			fd, err = unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		}
		if err != nil {
			return err
		}
		for range *calls / 8 {
			cmd := uint32(rnd.IntN(most))
			if rnd.IntN(10) == 0 {
				cmd = rnd.Uint32()
			}
			body := make([]byte, 4*rnd.IntN(64))
			for i := 0; i+8 <= len(body); i += 8 {
				switch rnd.IntN(3) {
				case 0:
					binary.NativeEndian.PutUint64(body[i:], pointer(good, end, ro))
				case 1:
					binary.NativeEndian.PutUint64(body[i:], uint64(rnd.IntN(8))<<32|uint64(rnd.IntN(8)))
				}
			}
			in, out := len(body), rnd.IntN(512)
			switch rnd.IntN(10) {
			case 0:
				in = rnd.IntN(1 << 16)
			case 1:
				out = rnd.IntN(1 << 18)
			}
			b := append(header(cmd, in, out), body...)
			n, addr := uintptr(len(b)), uintptr(where(b))
			switch rnd.IntN(30) {
			case 0:
				n = uintptr(rnd.IntN(len(b) + 1))
			case 1:
				addr = uintptr(pointer(good, end, ro))
			case 2:
				n = uintptr(rnd.Uint64())
			}
			errnos[syscall3(unix.SYS_WRITE, uintptr(fd), addr, n)]++
		}
		unix.Close(fd)
	}
	return told(what, errnos)
}

func writes() error {
	return legacy("write", device, 64, func(cmd uint32, in, out int) []byte {
		return words(cmd, uint16((in+8)/4), uint16(out/4))
	})
}

func cmWrites() error {
	return legacy("rdma_cm", cmDevice, 26, func(cmd uint32, in, out int) []byte {
		return words(cmd, uint16(in), uint16(out))
	})
}

// mmaps maps offsets that exist and others, and writes to the mappings it gets.
func mmaps() error {
	fd, err := opened(true)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	errnos := map[unix.Errno]int{}
	for range *calls {
		length := []uintptr{0, 1, 4096, 8192, 1 << 20, 1 << 40}[rnd.IntN(6)]
		page := uintptr(rnd.IntN(16))<<8 | uintptr(rnd.IntN(4))
		if rnd.IntN(8) == 0 {
			page = uintptr(rnd.Uint32())
		}
		off := page << 12
		if rnd.IntN(16) == 0 {
			off |= 7
		}
		flags := []uintptr{unix.MAP_SHARED, unix.MAP_PRIVATE, unix.MAP_SHARED_VALIDATE}[rnd.IntN(3)]
		prot := uintptr(rnd.IntN(8))
		p, _, e := unix.Syscall6(unix.SYS_MMAP, 0, length, prot, flags, uintptr(fd), off)
		errnos[e]++
		if e == 0 {
			_, _, _ = unix.Syscall(unix.SYS_MUNMAP, p, length, 0)
		}
	}
	return told("mmap", errnos)
}
