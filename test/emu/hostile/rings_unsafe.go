//go:build linux

package main

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// at returns the n words of memory at an address from C.
func at[T any](addr uintptr, n int) []T {
	return unsafe.Slice((*T)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}

func garbage(b []byte) {
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
}

// rings writes garbage into rings, records and registers of working queues, and rings their doorbells.
func rings() error {
	dev, err := ibv.Open("")
	if err != nil {
		return err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	mr, err := pd.AllocMR(1<<16, ibv.LocalWrite|ibv.RemoteWrite|ibv.RemoteRead|ibv.RemoteAtomic, nil)
	if err != nil {
		return err
	}
	for round := range 24 {
		if err := ringRound(pd, mr, round); err != nil {
			return err
		}
	}
	return nil
}

// bigEndian is a data segment.
func bigEndian(n, key uint32, addr uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, n)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, key), addr)
}

func bigEndianWord(v uint64) uint64 {
	return binary.NativeEndian.Uint64(binary.BigEndian.AppendUint64(nil, v))
}

// ringRound does so to two QPs that are connected to each other. If the library would crash on the garbage, which it
// reads when it destroys a queue, ringRound leaves everything for the device to clean up.
func ringRound(pd *ibv.PD, mr *ibv.MR, round int) error {
	cq, err := pd.Device().CreateCQ(256, &ibv.CQOptions{DataPath: ibv.DataPathRaw})
	if err != nil {
		return err
	}
	c, err := mlx5dv.ViewCQ(cq)
	if err != nil {
		return err
	}
	dirty := round%4 == 3 || round%4 == 1
	opt := ibv.QPOptions{Type: []ibv.QPType{ibv.RC, ibv.UC, ibv.UD}[round%3]}
	var srq *ibv.SRQ
	var s *mlx5dv.SRQView
	if round%4 == 3 {
		if srq, err = pd.CreateSRQ(&ibv.SRQOptions{DataPath: ibv.DataPathRaw}); err != nil {
			return err
		}
		if s, err = mlx5dv.ViewSRQ(srq); err != nil {
			return err
		}
		opt.SRQ = srq
	}
	var qps [2]*ibv.QP
	var views [2]*mlx5dv.QPView
	var ends [2]ibv.Endpoint
	for i := range qps {
		if qps[i], err = pd.CreateQP(cq, cq, &opt); err != nil {
			return err
		}
		if ends[i], err = qps[i].Endpoint(1, ibv.BestGID); err != nil {
			return err
		}
	}
	for i := range qps {
		if err = qps[i].Connect(ends[1-i], nil); err != nil {
			return err
		}
		if views[i], err = mlx5dv.ViewQP(qps[i]); err != nil {
			return err
		}
	}
	v := views[0]
	garbage(v.SQ.Buf)
	if round%2 == 0 { // with control segments that are right, so that what follows is read
		for i := uint32(0); i < v.SQ.Count; i++ {
			v.Control(i, mlx5dv.WQEOpcode(rnd.IntN(64)), mlx5dv.WQEFlags(rnd.IntN(16)),
				byte(rnd.IntN(64)), rnd.Uint32())
		}
	}
	// Receives are garbage, but every second one points to the region.
	for _, ring := range []mlx5dv.Ring{views[0].RQ, views[1].RQ} {
		garbage(ring.Buf)
		for i := uint32(0); i < ring.Count; i += 2 {
			copy(ring.Entry(i), bigEndian(rnd.Uint32N(1<<17), mr.LKey(), mr.Addr()))
		}
	}
	if s != nil && round%8 == 3 {
		garbage(s.Buf)
	}
	for range 40 {
		record := at[uint32](v.DoorbellRecord, 2)
		record[0] = rnd.Uint32()
		at[uint32](views[1].DoorbellRecord, 2)[0] = rnd.Uint32()
		if s != nil {
			s.Ring(uint16(rnd.Uint32()))
		}
		v.RingSend(rnd.Uint32N(1<<16), rnd.Uint32N(v.SQ.Count))
		if rnd.IntN(4) == 0 {
			page := v.UAR &^ 4095
			for range 32 {
				at[uint64](page+uintptr(8*rnd.IntN(512)), 1)[0] = rnd.Uint64()
			}
		}
		// The QPN of the other QP, an unused one, or 0, through a register that is not the QP's own.
		at[uint64](v.UAR, 1)[0] = bigEndianWord(uint64(rnd.Uint32())<<32 | uint64(qps[rnd.IntN(2)].Num()+
			rnd.Uint32N(3))<<8 | uint64(rnd.IntN(64)))
		if dirty && rnd.IntN(4) == 0 {
			cqRecord := at[uint32](c.DoorbellRecord, 2)
			cqRecord[0], cqRecord[1] = rnd.Uint32(), rnd.Uint32()
			at[uint64](c.UAR+0x20, 1)[0] = rnd.Uint64()
			garbage(c.Buf[:64*rnd.IntN(64)])
		}
		time.Sleep(100 * time.Microsecond)
	}
	if round%6 == 5 { // what the device writes to goes away below it
		if _, _, e := unix.Syscall(unix.SYS_MPROTECT, uintptr(unsafe.Pointer(&c.Buf[0]))&^4095, 4096,
			unix.PROT_NONE); e != 0 {
			return e
		}
		v.RingSend(rnd.Uint32N(1<<16), 0)
		time.Sleep(time.Millisecond)
		if _, _, e := unix.Syscall(unix.SYS_MPROTECT, uintptr(unsafe.Pointer(&c.Buf[0]))&^4095, 4096,
			unix.PROT_READ|unix.PROT_WRITE); e != 0 {
			return e
		}
	}
	if dirty {
		return nil
	}
	for _, qp := range qps {
		if err := qp.Close(); err != nil {
			return err
		}
	}
	return cq.Close()
}
