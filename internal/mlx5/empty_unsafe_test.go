package mlx5

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/dma"
)

// Empty agrees with Poll at every place of the ring, on its first lap and on later ones, for both sizes of entries.
func TestEmptyLaps(t *testing.T) {
	for _, size := range []uint32{64, 128} {
		const entries = 8
		mem := make([]uint64, 64*64/8+64)
		buf := unsafe.Pointer(&mem[0])
		db := unsafe.Pointer(&mem[len(mem)-32])
		tab := new(Table)
		q := NewQP(5, true, &SQConfig{Buf: buf, Blocks: 64, DBRec: db, Reg: db, MaxWR: 64}, nil, nil)
		tab.Add(q)
		cq := NewCQ(&CQConfig{Buf: buf, Entries: entries, Size: size, DBRec: db, UAR: db, QPs: tab})
		for i := range uint32(entries) {
			*(*uint8)(unsafe.Add(cq.entry(i), offOpOwn)) = cqeInvalid << 4
		}
		var wcs [1]WC
		for pi := range uint32(5 * entries) {
			if !cq.Empty() {
				t.Fatalf("size %d, entry %d: not empty", size, pi)
			}
			q.SQ.commit(1, 1)
			put64(cq.entry(pi), offTail, opSend<<56|5<<32|uint64(pi&0xffff)<<16|uint64(pi/entries&1))
			if cq.Empty() {
				t.Fatalf("size %d, entry %d: empty", size, pi)
			}
			cq.Hide()
			if n, err := cq.Poll(wcs[:]); n != 1 || err != nil || cq.Empty() {
				t.Fatalf("size %d, entry %d: %d completions, error %v; empty though hidden: %v", size, pi, n,
					err, cq.Empty())
			}
			cq.Show()
		}
		// The CQ is not empty while an error is to be returned by the next call.
		q.SQ.commit(1, 1)
		put64(cq.entry(5*entries), offTail, opSend<<56|5<<32|5*entries<<16|5&1)
		put64(cq.entry(5*entries+1), offTail, opSend<<56|6<<32|5&1)
		var two [2]WC
		if n, err := cq.Poll(two[:]); n != 1 || err != nil || cq.Empty() {
			t.Fatalf("%d completions, error %v; empty before the error: %v", n, err, cq.Empty())
		}
		if n, err := cq.Poll(two[:]); n != 0 || err == nil || !cq.Empty() {
			t.Fatalf("%d completions, error %v; not empty afterwards: %v", n, err, !cq.Empty())
		}
	}
}

// Rings are freed while others poll: after Quiesce nobody reads them.
func TestEmptyWhileFreed(t *testing.T) {
	before := runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	defer runtime.GOMAXPROCS(before)
	const entries = 16
	tab := new(Table)
	var cq atomic.Pointer[CQ]
	var looks atomic.Uint64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c := cq.Load()
				for range 1000 {
					if c != nil {
						c.Empty()
					}
				}
				looks.Add(1)
			}
		})
	}
	for range 200 {
		m, err := dma.Alloc(entries*64+64, nil)
		if err != nil {
			t.Fatal(err)
		}
		buf := unsafe.Pointer(unsafe.SliceData(m.Bytes()))
		db := unsafe.Add(buf, entries*64)
		c := NewCQ(&CQConfig{Buf: buf, Entries: entries, Size: 64, DBRec: db, UAR: db, QPs: tab})
		*(*uint8)(unsafe.Add(buf, 63)) = cqeInvalid << 4
		cq.Store(c)
		for had := looks.Load(); looks.Load() < had+2; { // somebody looks at this one
			time.Sleep(10 * time.Microsecond)
		}
		c.Hide()
		Quiesce()
		if err := m.Free(); err != nil { // whoever looks now crashes
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

// While another goroutine consumes completions as fast as a device writes them, Empty never returns true, since there
// is at least one at any time.
func TestEmptyIsTrue(t *testing.T) {
	before := runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	defer runtime.GOMAXPROCS(before)
	const entries = 4
	mem := make([]uint64, entries*8+64)
	buf := unsafe.Pointer(&mem[0])
	db := unsafe.Pointer(&mem[len(mem)-32])
	cq := NewCQ(&CQConfig{Buf: buf, Entries: entries, Size: 64, DBRec: db, UAR: db, QPs: new(Table)})
	for i := range uint32(entries) {
		*(*uint8)(unsafe.Add(cq.entry(i), offOpOwn)) = cqeInvalid << 4
	}
	opOwn := func(i uint32) *uint64 { return (*uint64)(unsafe.Add(cq.entry(i), offTail)) }
	write := func(pi uint32) { atomic.StoreUint64(opOwn(pi), uint64(pi/entries&1)<<56) }
	write(0)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { // the device and a poller: there is always one completion at least
		for pi := uint32(1); !stop.Load(); pi++ {
			write(pi)
			publish32(&cq.ci, pi)
		}
	})
	for range 300000 {
		if cq.Empty() {
			t.Error("empty, but there was a completion all the time")
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}

// A device writes entries while a poller looks at them, on the first lap, where an entry that was never written has the
// owner bit of this lap.
func TestPollWhileWritten(t *testing.T) {
	for range 500 {
		r := newRing()
		q, cq, _ := r.open(5)
		for i := range uint64(testBlocks) {
			q.SQ.commit(i, 1)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range uint64(testEntries) {
				tail := (*uint64)(unsafe.Add(cq.entry(uint32(i)), offTail))
				atomic.StoreUint64(tail, bits.ReverseBytes64(opWrite<<56|5<<32|i<<16))
			}
		})
		var wcs [16]WC
		for id := uint64(0); id < testEntries; {
			n, err := cq.Poll(wcs[:])
			if err != nil {
				t.Fatal(err)
			}
			for _, wc := range wcs[:n] {
				if wc.ID != id {
					t.Fatalf("completion of %d, want %d", wc.ID, id)
				}
				id++
			}
			if n == 0 {
				runtime.Gosched()
			}
		}
		wg.Wait()
	}
}

// What Purge removes goes around the end of the ring, and the next entry is an old one of a QP that stays: Poll must
// not take it for new because it has the owner bit of the entry that it took last.
func TestPollAfterPurgeAroundEnd(t *testing.T) {
	r := newRing()
	stays, cq, tab := r.open(5)
	goes := NewQP(6, true, &SQConfig{Buf: r.sq, Blocks: testBlocks, DBRec: r.db, Reg: r.uar, MaxWR: testBlocks}, nil,
		nil)
	tab.Add(goes)
	for i := range uint64(testEntries) {
		stays.SQ.commit(i, 1)
	}
	var wcs [16]WC
	r.complete(0, testEntries-1, 5, opWrite)
	for got := 0; got < testEntries-1; {
		n, err := cq.Poll(wcs[:])
		if n == 0 || err != nil {
			t.Fatal(got, n, err)
		}
		got += n
	}
	for i := range uint64(8) { // in the places that old entries name
		stays.SQ.commit(i, 1)
	}
	r.complete(testEntries-1, 3, 6, opWrite)
	cq.Purge(goes)
	if n, err := cq.Poll(wcs[:]); n != 0 || err != nil {
		t.Fatalf("%d completions of work requests that were completed before, %v: %+v", n, err, wcs[0])
	}
	r.complete(testEntries+2, 1, 5, opWrite)
	if n, err := cq.Poll(wcs[:]); n != 1 || err != nil {
		t.Fatalf("%d new completions, %v", n, err)
	}
}
