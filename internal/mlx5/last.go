package mlx5

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The rings remember what was posted last: entries stay as they are until the queue has come around. libmlx5's rings
// have the same format, but IDs and outcomes are not in them.

// Sent is a send work request that a ring still has.
type Sent struct {
	WQE
	Outcome           Outcome
	Status, VendorErr uint32
	Damaged           bool // it is not what was written there
}

// Received is a receive work request that a ring still has.
type Received struct {
	RecvWR
	Index             uint16
	Outcome           Outcome
	Status, VendorErr uint32
}

// The longest WQE.
const (
	maxWQE    = maxDS * segSize
	maxBlocks = (maxWQE + blockSize - 1) / blockSize
)

// sendRing is the memory of a send queue: a power of two of blocks.
type sendRing []byte

func (r sendRing) blocks() uint32 { return uint32(len(r) >> blockShift) }

// read copies the blocks from i on to b.
func (r sendRing) read(i uint32, b []byte) {
	at := int(i&(r.blocks()-1)) << blockShift
	copy(b[copy(b, r[at:]):], r)
}

// parse reads the WQE that takes n blocks from block i on.
func (r sendRing) parse(i, n uint32, form Form, completion uint64) (s Sent) {
	var b [maxWQE]byte
	w := b[:min(int(n)<<blockShift, maxWQE)]
	r.read(i, w)
	s.WQE = ParseWQE(w, form, completion)
	return s
}

// begins reports whether a WQE of the QP begins at block i and takes n blocks.
func (r sendRing) begins(i, n, qpn uint32) bool {
	var b [8]byte
	r.read(i, b[:])
	head := binary.BigEndian.Uint64(b[:])
	ds := uint32(head & maxDS)
	return uint16(head>>40) == uint16(i) && uint32(head>>8)&numberMask == qpn && ds > 0 && (ds+3)/4 == n
}

// LastSends returns the last work requests, at most n, that a send queue of libmlx5 still has, the oldest first. record
// is its doorbell record.
//
// A WQE is found by its control segment. After a reset indices begin again, and within a WQE, which is not written
// completely, an older WQE may remain. It is part of no chain that goes back to the WQEs themselves.
func LastSends(ring []byte, record uint16, qpn uint32, form Form, n int) (sent []Sent) {
	r := sendRing(ring)
	if !whole(len(ring), blockSize) {
		return nil
	}
	size := min(uint32(min(n, len(ring))*maxBlocks+4*maxBlocks), r.blocks())
	from := uint32(record) - size
	chain := make([]struct{ covers, last uint32 }, size+1) // that ends there: its blocks, and those of its last WQE
	for end := uint32(1); end <= size; end++ {
		c := &chain[end]
		for k := uint32(1); k <= min(end, maxBlocks); k++ {
			if covers := chain[end-k].covers + k; covers >= c.covers && r.begins(from+end-k, k, qpn) {
				c.covers, c.last = covers, k
			}
		}
	}
	for end := size; chain[end].last > 0 && len(sent) < n; end -= chain[end].last {
		k := chain[end].last
		at := from + end - k
		if uint32(record)-at == r.blocks() {
			break // the next block: a refused work request may be there
		}
		sent = append(sent, r.parse(at, k, form, 0))
	}
	slices.Reverse(sent)
	return sent
}

// LastRecvs is LastSends for a receive queue of entries of stride bytes. It ends at an entry that was never written.
func LastRecvs(ring []byte, stride int, record uint16, n int) (received []Received) {
	if stride < segSize || !whole(len(ring), stride) {
		return nil
	}
	count := len(ring) / stride
	for i := int(record) - 1; len(received) < min(n, count); i-- {
		b := ring[i&(count-1)*stride:][:stride]
		if binary.BigEndian.Uint64(b)|binary.BigEndian.Uint64(b[8:]) == 0 {
			break
		}
		received = append(received, Received{RecvWR: RecvWR{SGEs: ParseRecv(b)}, Index: uint16(i)})
	}
	slices.Reverse(received)
	return received
}

// whole reports whether a ring of so many bytes has a power of two of entries of a size.
func whole(bytes, size int) bool {
	return bytes > 0 && bytes%size == 0 && bits.OnesCount(uint(bytes/size)) == 1
}
