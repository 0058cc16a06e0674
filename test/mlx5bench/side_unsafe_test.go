//go:build linux && amd64

package mlx5bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/loader"
)

// The measurements of testdata/bench.c, made with ibv. The names are the same.

const (
	fillWRs  = 512
	warmUp   = fillWRs / 4 // not counted: after the sleep before it, caches are cold and clocks are low
	batch    = 16
	payload  = 64
	inlined  = 32
	pageSize = 4096
)

// end is a QP with its CQ.
type end struct {
	cq     *ibv.CQ
	qp     *ibv.QP
	dcq    abi.MLX5DVCQ
	dqp    abi.MLX5DVQP
	polled uint32
	bell   uintptr // the page that the device reads
}

// side holds two connected ends and the work requests that they post.
type side struct {
	a, b    end
	writes  []ibv.SendWR
	inlines []ibv.SendWR
	recvs   []ibv.RecvWR
	sge     ibv.SGE
	to      ibv.RemoteAddr
	wcs     []ibv.WC
	samples map[string][]float64
}

func newSide(device string, gid int) (*side, error) {
	dev, err := ibv.Open(device)
	if err != nil {
		return nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	mr, err := pd.AllocMR(pageSize, ibv.LocalWrite|ibv.RemoteWrite, nil)
	if err != nil {
		return nil, err
	}
	s := &side{wcs: make([]ibv.WC, batch), samples: map[string][]float64{}}
	for _, e := range []*end{&s.a, &s.b} {
		if err := e.open(pd); err != nil {
			return nil, err
		}
	}
	ea, err := s.a.qp.Endpoint(1, gid)
	if err != nil {
		return nil, err
	}
	eb, err := s.b.qp.Endpoint(1, gid)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.a.qp.Connect(eb, nil), s.b.qp.Connect(ea, nil)); err != nil {
		return nil, err
	}
	if err := s.a.divert(); err != nil {
		return nil, err
	}
	if s.b.dqp.BF.Reg&^(pageSize-1) != s.a.dqp.BF.Reg&^(pageSize-1) {
		if err := s.b.divert(); err != nil {
			return nil, err
		}
	}
	s.sge, s.to = mr.SGE(0, payload), mr.Remote().At(2048)
	for i := range uint64(batch) {
		s.writes = append(s.writes, ibv.SendWR{ID: i, Opcode: ibv.OpWrite, Flags: ibv.Signaled,
			SGEs: []ibv.SGE{s.sge}, Remote: s.to})
		s.inlines = append(s.inlines, ibv.SendWR{ID: i, Opcode: ibv.OpSend, Flags: ibv.Signaled,
			Inline: mr.Bytes()[:inlined]})
		s.recvs = append(s.recvs, ibv.RecvWR{ID: i, SGEs: []ibv.SGE{mr.SGE(1024, payload)}})
	}
	return s, nil
}

func (e *end) open(pd *ibv.PD) (err error) {
	unlocked := os.Getenv("MLX5_SINGLE_THREADED") != "" // as for libmlx5
	if e.cq, err = pd.Device().CreateCQ(fillWRs, &ibv.CQOptions{NoEvents: true, DataPath: ibv.DataPathDirect,
		SingleThreaded: unlocked}); err != nil {
		return err
	}
	o := &ibv.QPOptions{MaxSendWR: fillWRs, MaxRecvWR: fillWRs, MaxInline: inlined, SingleThreaded: unlocked}
	if e.qp, err = pd.CreateQP(e.cq, e.cq, o); err != nil {
		return err
	}
	return rings(e.cq, e.qp, &e.dcq, &e.dqp)
}

// rings gets the rings of cq and qp, which only this test accesses directly.
func rings(cq *ibv.CQ, qp *ibv.QP, dcq *abi.MLX5DVCQ, dqp *abi.MLX5DVQP) error {
	lib, err := loader.Open(loader.MLX5)
	if err != nil {
		return err
	}
	initObj, err := lib.Symbol("mlx5dv_init_obj")
	if err != nil {
		return err
	}
	handle := func(of any) uintptr { return uintptr(reflect.ValueOf(of).Elem().FieldByName("handle").Uint()) }
	obj := &abi.MLX5DVObj{
		CQ: abi.MLX5DVInOut{In: handle(cq), Out: uintptr(unsafe.Pointer(dcq))},
		QP: abi.MLX5DVInOut{In: handle(qp), Out: uintptr(unsafe.Pointer(dqp))},
	}
	pinned = obj
	return ccall.Err(initObj, uintptr(unsafe.Pointer(obj)), abi.MLX5DV_OBJ_CQ|abi.MLX5DV_OBJ_QP)
}

var pinned *abi.MLX5DVObj // on the heap, which does not move

// divert maps ordinary memory in place of the doorbell page, and the page elsewhere.
func (e *end) divert() error {
	const mayMove, prot = 1, syscall.PROT_READ | syscall.PROT_WRITE
	const anon = syscall.MAP_PRIVATE | syscall.MAP_ANONYMOUS
	page := e.dqp.BF.Reg &^ (pageSize - 1)
	moved, _, errno := syscall.Syscall6(syscall.SYS_MMAP, 0, pageSize, syscall.PROT_NONE, anon, ^uintptr(0), 0)
	if errno != 0 {
		return errno
	}
	const fixed = 2
	if e.bell, _, errno = syscall.Syscall6(syscall.SYS_MREMAP, page, pageSize, pageSize, mayMove|fixed, moved,
		0); errno != 0 {
		return errno
	}
	if _, _, errno = syscall.Syscall6(syscall.SYS_MMAP, page, pageSize, prot, anon|syscall.MAP_FIXED, ^uintptr(0),
		0); errno != 0 {
		return errno
	}
	return nil
}

func at[T any](addr uintptr) *T { return *(**T)(unsafe.Pointer(&addr)) }

// ring passes the last doorbell on to the device.
func (e *end) ring() {
	page := e.dqp.BF.Reg &^ (pageSize - 1)
	for off := uintptr(0x800); off < pageSize; off += 0x100 {
		if v := at[uint64](page + off); *v != 0 {
			atomic.StoreUint64(at[uint64](e.bell+off), *v)
			*v = 0
		}
	}
}

// tail returns the word with the owner bit of completion i.
func (e *end) tail(i uint32) uint32 {
	return atomic.LoadUint32(at[uint32](e.dcq.Buf + uintptr(i%e.dcq.CQECnt+1)*uintptr(e.dcq.CQESize) - 4))
}

// wait waits until the device has written n completions.
func (e *end) wait(n uint32) error {
	last := e.polled + n - 1
	for range 500_000 {
		if own := byte(e.tail(last) >> 24); own>>4 != 15 && uint32(own&1) == last/e.dcq.CQECnt&1 {
			return nil
		}
		time.Sleep(20 * time.Microsecond)
	}
	return errors.New("no completions")
}

// The memory that the emulated device wrote is in the cache of another CPU.

func (e *end) fetchCQEs(n uint32) {
	for i := range n {
		e.tail(e.polled + i)
	}
}

func own(addr, n uintptr) {
	for p := addr; p < addr+n; p += 64 {
		w := at[uint32](p)
		atomic.StoreUint32(w, atomic.LoadUint32(w))
	}
}

func (e *end) ownSQ() {
	own(e.dqp.SQ.Buf, uintptr(e.dqp.SQ.WQECnt*e.dqp.SQ.Stride))
	own(e.dqp.DBRec, 8)
	own(e.dcq.DBRec, 8)
}

func (e *end) ownRQ() {
	own(e.dqp.RQ.Buf, uintptr(e.dqp.RQ.WQECnt*e.dqp.RQ.Stride))
	own(e.dqp.DBRec, 8)
	own(e.dcq.DBRec, 8)
}

// timed calls loop for the warm-up and then for the rest of a fill, which it times. The loops have what a user's loop
// has and nothing else, because Go keeps what is alive across a call on the stack. Those of bench.c are the same.
func (s *side) timed(name, kind string, loop func(n int) error) error {
	if err := loop(warmUp); err != nil {
		return err
	}
	start := time.Now()
	err := loop(fillWRs - warmUp)
	took := float64(time.Since(start).Nanoseconds())
	s.samples[name+kind] = append(s.samples[name+kind], took/(fillWRs-warmUp))
	return err
}

func postSends(qp *ibv.QP, wrs []ibv.SendWR, n int) error {
	for ; n > 0; n -= len(wrs) {
		if _, err := qp.PostSend(wrs); err != nil {
			return err
		}
	}
	return nil
}

func postRecvs(qp *ibv.QP, wrs []ibv.RecvWR, n int) error {
	for ; n > 0; n -= len(wrs) {
		if _, err := qp.PostRecv(wrs); err != nil {
			return err
		}
	}
	return nil
}

func postBatches(b *ibv.Batch, s ibv.SGE, to ibv.RemoteAddr, n int) error {
	for ; n > 0; n -= batch {
		for i := range uint64(batch) {
			b.Write(i, ibv.Signaled, s, to)
		}
		if err := b.Post(); err != nil {
			return err
		}
	}
	return nil
}

var errPolled = errors.New("a poll that did not return what was asked for")

func polls(cq *ibv.CQ, wcs []ibv.WC, n int) error {
	for ; n > 0; n -= len(wcs) {
		if got, err := cq.Poll(wcs); got != len(wcs) || err != nil || wcs[0].Status != ibv.WCSuccess {
			return errors.Join(errPolled, err)
		}
	}
	return nil
}

func pollsEmpty(cq *ibv.CQ, wcs []ibv.WC, n int) error {
	for ; n > 0; n-- {
		if got, err := cq.Poll(wcs); got != 0 || err != nil {
			return errors.Join(errPolled, err)
		}
	}
	return nil
}

func (s *side) postSend(e *end, name, kind string, wrs []ibv.SendWR) error {
	return s.timed(name, kind, func(n int) error { return postSends(e.qp, wrs, n) })
}

func (s *side) postBatch(e *end, name, kind string) error {
	b := e.qp.Batch()
	return s.timed(name, kind, func(n int) error { return postBatches(b, s.sge, s.to, n) })
}

func (s *side) postRecv(e *end, name, kind string, wrs []ibv.RecvWR) error {
	return s.timed(name, kind, func(n int) error { return postRecvs(e.qp, wrs, n) })
}

func (s *side) poll(e *end, name, kind string, wcs []ibv.WC) error {
	if err := s.timed(name, kind, func(n int) error { return polls(e.cq, wcs, n) }); err != nil {
		return err
	}
	e.polled += fillWRs
	for i := range wcs {
		if err := wcs[i].Err(); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) pollEmpty(e *end, kind string) error {
	return s.timed("pollempty", kind, func(n int) error { return pollsEmpty(e.cq, s.wcs, n) })
}

func (s *side) fillWrites(n int, name, temp string, builder bool) error {
	if temp == "" {
		s.a.ownSQ()
	}
	var err error
	if builder {
		err = s.postBatch(&s.a, "batch"+name, temp)
	} else {
		err = s.postSend(&s.a, "post"+name, temp, s.writes[:n])
	}
	if err != nil {
		return err
	}
	s.a.ring()
	if err := s.a.wait(fillWRs); err != nil {
		return err
	}
	if temp == "" {
		s.a.ownSQ()
		s.a.fetchCQEs(fillWRs)
	}
	if err := s.poll(&s.a, "poll"+name, temp, s.wcs[:n]); err != nil {
		return err
	}
	return s.pollEmpty(&s.a, "")
}

func (s *side) fillSends(n int, name, temp string) error {
	a, b := &s.a, &s.b
	if temp == "" {
		b.ownRQ()
	}
	if err := s.postRecv(b, "post"+name, "_recv"+temp, s.recvs[:n]); err != nil {
		return err
	}
	if temp == "" {
		a.ownSQ()
	}
	if err := s.postSend(a, "post"+name, "_inline32"+temp, s.inlines[:n]); err != nil {
		return err
	}
	a.ring()
	if err := errors.Join(a.wait(fillWRs), b.wait(fillWRs)); err != nil {
		return err
	}
	if temp == "" {
		a.ownSQ()
		a.fetchCQEs(fillWRs)
	}
	if err := s.poll(a, "poll"+name, "_inline32"+temp, s.wcs[:n]); err != nil {
		return err
	}
	if err := s.pollEmpty(a, "_inline32"); err != nil {
		return err
	}
	if temp == "" {
		b.ownRQ()
		b.fetchCQEs(fillWRs)
	}
	if err := s.poll(b, "poll"+name, "_recv"+temp, s.wcs[:n]); err != nil {
		return err
	}
	return s.pollEmpty(b, "_recv")
}

// serve answers each line "WHO FILLS" in the same way as bench.c.
func (s *side) serve(in io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var who string
		var fills int
		if _, err := fmt.Sscan(lines.Text(), &who, &fills); err != nil {
			return err
		}
		clear(s.samples)
		for range fills {
			for _, temp := range []string{"", "_cold"} {
				err := errors.Join(s.fillWrites(1, "1", temp, false), s.fillWrites(batch, "16", temp, false),
					s.fillWrites(batch, "16", temp, true),
					s.fillSends(1, "1", temp), s.fillSends(batch, "16", temp))
				if err != nil {
					return err
				}
			}
		}
		for name, v := range s.samples {
			fmt.Fprintf(out, "%s %.3f\n", name, slices.Min(v))
		}
		fmt.Fprintln(out, "end")
	}
	return nil
}

func runSide(device string, gid int) error {
	s, err := newSide(device, gid)
	if err != nil {
		return err
	}
	return s.serve(os.Stdin, os.Stdout)
}
