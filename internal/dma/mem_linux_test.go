package dma

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"golang.org/x/sys/unix"
)

func TestAlloc(t *testing.T) {
	page := os.Getpagesize()
	for _, size := range []int{1, 63, page - 1, page, page + 1, 3*page + 7, hugePageSize, 5<<20 + 1} {
		for _, huge := range []Huge{HugeNone, HugeTry} {
			m, err := Alloc(size, &Options{Huge: huge})
			if err != nil {
				t.Fatalf("Alloc(%d, %v): %v", size, huge, err)
			}
			b := m.Bytes()
			if len(b) != size || cap(b) != size {
				t.Errorf("Alloc(%d, %v): %d bytes with room for %d", size, huge, len(b), cap(b))
			}
			if m.Addr() != uintptr(unsafe.Pointer(&b[0])) || m.Addr()%uintptr(page) != 0 {
				t.Errorf("Alloc(%d, %v): at %#x, the bytes at %p", size, huge, m.Addr(), &b[0])
			}
			for i, x := range b {
				if x != 0 {
					t.Fatalf("Alloc(%d, %v): byte %d is %d", size, huge, i, x)
				}
			}
			b[0], b[size-1] = 1, 2
			first, last := m.Addr()-uintptr(page), m.Addr()+roundUp(uintptr(size), uintptr(page))
			if !mapped(first) || !mapped(m.Addr()) || !mapped(last) {
				t.Errorf("Alloc(%d, %v): the guards are not there", size, huge)
			}
			at := m.Addr()
			if err := m.Free(); err != nil {
				t.Errorf("Free of %d: %v", size, err)
			}
			if mapped(first) || mapped(at) || mapped(last) {
				t.Errorf("Alloc(%d, %v): Free left something mapped", size, huge)
			}
			if err := m.Free(); err != nil {
				t.Errorf("second Free of %d: %v", size, err)
			}
			if m.Bytes() != nil || m.Addr() != 0 {
				t.Errorf("after Free: %d bytes at %#x", len(m.Bytes()), m.Addr())
			}
		}
	}
}

func TestAllocRefuses(t *testing.T) {
	for _, size := range []int{0, -1, math.MinInt, math.MaxInt, maxSize + 1} {
		m, err := Alloc(size, nil)
		var se *SizeError
		if m != nil || !errors.As(err, &se) || se.Size != size || !strings.Contains(err.Error(), strconv.Itoa(size)) {
			t.Errorf("Alloc(%d) = %v, %v, want a *SizeError that names it", size, m, err)
		}
	}
	for _, huge := range []Huge{HugeNone, HugeTry} {
		if m, err := Alloc(maxSize, &Options{Huge: huge}); m != nil || !errors.Is(err, unix.ENOMEM) {
			t.Errorf("Alloc(%d, %v) = %v, %v, want ENOMEM", maxSize, huge, m, err)
		}
	}
	for _, node := range []int{-2, -1, maxNodes} {
		m, err := Alloc(1, &Options{Node: &node})
		var ne *NodeError
		if m != nil || !errors.As(err, &ne) || ne.Node != node || ne.Online == "" {
			t.Errorf("Alloc on node %d = %v, %v, want a *NodeError", node, m, err)
		}
	}
	if m, err := Alloc(1, &Options{Huge: 9}); m != nil || err == nil || !strings.Contains(err.Error(), "Huge(9)") {
		t.Errorf("Alloc with Huge(9) = %v, %v", m, err)
	}
}

func TestHugeRequireTellsWhatIsThere(t *testing.T) {
	free := freeHugePages()
	if free < 0 {
		t.Skip("no huge pages of 2 MiB in this kernel")
	}
	need := free + 1000
	m, err := Alloc(need*hugePageSize, &Options{Huge: HugeRequire})
	var he *HugePageError
	if m != nil || !errors.As(err, &he) || !errors.Is(err, unix.ENOMEM) {
		t.Fatalf("%d huge pages where %d are free = %v, %v", need, free, m, err)
	}
	for _, want := range []string{fmt.Sprintf("%d are free", free), fmt.Sprintf("%d huge pages", need),
		"/proc/sys/vm/nr_hugepages by 1000", "cannot allocate memory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestNUMANode(t *testing.T) {
	var se *NodeError
	m, err := Alloc(1<<16, &Options{Node: new(int)})
	switch {
	case errors.As(err, &se) && (errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)):
		t.Skipf("mbind is not to be had here: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	policy := numaPolicy(t, m.Addr())
	if !strings.Contains(policy, "prefer") || !strings.Contains(policy, ":0") {
		t.Errorf("policy %q, want node 0 preferred", policy)
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
	last := maxNodes - 1
	_, err = Alloc(1, &Options{Node: &last})
	if !errors.As(err, &se) || se.Node != last || !errors.Is(err, unix.EINVAL) ||
		!strings.Contains(err.Error(), "online") {
		t.Errorf("node %d: %v, want a *NodeError that lists the nodes", last, err)
	}
}

func TestDontFork(t *testing.T) {
	m, err := Alloc(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	_, flags, _ := strings.Cut(smaps(t, m.Addr()), "VmFlags:")
	if !strings.Contains(flags, " dc ") {
		t.Errorf("VmFlags %q lack dc (do not copy on fork)", flags)
	}
}

// TestNoLeak watches the address space around the ways out of Alloc.
func TestNoLeak(t *testing.T) {
	const size, rounds = 3 << 20, 300
	last := maxNodes - 1
	before := addressSpace(t)
	for range rounds {
		for _, o := range []Options{{}, {Huge: HugeTry}, {Huge: HugeRequire}, {Node: &last}} {
			for _, size := range []int{0, size, 1 << 40} {
				if m, err := Alloc(size, &o); err == nil {
					if err := m.Free(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	// The Go runtime grows too, but not by a mapping of size each round.
	if grown := addressSpace(t) - before; grown >= size*rounds/2 {
		t.Errorf("the address space grew by %d bytes in %d rounds", grown, rounds)
	}
}

func TestFreeWhileUsed(t *testing.T) {
	for range 200 {
		m, err := Alloc(100, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if a, n := m.Addr(), len(m.Bytes()); a == 0 && n != 0 {
					t.Errorf("%d bytes at 0", n)
				}
				if err := m.Free(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// TestGuards touches memory in a child, which dies of it just outside.
func TestGuards(t *testing.T) {
	if where := os.Getenv("DMA_TEST_TOUCH"); where != "" {
		touch(where)
		return
	}
	page := os.Getpagesize()
	checkGuards(t, "TestGuards", []guardCase{
		{fmt.Sprintf("none %d 0", 3*page), false},
		{fmt.Sprintf("none %d %d", 3*page, 3*page-1), false},
		{fmt.Sprintf("none %d -1", 3*page), true},
		{fmt.Sprintf("none %d %d", 3*page, -page), true},
		{fmt.Sprintf("none %d %d", 3*page, 3*page), true},
		{fmt.Sprintf("none %d %d", 3*page, 4*page-1), true},
		{fmt.Sprintf("none 1 %d", page), true},
		{fmt.Sprintf("try %d %d", hugePageSize, hugePageSize-1), false},
		{fmt.Sprintf("try %d -1", hugePageSize), true},
		{fmt.Sprintf("try %d %d", hugePageSize, hugePageSize), true},
	})
}

type guardCase struct {
	where string // kind of pages, size, offset to touch
	dies  bool
}

func checkGuards(t *testing.T, test string, cases []guardCase) {
	t.Helper()
	for _, c := range cases {
		cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
		cmd.Env = append(os.Environ(), "DMA_TEST_TOUCH="+c.where)
		out, err := cmd.CombinedOutput()
		died := err != nil && strings.Contains(string(out), "touching") && strings.Contains(string(out), "SIGSEGV")
		if died != c.dies || (err != nil) != c.dies {
			t.Errorf("touch %s: %v, want a fault: %v\n%s", c.where, err, c.dies, out)
		}
	}
}

func touch(where string) {
	var huge string
	var size, off int
	if _, err := fmt.Sscan(where, &huge, &size, &off); err != nil {
		panic(err)
	}
	h := map[string]Huge{"none": HugeNone, "try": HugeTry, "require": HugeRequire}[huge]
	m, err := Alloc(size, &Options{Huge: h})
	if err != nil {
		panic(err)
	}
	fmt.Println("touching", where)
	p := unsafe.Pointer(&m.Bytes()[0])
	*(*byte)(unsafe.Add(p, off)) = 1
	runtime.KeepAlive(m)
}

// TestRXEHugePages runs in the VM because it sets huge pages aside for the whole
// system: others would take them.
func TestRXEHugePages(t *testing.T) {
	if where := os.Getenv("DMA_TEST_TOUCH"); where != "" {
		touch(where)
		return
	}
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t)
	const nr = "/proc/sys/vm/nr_hugepages"
	old, err := os.ReadFile(nr)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(nr, []byte("4"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(nr, old, 0)
	if free := freeHugePages(); free != 4 {
		t.Fatalf("%d huge pages are free after 4 were set aside", free)
	}

	m, err := Alloc(3<<20, &Options{Huge: HugeRequire})
	if err != nil {
		t.Fatal(err)
	}
	if !m.Huge() || m.Addr()%hugePageSize != 0 || len(m.Bytes()) != 3<<20 {
		t.Errorf("huge %v at %#x, %d bytes", m.Huge(), m.Addr(), len(m.Bytes()))
	}
	sm := smaps(t, m.Addr())
	if size := regexp.MustCompile(`(?m)^KernelPageSize: +2048 kB`); !size.MatchString(sm) ||
		!strings.Contains(sm, " dc ") {
		t.Errorf("the kernel says\n%s", sm)
	}
	m.Bytes()[3<<20-1] = 1
	if free := freeHugePages(); free != 2 {
		t.Errorf("%d huge pages are free after 2 of 4 were taken", free)
	}

	var he *HugePageError
	if _, err := Alloc(6<<20, &Options{Huge: HugeRequire}); !errors.As(err, &he) || he.Need != 3 || he.Free != 2 ||
		!strings.Contains(err.Error(), "by 1,") {
		t.Errorf("3 huge pages where 2 are free: %v", err)
	}
	plain, err := Alloc(6<<20, &Options{Huge: HugeTry})
	if err != nil || plain.Huge() {
		t.Fatalf("3 huge pages where 2 are free, to try: %v", err)
	}
	if err := errors.Join(plain.Free(), m.Free(), m.Free()); err != nil {
		t.Error(err)
	}
	// A thread that starts meanwhile takes some, once; a leak does so each time.
	for try := 1; ; try++ {
		before := addressSpace(t)
		for range 100 {
			for _, size := range []int{1, 8 << 20, 10 << 20} {
				if m, err := Alloc(size, &Options{Huge: HugeRequire}); err == nil {
					if err := m.Free(); err != nil {
						t.Fatal(err)
					}
				} else if size <= 8<<20 {
					t.Fatal(err)
				}
			}
		}
		grown := (addressSpace(t) - before) % (64 << 20)
		if grown < hugePageSize {
			break
		}
		if try == 5 {
			t.Fatalf("the address space grew by %d bytes, and more each time", grown)
		}
	}
	if free := freeHugePages(); free != 4 {
		t.Errorf("%d of 4 huge pages are free in the end", free)
	}
	checkGuards(t, "TestRXEHugePages", []guardCase{
		{fmt.Sprintf("require 1 %d", hugePageSize-1), false},
		{"require 1 -1", true},
		{fmt.Sprintf("require 1 %d", hugePageSize), true},
	})
}

// TestSpace maps nothing while the address space is kept for huge pages.
func TestSpace(t *testing.T) {
	for _, huge := range []Huge{HugeNone, HugeTry} {
		space.Lock()
		mapped := make(chan error, 1)
		go func() {
			m, err := Alloc(1, &Options{Huge: huge})
			if err == nil {
				err = m.Free()
			}
			mapped <- err
		}()
		time.Sleep(10 * time.Millisecond) // a mapping takes less
		if len(mapped) > 0 {
			t.Errorf("huge %v: mapped where huge pages are to go", huge)
		}
		space.Unlock()
		if err := <-mapped; err != nil {
			t.Error(err)
		}
	}
}

func TestMemlockLimit(t *testing.T) {
	cur, most, err := MemlockLimit()
	if err != nil || cur > most {
		t.Fatalf("MemlockLimit() = %d, %d, %v", cur, most, err)
	}
	old := unix.Rlimit{Cur: cur, Max: most}
	if most < 1<<16 {
		t.Skipf("the limit of %d bytes leaves nothing to try", most)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1 << 16, Max: most}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)
	if got, _, err := MemlockLimit(); got != 1<<16 || err != nil {
		t.Errorf("MemlockLimit() = %d, %v after it was set to %d", got, err, 1<<16)
	}
}

// mapped tells whether there is a page at addr.
func mapped(addr uintptr) bool {
	var in [1]byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, addr, uintptr(os.Getpagesize()), uintptr(unsafe.Pointer(&in)))
	return errno == 0
}

// numaPolicy is the line of numa_maps about the mapping at addr.
func numaPolicy(t *testing.T, addr uintptr) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasPrefix(line, fmt.Sprintf("%08x ", addr)) {
			return strings.TrimSpace(line)
		}
	}
	t.Fatalf("numa_maps has no line for %#x", addr)
	return ""
}

// smaps is what the kernel knows of the mapping at addr.
func smaps(t *testing.T, addr uintptr) string {
	t.Helper()
	all, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, mine, ok := strings.Cut("\n"+string(all), fmt.Sprintf("\n%08x-", addr))
	if !ok {
		t.Fatalf("no mapping at %#x", addr)
	}
	before, flags, _ := strings.Cut(mine, "VmFlags:")
	flags, _, _ = strings.Cut(flags, "\n")
	return before + "VmFlags:" + flags + " "
}

func addressSpace(t *testing.T) int64 {
	t.Helper()
	s, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(s))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
