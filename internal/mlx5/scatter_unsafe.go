package mlx5

import (
	"runtime/debug"
	"unsafe"
)

// scatter copies n bytes of a CQE to the memory that the scatter list of a receive describes. It returns a completion
// status.
func (cq *CQ) scatter(list unsafe.Pointer, segs int, n uint32, data []byte) uint32 {
	if n > uint32(len(data)) {
		return statusLocLen
	}
	data = data[:n]
	if cq.qps.watched.Load() {
		return carefully(func() uint32 { return scatterRecv(list, segs, data, cq.qps.null.Load()) })
	}
	if n > 0 && segs > 0 && get32(list, 0) >= n { // the common case
		copyShort(addrAt(get64(list, 8)), unsafe.Pointer(unsafe.SliceData(data)), uintptr(n))
		return 0
	}
	return scatterRecv(list, segs, data, noNull)
}

// noNull is the value of Table.null without a null MR.
const noNull = 0

// put copies what a data segment has room for to its memory, and returns the rest. What is for null MRs is lost.
//
// C: copy_to_scat (rdma-core v44.0, providers/mlx5/qp.c:67).
func put(seg unsafe.Pointer, data []byte, null uint64) []byte {
	m := min(uint32(len(data)), get32(seg, 0))
	if 1<<32|uint64(get32(seg, 4)) != null {
		copy(bytesAt(get64(seg, 8), m), data)
	}
	return data[m:]
}

func scatterRecv(list unsafe.Pointer, segs int, data []byte, null uint64) uint32 {
	for i := 0; i < segs && len(data) > 0; i++ {
		if get32(list, 0) == 0 && get32(list, 4) == invalidLKey {
			break
		}
		data = put(list, data, null)
		list = unsafe.Add(list, segSize)
	}
	if len(data) > 0 {
		return statusLocLen
	}
	return 0
}

// carefully runs f, which copies to memory that may not be mapped any more, because the device pages it in on demand.
// Then the status is that of a protection error.
func carefully(f func() uint32) (status uint32) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		switch err := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			status = statusLocProt
		default:
			panic(err)
		}
	}()
	return f()
}

// scatterSend copies the result of a small read or atomic to the memory that its WQE describes. It returns a completion
// status, and false if the WQE is of an opcode without a result.
func (cq *CQ) scatterSend(q *QP, counter, n uint32, data []byte) (uint32, bool) {
	if !q.RC {
		return 0, false
	}
	p := q.SQ.block(counter)
	skip := int(resultAt[uint8(get32(p, 0))])
	if skip == 0 {
		return 0, false
	}
	if n > uint32(len(data)) {
		return statusLocLen, true
	}
	segs := int(get32(p, 4)&maxDS) - skip
	p = unsafe.Add(p, skip*segSize) // still in the first block
	if cq.qps.watched.Load() {
		return carefully(func() uint32 { return q.SQ.result(p, segs, data[:n], cq.qps.null.Load()) }), true
	}
	return q.SQ.result(p, segs, data[:n], noNull), true
}

// result copies data to the memory of the data segments at p, which may continue at the start of the ring.
func (q *SQ) result(p unsafe.Pointer, segs int, data []byte, null uint64) uint32 {
	for ; segs > 0 && len(data) > 0; segs-- {
		if p == q.end {
			p = q.buf
		}
		data = put(p, data, null)
		p = unsafe.Add(p, segSize)
	}
	if len(data) > 0 {
		return statusLocLen
	}
	return 0
}

// addrAt returns addr as a pointer.
func addrAt(addr uint64) unsafe.Pointer {
	a := uintptr(addr)
	return *(*unsafe.Pointer)(unsafe.Pointer(&a))
}
