//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// What was hashed, in a completion: two bits each for IP and for the ports. C: CQE_RSS_HTYPE_*.
const (
	hashedIPv4, hashedIPv6 = 1 << 2, 2 << 2
	hashedTCP, hashedUDP   = 1 << 6, 2 << 6
)

// spread returns the queue that the frame is for by its hash, and the hash.
func (sw *switcher) spread(r *hca.RSS) (q *hca.QP, hash uint32, kind uint8) {
	var buf [2*16 + 4]byte
	in, kind := sw.frames.heads.hashed(buf[:0], r.Fields)
	if kind != 0 {
		hash = toeplitz(r.Key, in)
	}
	return r.Queues[hash&uint32(len(r.Queues)-1)], hash, kind
}

// hashed appends the fields of a frame that are hashed, in the order of the headers, and tells which they are. A frame
// that lacks one kind of them has none.
func (h *headers) hashed(b []byte, fields uint64) ([]byte, uint8) {
	kind := uint8(0)
	for _, x := range [...]struct {
		src, dst uint64
		spec     uint32
		from, to int // where they are in the fields of the header: a rule's filter has the destination port first
		n        int
		is       uint8
	}{
		{hca.HashSrcIPv4, hca.HashDstIPv4, hca.SpecIPv4, 0, 4, 4, hashedIPv4},
		{hca.HashSrcIPv6, hca.HashDstIPv6, hca.SpecIPv6, 0, 16, 16, hashedIPv6},
		{hca.HashSrcPortTCP, hca.HashDstPortTCP, hca.SpecTCP, 2, 0, 2, hashedTCP},
		{hca.HashSrcPortUDP, hca.HashDstPortUDP, hca.SpecUDP, 2, 0, 2, hashedUDP},
	} {
		if fields&(x.src|x.dst) == 0 {
			continue
		}
		header := h.fields(x.spec)
		if header == nil {
			return nil, 0
		}
		if fields&x.src != 0 {
			b = append(b, header[x.from:][:x.n]...)
		}
		if fields&x.dst != 0 {
			b = append(b, header[x.to:][:x.n]...)
		}
		kind |= x.is
	}
	return b, kind
}

// toeplitz is the hash: for each bit of the input that is set, the 32 bits of the key from that bit's place on.
func toeplitz(key, in []byte) (hash uint32) {
	window, rest := binary.BigEndian.Uint32(key), key[4:]
	for i, b := range in {
		next := byte(0)
		if i < len(rest) {
			next = rest[i]
		}
		for bit := 7; bit >= 0; bit-- {
			if b>>bit&1 != 0 {
				hash ^= window
			}
			window = window<<1 | uint32(next>>bit&1)
		}
	}
	return hash
}
