package ibv

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// clockPage is where a file of mlx5's driver has the page that relates ticks to time: MLX5_IB_MMAP_CLOCK_INFO << 8
// pages.
const clockPage = 7 << 8 * 4096

// clockPages returns where this process has mapped such pages, to read them.
func clockPages(t *testing.T) map[uintptr]bool {
	t.Helper()
	pages := make(map[uintptr]bool)
	f := must(os.Open("/proc/self/maps"))(t)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var begin, end uintptr
		var mode string
		var offset int64
		_, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x", &begin, &end, &mode, &offset)
		if err == nil && end-begin == 4096 && mode == "r--s" && offset == clockPage {
			pages[begin] = true
		}
	}
	ok(t, lines.Err())
	return pages
}

// updating puts a page of the test's own in the place of a clock's page. The result starts and ends an update by the
// kernel, which libmlx5 reports as EBUSY.
func updating(t *testing.T, page uintptr) func(now bool) {
	t.Helper()
	at := *(*unsafe.Pointer)(unsafe.Pointer(&page))
	old := *(*[4096]byte)(at)
	if _, err := unix.MmapPtr(-1, 0, at, 4096, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_FIXED|unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		t.Fatal(err)
	}
	*(*[4096]byte)(at) = old
	sign := (*uint32)(at)
	return func(now bool) {
		*sign &^= 1
		if now {
			*sign |= 1
		}
	}
}

// TestRXE_WallClockUpdate polls while the kernel is updating how ticks relate to time: completions come, once, with
// their time, and the CQ can be used and closed afterwards.
func TestRXE_WallClockUpdate(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if soft(rxe) {
		t.Skip("SoftRoCE has no wall clock")
	}
	for _, path := range []DataPath{DataPathOps, DataPathAuto} {
		t.Run(path.String(), func(t *testing.T) { wallClockUpdate(t, rxe, path) })
	}
}

func wallClockUpdate(t *testing.T, rxe testutil.RXE, path DataPath) {
	before := clockPages(t)
	s := newSide(t, 0, &CQOptions{DataPath: path, Fields: FieldsStandard | FieldWallClock})
	qp := s.newQP(t, nil)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	var update []func(bool)
	for page := range clockPages(t) {
		if !before[page] {
			update = append(update, updating(t, page))
		}
	}
	if len(update) == 0 {
		t.Fatal("no clock is mapped")
	}
	id := uint64(0)
	for round := range 4 {
		for _, f := range update {
			f(round%2 == 1)
		}
		var wrs []SendWR
		for range 5 {
			wrs = append(wrs, write(s, id, Signaled))
			id++
		}
		post(t, qp, wrs...)
		for next := id - 5; next < id; {
			var wcs [2]WCEx
			n := must(s.cq.WaitEx(timeout(t), wcs[:]))(t)
			for _, wc := range wcs[:n] {
				d := time.Since(time.Unix(0, int64(wc.WallClock)))
				if wc.ID != next || wc.Status != WCSuccess || d < -time.Hour || d > time.Hour {
					t.Fatalf("round %d: %+v, %v ago, want the completion of %d", round, wc, d, next)
				}
				next++
			}
		}
		if n := must(s.cq.PollEx(make([]WCEx, 4)))(t); n != 0 {
			t.Fatalf("round %d: %d more completions", round, n)
		}
	}
	ok(t, qp.Close())
}
