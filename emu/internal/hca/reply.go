//go:build linux

package hca

import (
	"bytes"
	"math/rand/v2"
)

// Reply says how the answer of a command is spoiled, as no kernel does it. The zero value leaves it as it is.
type Reply struct {
	How  ReplyFault
	Seed uint64 // of the random bytes
}

// ReplyFault is a way to spoil an answer.
type ReplyFault uint8

// The ways.
const (
	ReplyGood   ReplyFault = iota
	ReplyShort             // the second half of each part is not written
	ReplyLong              // the rest of its room is ones, and a write() took more than it was given
	ReplyRandom            // all bytes are random
)

// Bytes returns what is written in place of b.
func (r *Reply) Bytes(b []byte) []byte {
	switch r.How {
	case ReplyShort:
		return b[:len(b)/2]
	case ReplyRandom:
		r.Seed++
		b = bytes.Clone(b)
		// A descriptor is then beyond those that a program has: whoever is given one of its own may close it.
		for i, g := 0, rand.New(rand.NewPCG(r.Seed, 0)); i < len(b); i++ {
			b[i] = byte(g.Uint32()) | 0x10
		}
	}
	return b
}

// Fill returns b, continued to n bytes if the answer is too long.
func (r *Reply) Fill(b []byte, n int) []byte {
	if r.How == ReplyLong && len(b) < n {
		b = append(bytes.Clone(b), bytes.Repeat([]byte{0xff}, n-len(b))...)
	}
	return b
}

// Taken returns how many bytes a write() of n reports.
func (r *Reply) Taken(n int64) int64 {
	if r.How == ReplyLong {
		n += 8
	}
	return n
}
