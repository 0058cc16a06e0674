package mlx5

import "unsafe"

// scatter copies n bytes of a CQE to the memory that a scatter list describes. It returns a completion status.
func scatter(list unsafe.Pointer, segs int, n uint32, data []byte) uint32 {
	if n > uint32(len(data)) {
		return statusLocLen
	}
	data = data[:n]
	if n > 0 && segs > 0 && get32(list, 0) >= n { // the common case
		copyShort(addrAt(get64(list, 8)), unsafe.Pointer(unsafe.SliceData(data)), uintptr(n))
		return 0
	}
	for i := 0; i < segs && len(data) > 0; i++ {
		size, key := get32(list, 0), get32(list, 4)
		if key == invalidLKey && size == 0 {
			break
		}
		m := min(uint32(len(data)), size)
		copy(bytesAt(get64(list, 8), m), data)
		data = data[m:]
		list = unsafe.Add(list, segSize)
	}
	if len(data) > 0 {
		return statusLocLen
	}
	return 0
}

// scatterSend copies the result of a small read or atomic to the memory that its WQE describes. It returns a completion
// status, and false if the WQE is of an opcode without a result.
func (q *QP) scatterSend(counter, n uint32, data []byte) (uint32, bool) {
	if !q.RC {
		return 0, false
	}
	s := &q.SQ
	p := s.block(counter)
	skip := 2 // control, remote address
	switch uint8(get32(p, 0)) {
	case opRead:
	case opAtomicCS, opAtomicFA:
		skip = 3
	default:
		return 0, false
	}
	if n > uint32(len(data)) {
		return statusLocLen, true
	}
	segs := int(get32(p, 4)&maxDS) - skip
	p = unsafe.Add(p, skip*segSize) // still in the first block
	data = data[:n]
	for ; segs > 0 && len(data) > 0; segs-- {
		if p == s.end {
			p = s.buf
		}
		m := min(uint32(len(data)), get32(p, 0))
		copy(bytesAt(get64(p, 8), m), data)
		data = data[m:]
		p = unsafe.Add(p, segSize)
	}
	if len(data) > 0 {
		return statusLocLen, true
	}
	return 0, true
}

// addrAt returns addr as a pointer.
func addrAt(addr uint64) unsafe.Pointer {
	a := uintptr(addr)
	return *(*unsafe.Pointer)(unsafe.Pointer(&a))
}
