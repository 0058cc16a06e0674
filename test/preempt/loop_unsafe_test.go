//go:build linux && (amd64 || arm64)

package preempt

import (
	"bufio"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mlx5"
)

const (
	blocks  = 1024
	turn    = 16
	sub     = 32
	buckets = 64 + 58*sub
)

// bucket returns the histogram's bucket for a time: exact below 64 ns, then 32 buckets for each power of two.
func bucket(v uint64) int {
	if v < 64 {
		return int(v)
	}
	e := bits.Len64(v) - 6
	return 64 + (e-1)*sub + int(v>>e) - sub
}

// value returns the lower limit of a bucket.
func value(i int) uint64 {
	if i < 64 {
		return uint64(i)
	}
	i -= 64
	return uint64(i%sub+sub) << (i/sub + 1)
}

// side runs the loop's process, with arguments "SECONDS LOAD [locked]".
func side(args string) error {
	var seconds float64
	var load, how string
	if _, err := fmt.Sscanf(args+" free", "%g %s %s", &seconds, &load, &how); err != nil {
		return err
	}
	var stop atomic.Bool
	switch load {
	case "alone":
	case "alloc":
		go allocate(&stop)
	case "busy":
		for range 2 * runtime.NumCPU() {
			go func() {
				for n := uint64(0); !stop.Load(); n++ {
				}
			}()
		}
	default:
		return errors.New("no such load: " + load)
	}
	if how == "locked" {
		runtime.LockOSThread()
	}
	cpu := cpuNow()
	turns, total, longest, hist, err := loop(time.Duration(seconds * float64(time.Second)))
	cpu = cpuNow() - cpu
	stop.Store(true)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(w, "%d %d %d %d", turns, total, longest, cpu)
	for i, n := range hist {
		if n > 0 {
			fmt.Fprintf(w, " %d:%d", i, n)
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// cpuNow returns the processor time of all threads, in nanoseconds.
func cpuNow() int64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

type object struct {
	next *object
	_    [248]byte
}

var keep []*object

// allocate allocates a megabyte of objects every millisecond, and keeps 64 MiB of them live.
func allocate(stop *atomic.Bool) {
	const live = 1 << 18
	keep = make([]*object, live)
	at := uint32(0)
	for !stop.Load() {
		for range 4096 {
			k := at * 2654435761 % live
			at++
			keep[k] = &object{next: keep[(k+1)%live]}
			keep[k].next = nil
		}
		time.Sleep(time.Millisecond)
	}
}

func loop(d time.Duration) (turns, total, longest uint64, hist *[buckets]uint64, err error) {
	mem := make([]uint64, (blocks*64*2+8192)/8+8)
	base := unsafe.Pointer(unsafe.SliceData(mem))
	base = unsafe.Add(base, -uintptr(base)&63)
	cqBuf := unsafe.Add(base, blocks*64)
	db := unsafe.Add(cqBuf, blocks*64)
	for i := range blocks {
		*(*uint8)(unsafe.Add(cqBuf, i*64+63)) = 0xf0
	}
	const num, write, signaled = 0x123, 0, 2
	qps := new(mlx5.Table)
	qp := mlx5.NewQP(num, true, &mlx5.SQConfig{Buf: base, Blocks: blocks, DBRec: db, Reg: unsafe.Add(db, 4096),
		MaxWR: blocks, Opcodes: 1 << write}, nil, nil)
	qps.Add(qp)
	cq := mlx5.NewCQ(&mlx5.CQConfig{Num: 1, Buf: cqBuf, Entries: blocks, Size: 64, DBRec: unsafe.Add(db, 64),
		UAR: unsafe.Add(db, 128), QPs: qps})
	hist = new([buckets]uint64)
	wrs := []mlx5.SendWR{{Opcode: write, Flags: signaled, SGEs: []mlx5.SGE{{Addr: 1, Length: 64, LKey: 3}},
		Remote: mlx5.RemoteAddr{Addr: 4, RKey: 5}}}
	var wcs [1]mlx5.WC
	start := time.Now()
	var last time.Duration
	for i := uint32(0); last < d; {
		for range turn {
			wrs[0].ID = uint64(i)
			if qp.SQ.Build(&wrs[0], 1) != 1 {
				return 0, 0, 0, nil, errors.New("the queue is full")
			}
			qp.SQ.Ring()
			tail := uint64(0x08)<<56 | num<<32 | uint64(i&0xffff)<<16 | uint64(i/blocks&1)
			atomic.StoreUint64((*uint64)(unsafe.Add(cqBuf, uintptr(i%blocks)*64+56)), bits.ReverseBytes64(tail))
			for {
				n, err := cq.Poll(wcs[:])
				if err != nil {
					return 0, 0, 0, nil, err
				}
				if n > 0 {
					break
				}
			}
			if wcs[0].ID != uint64(i) {
				return 0, 0, 0, nil, errors.New("another work request completed")
			}
			i++
		}
		t := time.Since(start)
		v := uint64(t - last)
		last = t
		hist[bucket(v)]++
		longest = max(longest, v)
		turns++
	}
	runtime.KeepAlive(mem)
	return turns, uint64(last), longest, hist, nil
}

// run is the output of a side.
type run struct {
	turns, total, longest, cpu uint64
	hist                       [buckets]uint64
}

func parse(out string) (*run, error) {
	r := new(run)
	f := strings.Fields(out)
	if len(f) < 5 {
		return nil, fmt.Errorf("a loop said %q", out)
	}
	if _, err := fmt.Sscan(strings.Join(f[:4], " "), &r.turns, &r.total, &r.longest, &r.cpu); err != nil {
		return nil, err
	}
	for _, s := range f[4:] {
		var i int
		var n uint64
		if _, err := fmt.Sscanf(s, "%d:%d", &i, &n); err != nil || i < 0 || i >= buckets {
			return nil, fmt.Errorf("%q: %v", s, err)
		}
		r.hist[i] = n
	}
	return r, nil
}

// quantile returns the time below which a share q of the turns stays.
func (r *run) quantile(q float64) uint64 {
	want, n := uint64(q*float64(r.turns)), uint64(0)
	for i, c := range r.hist {
		if n += c; n > want {
			return value(i)
		}
	}
	return r.longest
}

// lost returns the share of the time spent in turns longer than 10 µs, which others have used.
func (r *run) lost() float64 {
	var ns float64
	for i, c := range r.hist {
		if v := value(i); v > 10_000 {
			ns += float64(v * c)
		}
	}
	return ns / float64(r.total)
}

// slow returns the number of turns a second that were longer than 2 µs.
func (r *run) slow() float64 {
	var n uint64
	for i, c := range r.hist {
		if value(i) > 2000 {
			n += c
		}
	}
	return float64(n) / (float64(r.total) / 1e9)
}
